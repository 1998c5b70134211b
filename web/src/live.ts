// A run while it goes: asks the server every two seconds, and draws again what has changed.

import { h } from "./dom";
import { name } from "./theme";
import { TrainingView } from "./training";
import type { Page } from "./types";

const EVERY = 2000;

export function live(main: HTMLElement): void {
  const state = h("span.note", { id: "state", role: "status" }, "Updates every two seconds.");
  const link = h("a", { href: "report.html", hidden: true }, "The full report");
  const lead = h("p");
  const training = new TrainingView();
  main.append(h("p", {}, state, " ", link), lead, training.element);
  let before = "";
  const look = async (): Promise<void> => {
    try {
      const answer = await fetch("live");
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      state.textContent = "Updates every two seconds.";
      if (text !== before) {
        before = text;
        const page = JSON.parse(text) as Page;
        name(page.sections.flatMap((one) => one.blocks.flatMap((block) => ("charts" in block ? block.charts.flatMap((chart) => chart.lines.map((line) => line.name)) : []))));
        link.hidden = !page.report;
        lead.textContent = page.lead.join(" ");
        training.show({ ...page, live: true }, page.sections);
      }
    } catch (error) {
      state.textContent = `The run is not reachable: ${error instanceof Error ? error.message : String(error)}`;
    }
    setTimeout(() => void look(), EVERY);
  };
  void look();
}
