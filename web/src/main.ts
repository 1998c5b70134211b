// The viewer: reads the document of the page and shows its views.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./problems.css";
import { go, read } from "./address";
import { button, copy, download, h } from "./dom";
import { ProblemsView } from "./problems";
import { charts, section } from "./sections";
import { problems } from "./store";
import { cycleTheme, name } from "./theme";
import { tips } from "./tip";
import { TrainingView } from "./training";
import { explained, glossary } from "./words";
import type { Page } from "./types";

interface View {
  id: string;
  title: string;
  element: HTMLElement;
  /** Called whenever the view is shown. */
  enter?: () => void;
}

function results(page: Page): HTMLElement {
  const models = new Set(page.models);
  const made = h("div.results");
  if (page.verdict.length) {
    // The answer first; what it rests on is a click away.
    const said = page.verdict.map((one, index) => h(index ? "p.other" : "p", {}, ...explained(one)));
    const basis = page.statistics.map((one) => h("p", {}, ...explained(one)));
    const more = basis.length ? h("details.statistics", {}, h("summary", {}, "Intervals and tests"), ...basis) : null;
    made.append(h("div.verdict", {}, ...said, more));
  }
  made.append(...page.warnings.map((one) => h("p.warning", { role: "alert" }, one)));
  if (page.top.length) made.append(h("section.card.top", {}, charts(page.top).element));
  made.append(...page.sections.filter((one) => !one.is_training).map((one, index) => section(one, models, index > 0)));
  if (page.lead.length) {
    made.append(h("section.card", {}, h("h2", {}, "Setup"), ...page.lead.map((one) => h("p", {}, ...explained(one)))));
  }
  return made;
}

function reproduce(page: Page): HTMLElement {
  const cards = page.reproduce.map(({ command, file, settings, version }) =>
    h(
      "section.card",
      {},
      command ? h("div.command", {}, h("pre", {}, command), button("Copy", () => void copy(command))) : null,
      settings
        ? h(
            "div",
            {},
            h("div.table-head", {}, h("h3", {}, file), button("Copy", () => void copy(settings)), button("Download", () => download(file, settings, "text/plain"))),
            h("pre.settings", {}, settings),
          )
        : command
          ? null
          : h("p.note", {}, "The folder of this run has no settings."),
      version ? h("p.note", {}, `Made by tealight ${version}.`) : null,
    ),
  );
  return h("div.reproduce", {}, h("p", {}, page.reproduce.some(({ settings }) => settings) ? "Save the settings in the file that the command names, and run it: the same seed gives the same numbers." : "Run the command again: the same files give the same numbers."), ...cards);
}

function start(): void {
  const main = document.getElementById("page");
  const stored = document.getElementById("document")?.textContent;
  if (!main || !stored) return;
  const page = JSON.parse(stored) as Page;
  name(page.models);
  tips();
  const theme = button("", () => label(cycleTheme()), { class: "theme" });
  const label = (now: string): void => {
    const icon = { light: "\u2600", dark: "\u263e" }[now] ?? "\u25d0";
    theme.replaceChildren(icon, h("span", {}, ` ${now}`));
    theme.setAttribute("aria-label", `Theme: ${now}`);
  };
  label("auto");
  const nav = h("nav", { "aria-label": "Views" });
  const top = h("header.bar", {}, h("span.mark", {}, "tealight"), nav, theme);
  const footer = h("footer", {}, ...page.footer.map((one) => h("p", {}, ...explained(one))));
  const body = h("div.views");
  main.replaceChildren(h("h1", {}, page.title), page.made ? h("p.note.made", {}, page.made) : "", body, footer);
  document.body.prepend(top);
  show(page, body, nav);
}

function show(page: Page, body: HTMLElement, nav: HTMLElement): void {
  // A run that was not evaluated has a training alone.
  const hasResults = page.verdict.length > 0 || page.top.length > 0 || page.sections.some((one) => !one.is_training);
  const views: View[] = hasResults ? [{ id: "results", title: "Results", element: results(page) }] : [];
  if (page.samples) {
    const element = h("div");
    let list: ProblemsView | null = null;
    const enter = (): void => {
      if (list) return list.enter();
      element.replaceChildren(h("p.note", {}, "unpacking \u2026"));
      void problems().then(
        (data) => {
          list = new ProblemsView(page, data);
          element.replaceChildren(list.element);
        },
        (error: unknown) => element.replaceChildren(h("p.warning", {}, String(error))),
      );
    };
    views.push({ id: "problems", title: "Problems", element, enter });
  }
  const course = page.sections.filter((one) => one.is_training);
  if (course.length || page.steps.length) {
    const training = new TrainingView();
    training.show(page, course);
    const lead = hasResults ? [] : [...page.lead, ...page.warnings].map((one) => h("p", {}, ...explained(one)));
    views.push({ id: "training", title: "Training", element: h("div", {}, ...lead, training.element) });
  }
  if (page.reproduce.length) views.push({ id: "reproduce", title: "Reproduce", element: reproduce(page) });
  views.push({ id: "words", title: "Words", element: glossary({ ...page, reproduce: [] }) });
  const links = views.map((view) => h("a", { href: `#${view.id}` }, view.title));
  nav.append(...links);
  views.forEach((one, index) => (one.element.hidden = index > 0));
  body.append(...views.map((one) => one.element));
  const enter = (): void => {
    const { view } = read();
    const found = views.find((one) => one.id === view) ?? views[0];
    if (!found) return;
    views.forEach((one, index) => {
      links[index]?.setAttribute("aria-current", one === found ? "page" : "false");
    });
    if (found.element.hidden) scrollTo(0, 0);
    for (const one of views) one.element.hidden = one !== found;
    document.documentElement.dataset.view = found.id;
    found.enter?.();
  };
  addEventListener("hashchange", enter);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "/" && !isTyping && page.samples) {
      event.preventDefault();
      if (read().view !== "problems") go("problems");
      setTimeout(() => document.getElementById("search")?.focus(), 60);
    }
    if (event.key === "Escape" && event.target instanceof HTMLInputElement) document.getElementById("list")?.focus();
  });
  enter();
}

start();
