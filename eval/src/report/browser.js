"use strict";
// The browser of problems: a list that draws only the rows in view, samples unpacked when asked for.
const tealight = (() => {
  const data = JSON.parse(document.getElementById("index").textContent);
  const at = (id) => document.getElementById(id);
  const list = at("list"), detail = at("detail"), filter = at("filter"), search = at("search"), chosenSet = at("set");
  const ROW = 38;
  const chunks = new Map(), waiting = new Map();
  let shown = [], selected = -1, current = 0, opened = 0, searched = 0, typing;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const option = (select, value, text) => {
    const made = element("option", text);
    made.value = value;
    select.append(made);
  };

  const filters = [["all", () => true], ["never solved", (c) => c.every((r) => r[0] === 0)], ["solved", (c) => c.some((r) => r[0] > 0)],
    ["with completions cut off", (c) => c.some((r) => r[2] > 0)],
    ["with completions without an answer", (c) => c.some((r) => r[3] > 0)],
    ["with completions not judged", (c) => c.some((r) => r[4] > 0)]];
  data.names.slice(1).forEach((name, index) => {
    filters.push([`lost by ${name}`, (c) => c[0][0] > 0 && c[index + 1][0] === 0]);
    filters.push([`gained by ${name}`, (c) => c[0][0] === 0 && c[index + 1][0] > 0]);
    filters.push([`worse under ${name}`, (c) => c[index + 1][0] / c[index + 1][1] < c[0][0] / c[0][1]]);
  });
  filters.forEach(([name], index) => option(filter, index, name));
  data.sets.forEach((set, index) => option(chosenSet, index, set.name));

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  // Samples stay unpacked where a problem was opened; a search lets go of what it has read.
  const load = (name, stays) => {
    if (chunks.has(name)) return chunks.get(name);
    let text;
    if (data.beside) {
      text = new Promise((resolve, reject) => {
        waiting.set(name, resolve);
        const script = document.createElement("script");
        script.src = `report-data/${name}.js`;
        script.onload = () => script.remove();
        script.onerror = () => reject(new Error(`report-data/${name}.js is not beside this page`));
        document.head.append(script);
      });
    } else {
      text = Promise.resolve(at(`chunk-${name}`).textContent);
    }
    const found = text.then(unpack);
    chunks.set(name, found);
    const release = () => chunks.delete(name);
    if (!stays) found.then(release, release);
    return found;
  };
  const arrived = (name, text) => waiting.get(name)(text);

  const refresh = () => {
    clearTimeout(typing);
    searched += 1;
    current = Number(chosenSet.value);
    const keep = filters[Number(filter.value)][1];
    const words = search.value.toLowerCase();
    const problems = data.sets[current].problems;
    shown = [];
    const rest = [];
    problems.forEach((problem, index) => {
      if (!keep(problem[3])) return;
      const text = `${problem[0]} ${problem[1]} ${problem[2]}`.toLowerCase();
      (!words || text.includes(words) ? shown : rest).push(index);
    });
    at("count").textContent = `${shown.length} of ${problems.length} problems`;
    selected = -1;
    list.scrollTop = 0;
    draw();
    if (words && rest.length) typing = setTimeout(() => searchCompletions(words, rest, searched), 200);
  };

  // Completions are packed: they are searched a chunk at a time, after the prompts, until something else is asked for.
  const searchCompletions = async (words, indices, ticket) => {
    const count = data.sets[current].problems.length;
    const parts = new Map();
    indices.forEach((index) => {
      const part = Math.floor(index / data.size);
      parts.set(part, [...(parts.get(part) || []), index]);
    });
    let read = 0;
    for (const [part, some] of parts) {
      let chunk;
      try {
        chunk = await load(`${current}-${part}`, false);
      } catch (error) {
        if (ticket === searched) at("count").textContent = String(error);
        return;
      }
      if (ticket !== searched) return;
      const holds = (index) => chunk[index % data.size].some((samples) =>
        samples.some((sample) => `${sample[0]}\n${sample[2]}`.toLowerCase().includes(words)));
      const found = some.filter(holds);
      if (found.length) {
        const open = shown[selected];
        shown = [...shown, ...found].sort((a, b) => a - b);
        selected = open === undefined ? -1 : shown.indexOf(open);
        draw();
      }
      read += 1;
      const state = read < parts.size ? `, ${Math.round((100 * read) / parts.size)} % of the completions searched` : "";
      at("count").textContent = `${shown.length} of ${count} problems${state}`;
    }
  };

  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 10);
    const space = element("div");
    space.style.height = `${shown.length * ROW}px`;
    const rows = [space];
    for (let place = first; place < last; place += 1) {
      const problem = data.sets[current].problems[shown[place]];
      const row = element("div", undefined, "row");
      row.style.top = `${place * ROW}px`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", place === selected);
      row.append(element("span", problem[1].trim() || problem[0], "what"));
      row.append(element("span", problem[3].map((r) => `${r[0]}/${r[1]}`).join("  "), "counts"));
      row.addEventListener("click", () => choose(place));
      rows.push(row);
    }
    list.replaceChildren(...rows);
  };

  const choose = (place) => {
    if (place < 0 || place >= shown.length) return;
    selected = place;
    const top = place * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
    open(shown[place]);
  };

  const open = async (index) => {
    const ticket = (opened += 1);
    const problem = data.sets[current].problems[index];
    const parts = [element("h3", problem[0]), element("pre", problem[1]), element("p", `gold answer: ${problem[2]}`)];
    detail.replaceChildren(...parts, element("p", "unpacking ...", "note"));
    try {
      const chunk = await load(`${current}-${Math.floor(index / data.size)}`, true);
      if (ticket !== opened) return;
      const runs = chunk[index % data.size];
      runs.forEach((samples, run) => {
        const [right, all, cut, silent, unjudged] = problem[3][run];
        const notes = [[cut, "cut off"], [silent, "without an answer"], [unjudged, "not judged"]]
          .filter(([number]) => number > 0).map(([number, what]) => `, ${number} ${what}`);
        parts.push(element("h4", `${data.names[run]}: ${right} of ${all} right${notes.join("")}`));
        parts.push(group(samples));
      });
      detail.replaceChildren(...parts);
    } catch (error) {
      detail.replaceChildren(...parts, element("p", String(error), "note"));
    }
    detail.scrollTop = 0;
  };

  // Equal completions are shown once, with how often they were drawn.
  const group = (samples) => {
    const seen = new Map();
    samples.forEach((sample) => {
      const key = JSON.stringify([...sample.slice(0, 3), sample[4], sample[5]]);
      const known = seen.get(key);
      if (known) known.times += 1;
      else seen.set(key, { sample, times: 1 });
    });
    const order = [...seen.values()].sort((a, b) => b.sample[5] - a.sample[5] || (b.sample[1] === "right") - (a.sample[1] === "right") || b.times - a.times);
    const holder = element("div");
    const more = (from) => {
      order.slice(from, from + 40).forEach(({ sample, times }) => {
        const [text, verdict, why, tokens, cut, greedy] = sample;
        const box = element("div", undefined, `sample ${verdict.replace(" ", "-")}${greedy ? " greedy" : ""}`);
        const notes = [greedy ? "greedy (temperature 0)" : "", verdict, cut ? "cut off" : "", times > 1 ? `${times} times` : "", tokens ? `${tokens} tokens` : "", why ? `(${why})` : ""];
        box.append(element("div", notes.filter(Boolean).join(", "), "verdict"), element("pre", text));
        holder.append(box);
      });
      if (from + 40 < order.length) {
        const button = element("button", `${order.length - from - 40} more`);
        button.addEventListener("click", () => { button.remove(); more(from + 40); });
        holder.append(button);
      }
    };
    more(0);
    return holder;
  };

  list.addEventListener("scroll", draw, { passive: true });
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key in steps) {
      event.preventDefault();
      choose(Math.min(shown.length - 1, Math.max(0, selected + steps[event.key])));
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "Escape" && document.activeElement === search) list.focus();
  });
  [chosenSet, filter].forEach((control) => control.addEventListener("change", refresh));
  search.addEventListener("input", refresh);
  refresh();
  return { arrived };
})();
