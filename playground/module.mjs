// The module in WebAssembly, called from node: JSON in, JSON out.
import { readFile } from "node:fs/promises";
import path from "node:path";

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

/** Gives the module the functions of products.rs, on its memory; whether the engine has their instruction, rounded once. */
async function giveMultiplyAdds({ memory, __indirect_function_table: table, multiply_adds }, bytes) {
  if (!WebAssembly.validate(bytes)) return false;
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  const { square_and, tile_of, add_scaled, block_products } = instance.exports;
  // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which a product that is rounded by itself has lost.
  if (square_and(1 + 2 ** -12, -(1 + 2 ** -11)) !== 2 ** -24) return false;
  const place = (values) => {
    const at = table.grow(1);
    table.set(at, values);
    return at;
  };
  multiply_adds(place(tile_of), place(add_scaled), place(block_products));
  return true;
}

/** Opens the module, with products.wasm of the same folder. */
export async function open(file) {
  const started = performance.now();
  const module = await WebAssembly.compile(await readFile(file));
  const { exports } = await WebAssembly.instantiate(module, unused(module));
  const isFused = await giveMultiplyAdds(exports, await readFile(path.join(path.dirname(file), "products.wasm")));
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
  return { ask, memory, isFused, seconds: (performance.now() - started) / 1000 };
}
