// Explanations on hover, focus and touch: one box for every element with `data-tip`.

import { h } from "./dom";

export function tips(): void {
  const box = document.body.appendChild(h("div.tip", { role: "tooltip", id: "tip", hidden: true }));
  let over: Element | null = null;
  const show = (target: Element | null): void => {
    over = target;
    box.hidden = !target;
    if (!target) return;
    box.textContent = target.getAttribute("data-tip");
    const at = target.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8));
    const above = at.top - box.offsetHeight - 6;
    box.style.transform = `translate(${left}px, ${above > 4 ? above : at.bottom + 6}px)`;
  };
  const asked = (event: Event): Element | null =>
    event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  document.addEventListener("pointerover", (event) => {
    const target = asked(event);
    if (target !== over) show(target);
  });
  document.addEventListener("focusin", (event) => show(asked(event)));
  document.addEventListener("focusout", () => show(null));
  document.addEventListener("scroll", () => show(null), { passive: true, capture: true });
}
