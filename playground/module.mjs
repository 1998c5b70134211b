// The module in WebAssembly, called from node: JSON in, JSON out.
import { readFile } from "node:fs/promises";

/** What a module imports: parts of wasm-bindgen that a library brings and nothing calls. */
function unused(module) {
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    (imports[from] ??= {})[name] = () => {
      throw new Error(`${from}.${name} was called`);
    };
  }
  return imports;
}

export async function open(file) {
  const started = performance.now();
  const module = await WebAssembly.compile(await readFile(file));
  const { exports } = await WebAssembly.instantiate(module, unused(module));
  const { memory, input, call, output } = exports;
  const ask = (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const to = input(bytes.length);
    new Uint8Array(memory.buffer, to, bytes.length).set(bytes);
    let length;
    try {
      length = call();
    } catch (error) {
      const bytes = new Uint8Array(memory.buffer, exports.failure_text(), exports.failure_length());
      throw new Error(`the module stopped: ${new TextDecoder().decode(bytes) || error}`);
    }
    const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, output(), length)));
    if (answer.error) throw new Error(answer.error);
    return answer;
  };
  return { ask, memory, seconds: (performance.now() - started) / 1000 };
}
