// The view of problems: a list that draws only the rows in view, filters, a search over prompts and completions.

import { read, replace } from "./address";
import { button, h, select } from "./dom";
import { chosen, ordered, rate, says, SHOWN, SORTS, telling, type Item, type Query } from "./filters";
import { Detail } from "./problem";
import { chunk } from "./store";
import { paint } from "./theme";
import type { Page, Problem, Problems } from "./types";

const ROW = 58;
/** Chunks that a search unpacks at a time. */
const TOGETHER = 8;

export class ProblemsView {
  readonly element = h("section.problems");
  private query: Query;
  private shown: Item[] = [];
  private open: Item | null = null;
  private ticket = 0;
  private typing = 0;
  private readonly rows = h("div.rows", { id: "list", tabindex: 0, role: "listbox", "aria-label": "Problems" });
  private readonly count = h("span.count", { id: "count", role: "status" });
  private readonly controls = h("div.controls");
  private readonly detail: Detail;

  constructor(
    private readonly page: Page,
    private readonly data: Problems,
  ) {
    this.query = this.start();
    this.detail = new Detail(page, data, () => this.close(), (step) => this.move(step));
    this.build();
    this.rows.addEventListener("scroll", () => this.draw(), { passive: true });
    this.rows.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.rows);
    this.enter();
  }

  /** Follows the address: a link to a problem, or to a list. */
  enter(): void {
    const { of } = read();
    this.query = this.start();
    this.build();
    this.refresh();
    const set = Number(of.in ?? 0);
    const problem = this.data.sets[set]?.problems.findIndex(([id]) => id === of.id) ?? -1;
    if (of.id !== undefined && problem >= 0) this.choose({ set, problem }, true);
    else if (!this.open && this.isWide()) {
      const found = telling(this.data, this.shown);
      if (found) {
        this.detail.compare(found.model);
        this.choose(found.item, true);
      }
    }
  }

  /** Whether list and problem stand side by side; on a phone the list comes first. */
  private isWide(): boolean {
    return matchMedia("(min-width: 901px)").matches;
  }

  private start(): Query {
    const { of } = read();
    const model = Number(of.model ?? (this.data.models.length > 1 ? 1 : 0));
    return {
      set: of.set ?? (this.data.sets.length > 1 ? "all" : "0"),
      show: of.show ?? "all",
      model: this.data.models[model] === undefined ? 0 : model,
      low: Number(of.low ?? 0),
      high: Number(of.high ?? 100),
      sort: of.sort ?? "order",
      words: of.q ?? "",
    };
  }

  private remember(): void {
    const { set, show, model, low, high, sort, words } = this.query;
    const id = this.open ? this.problem(this.open)[0] : "";
    replace("problems", {
      set: this.data.sets.length > 1 && set !== "all" ? set : "",
      show: show === "all" ? "" : show,
      model: model > 1 ? String(model) : "",
      low: low > 0 ? String(low) : "",
      high: high < 100 ? String(high) : "",
      sort: sort === "order" ? "" : sort,
      q: words,
      in: this.open?.set ? String(this.open.set) : "",
      id,
    });
  }

  private problem(item: Item): Problem {
    return (this.data.sets[item.set] as { problems: Problem[] }).problems[item.problem] as Problem;
  }

  private build(): void {
    const { data, query } = this;
    const set = (change: Partial<Query>): void => {
      Object.assign(this.query, change);
      this.refresh();
    };
    const several = data.models.length > 1;
    const sets: [string, string][] = data.sets.map((one, index) => [String(index), one.split ? `${one.name} (${one.split})` : one.name]);
    const search = h("input", {
      id: "search",
      type: "search",
      value: query.words,
      placeholder: "Search prompts and completions  ( / )",
      "aria-label": "Search prompts and completions",
      oninput: () => {
        clearTimeout(this.typing);
        this.typing = window.setTimeout(() => set({ words: (search as HTMLInputElement).value.toLowerCase() }), 150);
      },
    });
    const bound = (label: string, key: "low" | "high"): HTMLElement => {
      const input = h("input.bound", {
        type: "number",
        min: 0,
        max: 100,
        value: query[key],
        "aria-label": label,
        id: key,
        onchange: () => set({ [key]: Math.min(100, Math.max(0, Number((input as HTMLInputElement).value))) }),
      });
      return input;
    };
    // Filters against a base need one.
    const filters = SHOWN.filter(([value]) => several || !["changed", "lost", "gained", "worse", "better"].includes(value));
    this.controls.replaceChildren(
      search,
      select("Show", filters, query.show, (value) => set({ show: value }), { id: "filter" }),
      data.sets.length > 1 ? select("Split", [["all", "all sets"], ...sets], query.set, (value) => set({ set: value }), { id: "set" }) : "",
      several ? select("Model", data.models.map((name, index) => [String(index), name]), String(query.model), (value) => set({ model: Number(value) }), { id: "model" }) : "",
      h("span.range", {}, "Pass rate ", bound("Lowest pass rate in percent", "low"), " to ", bound("Highest pass rate in percent", "high"), " %"),
      select("Sort", SORTS, query.sort, (value) => set({ sort: value }), { id: "sort" }),
      button("Clear", () => {
        Object.assign(this.query, { set: data.sets.length > 1 ? "all" : "0", show: "all", low: 0, high: 100, sort: "order", words: "" });
        this.build();
        this.refresh();
      }),
    );
    if (!this.element.childElementCount) {
      this.element.append(this.controls, this.count, h("div.panes", {}, this.rows, this.detail.element));
    }
  }

  private refresh(): void {
    this.ticket += 1;
    const all = chosen(this.data, this.query);
    const { words } = this.query;
    this.shown = words ? all.filter((item) => says(this.problem(item), words)) : all;
    const known = new Set(this.shown);
    this.say("");
    this.rows.scrollTop = 0;
    this.draw();
    this.detail.words(words);
    this.remember();
    if (words) void this.search(words, all.filter((item) => !known.has(item)), this.ticket);
  }

  private say(state: string): void {
    const total = this.data.sets.reduce((sum, set) => sum + set.problems.length, 0);
    this.count.textContent = `${this.shown.length} of ${total} problems${state}`;
  }

  /** Completions are packed: they are searched chunk by chunk, after the prompts, until something else is asked for. */
  private async search(words: string, items: Item[], ticket: number): Promise<void> {
    const place = this.page.samples;
    if (!place) return;
    const parts = new Map<string, Item[]>();
    for (const item of items) {
      const name = `chunk-${item.set}-${Math.floor(item.problem / place.size)}`;
      const some = parts.get(name);
      if (some) some.push(item);
      else parts.set(name, [item]);
    }
    const all = [...parts];
    if (all.length) this.say(", 0 % of the completions searched");
    try {
      for (let from = 0; from < all.length; from += TOGETHER) {
        const found = await Promise.all(
          all.slice(from, from + TOGETHER).map(async ([name, some]) => {
            const unpacked = await chunk(name, place.is_beside, false);
            return some.filter((item) =>
              unpacked[item.problem % place.size]?.some((samples) =>
                samples.some((sample) => sample[0].toLowerCase().includes(words) || sample[2].toLowerCase().includes(words)),
              ),
            );
          }),
        );
        if (ticket !== this.ticket) return;
        if (found.some((some) => some.length)) {
          this.shown = ordered(this.data, this.query, [...this.shown, ...found.flat()]);
          this.draw();
        }
        const done = Math.min(all.length, from + TOGETHER) / all.length;
        this.say(done < 1 ? `, ${Math.round(100 * done)} % of the completions searched` : "");
      }
    } catch (error) {
      if (ticket === this.ticket) this.say(`, ${String(error)}`);
    }
  }

  private draw(): void {
    const { rows, shown } = this;
    const first = Math.max(0, Math.floor(rows.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(rows.clientHeight / ROW) + 8);
    const space = h("div");
    space.style.height = `${shown.length * ROW}px`;
    const made = shown.slice(first, last).map((item, index) => this.row(item, first + index));
    rows.replaceChildren(space, ...made, shown.length ? "" : h("p.note.none", {}, "No problem matches."));
  }

  private row(item: Item, place: number): HTMLElement {
    const [id, prompt, , counts] = this.problem(item);
    const isOpen = this.open?.set === item.set && this.open.problem === item.problem;
    const row = h(
      "div.row",
      { role: "option", "aria-selected": String(isOpen), onclick: () => this.choose(item) },
      h("span.what", {}, prompt.trim().replace(/\s+/g, " ").slice(0, 200) || id),
      h(
        "span.rates",
        {},
        ...counts.slice(0, 18).map((one, model) => {
          const bar = h("i", { title: `${this.data.models[model]}: ${one[0]} of ${one[1]} correct` });
          const fill = paint(h("b"), this.data.models[model] ?? "");
          fill.style.height = `${100 * rate(one)}%`;
          bar.append(fill);
          return bar;
        }),
        h("small", {}, counts.length > 3 ? "" : counts.map((one) => `${one[0]}/${one[1]}`).join("  ")),
      ),
    );
    row.style.top = `${place * ROW}px`;
    return row;
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.move(step);
  }

  private move(step: number): void {
    const now = this.shown.findIndex((item) => item.set === this.open?.set && item.problem === this.open?.problem);
    const next = Math.min(this.shown.length - 1, Math.max(0, now + step));
    const item = this.shown[next];
    if (item) this.choose(item);
  }

  private choose(item: Item, isLinked = false): void {
    this.open = item;
    const place = this.shown.findIndex((one) => one.set === item.set && one.problem === item.problem);
    const { rows } = this;
    if (place >= 0) {
      const top = place * ROW;
      if (top < rows.scrollTop) rows.scrollTop = top;
      if (top + ROW > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + ROW - rows.clientHeight;
    }
    this.draw();
    this.element.classList.add("opened");
    if (!isLinked) this.remember();
    void this.detail.show(item, this.query.words);
  }

  private close(): void {
    this.open = null;
    this.element.classList.remove("opened");
    this.remember();
    this.draw();
  }
}
