// The data of the page: JSON as it stands, chunks of samples unpacked when they are asked for.

import type { Completion, Problems, Sample } from "./types";

declare global {
  interface Window {
    tealight: { arrived(name: string, text: string): void };
  }
}

/** The samples of some problems: by problem, by model. */
export type Chunk = Sample[][][];

const unpacked = new Map<string, Promise<unknown>>();
const waiting = new Map<string, (text: string) => void>();

// What a script in report-data calls.
window.tealight = { arrived: (name, text) => waiting.get(name)?.(text) };

async function unpack(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function beside(name: string): Promise<string> {
  return new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const script = document.createElement("script");
    script.src = `report-data/${name}.js`;
    script.onload = () => script.remove();
    script.onerror = () => reject(new Error(`report-data/${name}.js is not beside this page`));
    document.head.append(script);
  });
}

/** A part of the page or of its folder. What is opened stays unpacked; a search lets go of what it has read. */
export function load(name: string, isBeside: boolean, stays: boolean): Promise<unknown> {
  const known = unpacked.get(name);
  if (known) return known;
  const text = isBeside ? beside(name) : Promise.resolve(document.getElementById(name)?.textContent ?? "");
  const found = text.then(unpack);
  unpacked.set(name, found);
  const release = (): void => void unpacked.delete(name);
  if (!stays) found.then(release, release);
  else found.catch(release);
  return found;
}

export const chunk = (name: string, isBeside: boolean, stays: boolean): Promise<Chunk> =>
  load(name, isBeside, stays) as Promise<Chunk>;

export const problems = (): Promise<Problems> => load("problems", false, true) as Promise<Problems>;

/** The completions of a training step. */
export async function completions(index: number): Promise<Completion[]> {
  return (await load(`step-${index}`, false, true)) as Completion[];
}
