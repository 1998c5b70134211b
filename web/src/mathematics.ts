// TeX as elements, by KaTeX: in pages whose texts may hold some. Nothing here trusts the text: no links, no raw HTML, no
// class names, macros expand a bounded number of times, sizes are bounded, and what KaTeX refuses is shown as it stands.

import katex from "katex";
import "katex/dist/katex.css";

declare global {
  interface Window {
    tealightMathematics?: (tex: string, isDisplay: boolean) => Node | null;
  }
}

window.tealightMathematics = (tex, isDisplay) => {
  const holder = document.createElement("span");
  holder.className = isDisplay ? "tex display" : "tex";
  holder.title = tex;
  try {
    katex.render(tex, holder, {
      displayMode: isDisplay,
      throwOnError: true,
      trust: false,
      strict: "ignore",
      output: "html",
      maxExpand: 200,
      maxSize: 8,
    });
    return holder;
  } catch {
    return null;
  }
};
