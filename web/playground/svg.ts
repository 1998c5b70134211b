// Elements of SVG, made as those of HTML are.

type Attributes = Record<string, string | number>;

export function svg(name: string, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElement {
  const [tag = "g", ...classes] = name.split(".");
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}
