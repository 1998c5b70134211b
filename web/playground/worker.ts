// A run of its own thread: the module in WebAssembly, which answers one call at a time.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  call(): number;
  output(): number;
}

let exports: Promise<Exports> | undefined;

async function start(module: WebAssembly.Module): Promise<Exports> {
  const instance = await WebAssembly.instantiate(module, {});
  return instance.exports as unknown as Exports;
}

async function answer(text: string): Promise<string> {
  if (!exports) throw new Error("the module has not been sent");
  const { memory, input, call, output } = await exports;
  const bytes = new TextEncoder().encode(text);
  // The memory may grow in either call: its buffer is asked for afterwards.
  const to = input(bytes.length);
  new Uint8Array(memory.buffer, to, bytes.length).set(bytes);
  const length = call();
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
