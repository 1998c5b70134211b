// The module in a Web Worker: calls as promises.

declare const WORKER: string;

export interface Problem {
  statement: string;
  answers: string[];
}

export interface Measured {
  probabilities: number[];
  pass_1: number;
  pass_8: number;
  distinct_8: number;
  distinct_32: number;
}

export interface RunSettings {
  divergence: string;
  weight: number | null;
  learning_rate: number;
  seed: number;
  max_steps: number;
}

/** A policy of a toy task: its measures, and the probability of every output. */
export interface Policy {
  measures: { validity: number; effective_valid: number; max_mass: number; unique_valid_256: number };
  probabilities: number[];
}

/** A toy task: its outputs, which of them are correct, its base, and p*. */
export interface World {
  outputs: string[];
  is_correct: boolean[];
  base: Policy;
  pstar: Policy;
}

/** What an optimum is of: reverse KL at a beta, or a divergence to p* at an alpha. */
export type Target = { beta: number } | { alpha: number };

let module: Promise<WebAssembly.Module> | undefined;

/** The module, which the page holds compressed and in base64. */
function compiled(): Promise<WebAssembly.Module> {
  module ??= (async () => {
    const text = document.getElementById("module")?.textContent ?? "";
    const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(stream).arrayBuffer());
  })();
  return module;
}

export class Engine {
  private readonly worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
  private readonly waiting = new Map<number, (text: string) => void>();
  private readonly ready: Promise<void>;
  private calls = 0;

  constructor() {
    this.worker.addEventListener("message", ({ data }: MessageEvent<{ id: number; text: string }>) => {
      this.waiting.get(data.id)?.(data.text);
      this.waiting.delete(data.id);
    });
    this.ready = compiled().then((module) => this.worker.postMessage({ module }));
  }

  private async ask<T>(call: object): Promise<T> {
    await this.ready;
    const id = this.calls++;
    const text = await new Promise<string>((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, text: JSON.stringify(call) });
    });
    const answer = JSON.parse(text) as T & { error?: string };
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  create(settings: RunSettings): Promise<{ objective: string; problems: Problem[] }> {
    return this.ask({ call: "create", settings });
  }

  step(): Promise<{ metrics: Record<string, number | null>; is_done: boolean }> {
    return this.ask({ call: "step" });
  }

  /** Measures one problem, or all of them. */
  measure(problem: number | null): Promise<{ step: number; problems: Measured[] }> {
    return this.ask({ call: "measure", problem });
  }

  hash(): Promise<{ weights: string }> {
    return this.ask({ call: "hash" });
  }

  export(settings: RunSettings): Promise<{ toml: string }> {
    return this.ask({ call: "export", settings });
  }

  world(world: string): Promise<World> {
    return this.ask({ call: "world", world });
  }

  /** The optimum in a class of policies. */
  optimum(world: string, policies: string, target: Target): Promise<Policy> {
    return this.ask({ call: "optimum", world, class: policies, target });
  }

  end(): void {
    this.worker.terminate();
  }
}
