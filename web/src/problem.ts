// One problem: the prompt, its solution classes with counts by model, and the samples of models side by side.

import { button, copy, csv, download, h, select, slug } from "./dom";
import type { Item } from "./filters";
import { drawn, graph } from "./drawing";
import { chunk, type Chunk } from "./store";
import { paint, swatch } from "./theme";
import { completion, prompt, type Reading } from "./text";
import type { Page, Problem, Problems, Sample } from "./types";

const seed = (name: string): string => / seed (\d+)$/.exec(name)?.[1] ?? "";

/** Solution classes that are shown before "more", samples of a column likewise, models at first. */
const CLASSES = 12;
const SAMPLES = 12;
const MODELS = 4;

/** Rules that find answers, where their name says too little. */
const RULES: Record<string, string> = { hashes: "####", number: "last number", formula: "last formula" };

const KINDS: [string, string][] = [
  ["", "all samples"],
  ["correct", "correct"],
  ["incorrect", "incorrect"],
  ["no answer", "no answer"],
  ["unjudged", "unjudged"],
  ["truncated", "truncated"],
  ["greedy", "greedy"],
];

export class Detail {
  readonly element = h("div.detail", { id: "detail", "aria-live": "polite" });
  private ticket = 0;
  private models: Set<number>;
  private reading: Reading = { tex: true, words: "" };
  private kind = "";
  private samples: Chunk[number] | null = null;
  private item: Item | null = null;

  constructor(
    private readonly page: Page,
    private readonly data: Problems,
    private readonly close: () => void,
    private readonly move: (step: number) => void,
  ) {
    // The base, and of each objective the first seed.
    this.models = new Set(this.families().map(([, of]) => of[0] as number).slice(0, MODELS));
    this.element.append(
      h("div.blank", {}, h("p", {}, "Choose a problem to see what each model answered."), h("p.note", {}, "Arrow keys move through the list, / searches.")),
    );
  }

  /** Models by objective, each with its seeds. */
  private families(): [string, number[]][] {
    const all = new Map<string, number[]>();
    this.data.models.forEach((name, index) => {
      const family = name.replace(/ seed \d+$/, "");
      all.set(family, [...(all.get(family) ?? []), index]);
    });
    return [...all];
  }

  /** Shows a seed in the place of the first of its objective. */
  compare(model: number): void {
    for (const [, of] of this.families()) {
      if (!of.includes(model) || this.models.has(model)) continue;
      for (const other of of) this.models.delete(other);
      this.models.add(model);
    }
  }

  words(words: string): void {
    this.reading = { ...this.reading, words };
  }

  async show(item: Item, words: string): Promise<void> {
    const ticket = (this.ticket += 1);
    this.item = item;
    this.reading = { ...this.reading, words };
    this.samples = null;
    this.draw("unpacking \u2026");
    this.element.scrollTop = 0;
    const place = this.page.samples;
    if (!place) return this.draw("");
    try {
      const found = await chunk(`chunk-${item.set}-${Math.floor(item.problem / place.size)}`, place.is_beside, true);
      if (ticket !== this.ticket) return;
      this.samples = found[item.problem % place.size] ?? [];
      this.draw("");
    } catch (error) {
      if (ticket === this.ticket) this.draw(String(error));
    }
  }

  private draw(state: string): void {
    const { item } = this;
    if (!item) return;
    const set = this.data.sets[item.set];
    const problem = set?.problems[item.problem] as Problem;
    const [id, text, answer, , turns] = problem;
    const puzzle = graph(text);
    const picture = puzzle && drawn(puzzle, "");
    const link = (): void => void copy(location.href);
    const tools = h(
      "div.detail-tools",
      {},
      button("\u2190 List", this.close, { class: "back" }),
      button("\u2191", () => this.move(-1), { title: "Previous problem" }),
      button("\u2193", () => this.move(1), { title: "Next problem" }),
      button("Copy link", link),
      window.tealightMathematics
        ? button(this.reading.tex ? "Show TeX source" : "Draw mathematics", () => {
            this.reading = { ...this.reading, tex: !this.reading.tex };
            this.draw("");
          })
        : null,
    );
    this.element.replaceChildren(
      h("div.detail-head", {}, h("div", {}, h("h3", {}, id), h("small", {}, [set?.name, set?.split].filter(Boolean).join(", "))), tools),
      h("div.prompt", {}, h("div", {}, h("h4", {}, "Prompt"), prompt(text, turns, this.reading)), picture),
      // The gold of a puzzle may be its statement.
      answer && !text.includes(answer) ? h("p.gold", {}, h("b", {}, "Gold answer "), h("code", {}, answer.slice(0, 2000))) : "",
      state ? h("p.note", {}, state) : "",
    );
    if (this.samples) this.element.append(this.classes(this.samples), this.chooser(problem), this.columns(this.samples, problem));
  }

  /** Rows are solution classes, columns are models, a cell says how often a model drew a class. */
  private classes(samples: Chunk[number]): HTMLElement {
    const rows = new Map<string, number[]>();
    const others = new Map<string, number[]>();
    samples.forEach((own, model) => {
      for (const [, verdict, why, , truncated, greedy, times] of own) {
        if (greedy) continue;
        const isClass = verdict === "correct";
        const key = isClass ? why : truncated ? "truncated" : verdict;
        const to = isClass ? rows : others;
        const counts = to.get(key) ?? samples.map(() => 0);
        counts[model] = (counts[model] ?? 0) + times;
        to.set(key, counts);
      }
    });
    const sum = (counts: number[]): number => counts.reduce((a, b) => a + b, 0);
    const order = [...rows].sort((a, b) => sum(b[1]) - sum(a[1]));
    const most = Math.max(1, ...[...rows.values()].flat());
    const cell = (count: number, model: number, isClass: boolean): HTMLElement => {
      const made = h("td.right", {}, count ? String(count) : "\u00b7");
      if (count && isClass) {
        paint(made, this.data.models[model] ?? "").style.setProperty("--share", `${Math.round(12 + (48 * count) / most)}%`);
      }
      return made;
    };
    const row = ([name, counts]: [string, number[]], isClass: boolean): HTMLElement =>
      h(isClass ? "tr.class" : "tr.other", {}, h("th", { scope: "row" }, isClass ? h("code", {}, name.slice(0, 200)) : name), ...counts.map((count, model) => cell(count, model, isClass)));
    const distinct = samples.map((own) => new Set(own.filter((one) => one[1] === "correct" && !one[5]).map((one) => one[2])).size);
    const families = this.families();
    const hasSeeds = families.some(([, of]) => of.length > 1);
    const head = [
      h("tr", {}, h("th", {}, hasSeeds ? "" : "solution"), ...families.map(([name, of]) => h("th.objective", { scope: "colgroup", colspan: of.length }, swatch(name), name))),
      hasSeeds ? h("tr", {}, h("th", {}, "solution"), ...families.flatMap(([, of]) => of.map((model) => h("th.right", { scope: "col" }, seed(this.data.models[model] ?? "") && `seed ${seed(this.data.models[model] ?? "")}`)))) : null,
    ];
    const body = h("tbody", {}, ...order.slice(0, CLASSES).map((one) => row(one, true)));
    if (order.length > CLASSES) {
      const more = h("tr", {}, h("td", { colspan: this.data.models.length + 1 }, button(`${order.length - CLASSES} more classes`, () => more.replaceWith(...order.slice(CLASSES).map((one) => row(one, true))))));
      body.append(more);
    }
    body.append(...[...others].map((one) => row(one, false)));
    const total = h("tr.total", {}, h("th", { scope: "row", "data-tip": "Different correct answers among the samples of this problem" }, "distinct correct"), ...distinct.map((count) => h("td.right", {}, h("b", {}, String(count)))));
    const save = (): void => {
      const all = [...order, ...others].map(([name, counts]) => [name, ...counts.map(String)]);
      download(`solutions-${slug(this.item ? String(this.data.sets[this.item.set]?.problems[this.item.problem]?.[0]) : "")}.csv`, csv([["solution class", ...this.data.models], ...all]), "text/csv");
    };
    const title = h("div.table-head", {}, h("h4", {}, "Solutions, by model"), button("CSV", save, { class: "tool" }));
    return h("div.classes", {}, title, h("div.wide", { tabindex: 0 }, h("table", {}, h("thead", {}, ...head), body, h("tfoot", {}, total))));
  }

  private chooser(problem: Problem): HTMLElement {
    // A chip an objective: a click shows it or hides it; the seeds stand in it.
    const chips = this.families().map(([name, of]) => {
      const own = of.filter((model) => this.models.has(model));
      const toggle = (): void => {
        if (own.length) for (const model of own) this.models.delete(model);
        else this.models.add(of[0] as number);
        this.draw("");
      };
      const choose = (value: string): void => {
        for (const model of of) this.models.delete(model);
        for (const model of value === "all" ? of : [Number(value)]) this.models.add(model);
        this.draw("");
      };
      const seeds = of.map((model): [string, string] => [String(model), `seed ${seed(this.data.models[model] ?? "")}`]);
      const chosen = own.length > 1 ? "all" : String(own[0] ?? "");
      const chip = h("button.chip", { type: "button", "aria-pressed": String(own.length > 0), onclick: toggle }, swatch(name), name);
      const which = own.length && of.length > 1 ? select("", [...seeds, ["all", "all seeds"]], chosen, choose, { "aria-label": `Seed of ${name}` }) : null;
      return h("span.model", {}, chip, which);
    });
    const kind = select("Samples", KINDS, this.kind, (value) => {
      this.kind = value;
      this.draw("");
    }, { id: "kind" });
    return h("div.chooser", {}, problem[3].length > 1 ? h("div.chips", { role: "group", "aria-label": "Models side by side" }, ...chips) : null, kind);
  }

  private columns(samples: Chunk[number], problem: Problem): HTMLElement {
    const shown = this.data.models.map((_, model) => model).filter((model) => this.models.has(model));
    return h("div.columns", {}, ...shown.map((model) => this.column(model, samples[model] ?? [], problem)));
  }

  private column(model: number, samples: Sample[], problem: Problem): HTMLElement {
    const [correct = 0, all = 0, truncated = 0, silent = 0, unjudged = 0] = problem[3][model] ?? [];
    const notes = [[truncated, "truncated"], [silent, "without an answer"], [unjudged, "unjudged"]] as const;
    const said = notes.filter(([count]) => count).map(([count, what]) => `, ${count} ${what}`).join("");
    const isKind = ([, verdict, , , cut, greedy]: Sample): boolean =>
      !this.kind || (this.kind === "truncated" ? cut === 1 : this.kind === "greedy" ? greedy === 1 : this.kind === "no answer" ? verdict === "no answer" || verdict === "unreadable" : verdict === this.kind && !greedy);
    const order = samples.filter(isKind).sort((a, b) => b[5] - a[5] || Number(b[1] === "correct") - Number(a[1] === "correct") || b[6] - a[6]);
    const list = h("div.samples");
    const puzzle = graph(problem[1]);
    const more = (from: number): void => {
      list.append(...order.slice(from, from + SAMPLES).map((one) => this.sample(one, puzzle)));
      if (order.length > from + SAMPLES) {
        const next = button(`${order.length - from - SAMPLES} more`, () => (next.remove(), more(from + SAMPLES)));
        list.append(next);
      }
    };
    more(0);
    if (!order.length) list.append(h("p.note", {}, samples.length ? "None of this kind." : "No samples are stored."));
    const name = this.data.models[model] ?? "";
    return h("div.column", {}, h("header", {}, h("h4", {}, swatch(name), name), h("small", {}, `${correct} of ${all} correct${said}`)), list);
  }

  private sample([text, verdict, why, tokens, truncated, greedy, times, found]: Sample, puzzle: ReturnType<typeof graph>): HTMLElement {
    const badge = h(`span.badge.${verdict.replace(" ", "-")}`, {}, verdict);
    const notes = [times > 1 ? `\u00d7${times}` : "", tokens ? `${tokens} tokens` : ""].filter(Boolean).join(" \u00b7 ");
    return h(
      `article.sample.${verdict.replace(" ", "-")}${greedy ? ".greedy" : ""}`,
      {},
      h(
        "div.sample-head",
        {},
        greedy ? h("span.badge.is-greedy", { "data-tip": "Sampled at temperature 0" }, "greedy") : null,
        badge,
        truncated ? h("span.badge.cut", {}, "truncated") : null,
        h("small", {}, notes),
        button("copy", () => void copy(text), { class: "tool" }),
      ),
      h("div.answer", {}, completion(text, this.reading), puzzle && drawn(puzzle, text.trim())),
      found ? h("div.found", {}, h("b", {}, `found by ${RULES[found[0]] ?? found[0]}: `), `\u2026${found[1]}`, h("u", {}, found[2]), `${found[3]}\u2026`) : null,
      // The class of a correct answer is said where it is not the answer itself.
      why && why !== text.trim() ? h("div.why", {}, verdict === "correct" ? "class " : "", h("code", {}, why.slice(0, 400))) : null,
    );
  }
}
