// The address after `#`: which view, which problem, which query. What a reader sees can be sent as a link.

export interface Address {
  view: string;
  of: Record<string, string>;
}

export function read(): Address {
  const [view = "", rest = ""] = location.hash.slice(1).split("?");
  return { view: view || "results", of: Object.fromEntries(new URLSearchParams(rest)) };
}

export function text(view: string, of: Record<string, string>): string {
  const rest = new URLSearchParams(Object.entries(of).filter(([, value]) => value !== "")).toString();
  return `#${view}${rest ? `?${rest}` : ""}`;
}

/** Another view, as a step that "back" undoes. */
export function go(view: string, of: Record<string, string> = {}): void {
  location.hash = text(view, of);
}

/** The same view, without a step of its own: typing a search is no history. */
export function replace(view: string, of: Record<string, string>): void {
  history.replaceState(null, "", text(view, of));
}
