// The page: its views, of which the address chooses one.

import { button, h } from "../src/dom";
import { cycleTheme } from "../src/theme";
import { laboratory } from "./lab";
import { training } from "./train";
import type { View } from "./view";
import "../src/style.css";
import "./playground.css";

const VIEWS: [name: string, view: View][] = [
  ["Training", training],
  ["Toy", laboratory],
];

const links = VIEWS.map(([name, view]) => {
  const follow = (event: Event): void => {
    event.preventDefault();
    location.hash = view.address();
  };
  return h("a", { href: view === laboratory ? "#lab" : "#", onclick: follow }, name);
});

function open(): void {
  const chosen = location.hash.startsWith("#lab") ? laboratory : training;
  VIEWS.forEach(([, view], index) => {
    view.element.hidden = view !== chosen;
    if (view === chosen) links[index]?.setAttribute("aria-current", "page");
    else links[index]?.removeAttribute("aria-current");
  });
  chosen.open(location.hash);
}

const theme = button("Theme: auto", () => (theme.textContent = `Theme: ${cycleTheme()}`), { class: "theme" });
document.body.append(
  h("header.bar", {}, h("span.mark", {}, "Tealight"), h("nav", { "aria-label": "Views" }, ...links), theme),
  ...VIEWS.map(([, view]) => view.element),
);
addEventListener("hashchange", open);
open();
