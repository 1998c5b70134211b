// A run of its own thread: the module in WebAssembly, which answers one call at a time.

interface Exports {
  memory: WebAssembly.Memory;
  __indirect_function_table: WebAssembly.Table;
  multiply_adds(tile: number, addScaled: number, blockProducts: number): void;
  input(length: number): number;
  call(): number;
  output(): number;
  failure_length(): number;
  failure_text(): number;
}

/** The module of multiply-adds (playground/products.rs), in base64. */
declare const PRODUCTS: string;

let exports: Promise<Exports> | undefined;

/** What the module imports: parts of wasm-bindgen that a library brings and nothing calls. */
function unused(module: WebAssembly.Module): WebAssembly.Imports {
  const imports: Record<string, Record<string, () => never>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    (imports[from] ??= {})[name] = () => {
      throw new Error(`${from}.${name} was called`);
    };
  }
  return imports;
}

/** Gives the module the functions of the other, on its memory, if the browser has their instruction and it rounds once. */
async function giveMultiplyAdds({ memory, __indirect_function_table: table, multiply_adds }: Exports): Promise<void> {
  const bytes = Uint8Array.from(atob(PRODUCTS), (character) => character.charCodeAt(0));
  if (!WebAssembly.validate(bytes)) return;
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  const { square_and, tile_of, add_scaled, block_products } = instance.exports as Record<string, (...values: number[]) => number>;
  // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which a product that is rounded by itself has lost.
  if (square_and?.(1 + 2 ** -12, -(1 + 2 ** -11)) !== 2 ** -24) return;
  const place = (values: unknown) => {
    const at = table.grow(1);
    table.set(at, values);
    return at;
  };
  multiply_adds(place(tile_of), place(add_scaled), place(block_products));
}

async function start(module: WebAssembly.Module): Promise<Exports> {
  const instance = await WebAssembly.instantiate(module, unused(module));
  const found = instance.exports as unknown as Exports;
  await giveMultiplyAdds(found);
  return found;
}

async function answer(text: string): Promise<string> {
  if (!exports) throw new Error("the module has not been sent");
  const { memory, input, call, output, failure_text, failure_length } = await exports;
  const bytes = new TextEncoder().encode(text);
  // The memory may grow in either call: its buffer is asked for afterwards.
  const to = input(bytes.length);
  new Uint8Array(memory.buffer, to, bytes.length).set(bytes);
  let length;
  try {
    length = call();
  } catch (error) {
    const message = new Uint8Array(memory.buffer, failure_text(), failure_length());
    throw new Error(new TextDecoder().decode(message) || String(error));
  }
  return new TextDecoder().decode(new Uint8Array(memory.buffer, output(), length));
}

addEventListener("message", async ({ data }: MessageEvent<{ module?: WebAssembly.Module; id?: number; text?: string }>) => {
  if (data.module) exports = start(data.module);
  if (data.text === undefined) return;
  try {
    postMessage({ id: data.id, text: await answer(data.text) });
  } catch (error) {
    postMessage({ id: data.id, text: JSON.stringify({ error: `the module stopped: ${String(error)}` }) });
  }
});
