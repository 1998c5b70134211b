// Builds the viewer into the crate that embeds it: viewer.{js,css}, and mathematics.{js,css}, which a page has only where
// its texts may hold TeX. `--outdir DIR` writes elsewhere, for scripts/check-web.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
const asked = process.argv.indexOf("--outdir");
const outdir = asked > 0 ? process.argv[asked + 1] : path.join(here, "../eval/src/report/assets");

// KaTeX names each font as woff2, woff and ttf, and has faces that no completion needs: only these are embedded, as woff2.
const faces = /KaTeX_(Main-(Regular|Bold|Italic)|Math-Italic|AMS-Regular|Size[1-4]-Regular|Caligraphic-Regular)\.woff2/;
const fonts = {
  name: "fonts",
  setup(builder) {
    builder.onLoad({ filter: /katex\.css$/ }, async ({ path: file }) => {
      const css = await readFile(file, "utf8");
      const kept = css.replace(/@font-face\s*\{[^}]*\}/g, (face) => {
        const found = face.match(/url\(([^)]*\.woff2)\)/);
        if (!found || !faces.test(found[1])) return "";
        return face.replace(/src:[^;]*/, `src: url(${found[1]}) format("woff2")`);
      });
      return { contents: kept, loader: "css", resolveDir: path.dirname(file) };
    });
  },
};

await build({
  absWorkingDir: here,
  entryPoints: { viewer: "src/main.ts", mathematics: "src/mathematics.ts" },
  outdir,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
  loader: { ".woff2": "dataurl" },
  legalComments: "none",
  charset: "ascii",
  plugins: [fonts],
});

// Inside an HTML page a script must not hold the end of its own element.
for (const name of ["viewer.js", "mathematics.js"]) {
  const file = path.join(outdir, name);
  const text = await readFile(file, "utf8");
  if (/<\/script|<!--/i.test(text)) throw new Error(`${name} holds markup that ends its element`);
  await writeFile(file, text);
}
