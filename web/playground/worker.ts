// A run of its own thread: the module in WebAssembly, which answers one call at a time.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  call(): number;
  output(): number;
  failure_length(): number;
  failure_text(): number;
}

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

async function start(module: WebAssembly.Module): Promise<Exports> {
  const instance = await WebAssembly.instantiate(module, unused(module));
  return instance.exports as unknown as Exports;
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
