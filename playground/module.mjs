// The module in WebAssembly, called from node: JSON in, JSON out.
import { readFile } from "node:fs/promises";

export async function open(file) {
  const started = performance.now();
  const { instance } = await WebAssembly.instantiate(await readFile(file), {});
  const { memory, input, call, output } = instance.exports;
  const ask = (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const to = input(bytes.length);
    new Uint8Array(memory.buffer, to, bytes.length).set(bytes);
    const length = call();
    const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, output(), length)));
    if (answer.error) throw new Error(answer.error);
    return answer;
  };
  return { ask, memory, seconds: (performance.now() - started) / 1000 };
}
