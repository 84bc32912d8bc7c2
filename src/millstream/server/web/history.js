// The server's numbers over the last 15 minutes. The server keeps samples, so that charts have a past when the page
// opens. Each request gets the samples that are new, and last the numbers of now.

import { ask, controlUrl } from "./server.js";

const SHORTEST_MS = 1000; // a rate over less time than this is mostly noise

export class History {
  #samples = []; // {atMs, appends, ...}, by the names of the server's columns
  #now = null;
  keptMs = 15 * 60_000;

  async load() {
    const after = this.#samples.at(-1)?.atMs ?? 0;
    this.take(await (await ask(controlUrl("history", { after }))).json());
  }

  take({ keptMs, columns, samples }) {
    const read = samples.map((values) => Object.fromEntries(columns.map((name, at) => [name, values[at]])));
    this.#now = read.pop();
    this.keptMs = keptMs;
    if (this.#now.atMs < this.#samples.at(-1)?.atMs) this.#samples = []; // the server's clock was set back
    this.#samples.push(...read);
    while (this.#samples[0]?.atMs < this.#now.atMs - keptMs) this.#samples.shift();
  }

  get nowMs() {
    return this.#now?.atMs ?? 0;
  }

  get now() {
    return this.#now;
  }

  /** Give [milliseconds, value] pairs; `measure(now, before, seconds)` gives a value, or null for a gap. */
  points(measure) {
    const all = this.#now ? [...this.#samples, this.#now] : [];
    const points = [];
    let before = null;
    for (const sample of all) {
      const isShort = before && sample === this.#now && sample.atMs - before.atMs < SHORTEST_MS;
      if (before && !isShort) points.push([sample.atMs, measure(sample, before, (sample.atMs - before.atMs) / 1000)]);
      before = sample;
    }
    return points;
  }
}
