// Builds the playground: one page that holds its script, its styles, its worker and the module in WebAssembly.
//   node build-playground.mjs MODULE.wasm FOLDER     products.wasm lies beside the module
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
const [moduleFile, folder] = process.argv.slice(2);
if (!folder) throw new Error("node build-playground.mjs MODULE.wasm FOLDER");

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  outdir: "out",
  format: "iife",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
  legalComments: "none",
  charset: "ascii",
};
const text = (result, ending) => result.outputFiles.find((file) => file.path.endsWith(ending)).text.trim();
const products = await readFile(path.join(path.dirname(moduleFile), "products.wasm"), "base64");
const worker = text(
  await build({ ...common, entryPoints: ["playground/worker.ts"], define: { PRODUCTS: JSON.stringify(products) } }),
  ".js",
);
const page = await build({ ...common, entryPoints: ["playground/page.ts"], define: { WORKER: JSON.stringify(worker) } });
const [script, style] = [text(page, ".js"), text(page, ".css")];
if (/<\/script|<!--/i.test(script)) throw new Error("the script holds markup that ends its element");

const hash = (source) => `'sha256-${createHash("sha256").update(source).digest("base64")}'`;
// The worker is a blob, and has the policy of the page.
const policy = `default-src 'none'; img-src data:; script-src ${hash(script)} blob: 'wasm-unsafe-eval'; worker-src blob:; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`;
const packed = gzipSync(await readFile(moduleFile), { level: 9 });
const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="color-scheme" content="light dark">
<title>Watch a model collapse</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<script type="application/gzip" id="module">${packed.toString("base64")}</script>
<script>${script}</script>
</body>
</html>
`;
await mkdir(folder, { recursive: true });
await writeFile(path.join(folder, "index.html"), html);
console.log(`${path.join(folder, "index.html")}: ${html.length} bytes, ${gzipSync(html).length} compressed; the module: ${packed.length} compressed`);
