// A run of its own thread: the module in WebAssembly, which answers one call at a time.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  call(): number;
  output(): number;
  failure_length(): number;
  failure_text(): number;
}

type Tile = (left: number, right: number, height: number, depth: number, out: number) => void;

/** The module of products (playground/products.rs), in base64. */
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

/** The products' module on the memory of the other; none where the browser lacks the instruction. */
async function productsOn(memory: WebAssembly.Memory): Promise<Tile | undefined> {
  const bytes = Uint8Array.from(atob(PRODUCTS), (character) => character.charCodeAt(0));
  if (!WebAssembly.validate(bytes)) return undefined;
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  const { square_and, tile_of } = instance.exports as unknown as { square_and(a: number, c: number): number; tile_of: Tile };
  // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which a product that is rounded by itself has lost.
  return square_and(1 + 2 ** -12, -(1 + 2 ** -11)) === 2 ** -24 ? tile_of : undefined;
}

async function start(module: WebAssembly.Module): Promise<Exports> {
  let tile: Tile | undefined;
  const products = {
    is_there: () => Number(tile !== undefined),
    tile_of: (...values: Parameters<Tile>) => {
      if (!tile) throw new Error("products were asked for where is_there said that there are none");
      tile(...values);
    },
  };
  const instance = await WebAssembly.instantiate(module, { ...unused(module), products });
  const found = instance.exports as unknown as Exports;
  tile = await productsOn(found.memory);
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
