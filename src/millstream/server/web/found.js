// The streams that a search found, in the order of their names; they arrive page by page.

import { Tree } from "./tree.js";

export const PAGE = 1000;

export class Found {
  items = [];
  tree = new Tree();
  #places = new Map(); // path -> index
  #askedMs = []; // when each page was last asked for again

  add(streams) {
    for (const stream of streams) {
      this.#places.set(stream.path, this.items.length);
      this.items.push(stream);
      this.tree.add(stream);
    }
  }

  /** Show newer properties of streams; those that were not found before are left to the next search. */
  replace(streams) {
    for (const stream of streams) {
      const at = this.#places.get(stream.path);
      if (at === undefined) continue;
      this.items[at] = stream;
      this.tree.replace(stream);
    }
  }

  find(path) {
    return this.items[this.#places.get(path)];
  }

  /** Choose the page to ask for again: of those that hold one of these streams, the one asked for longest ago.
   *
   * Gives the name after which it begins, or null if there is none.
   */
  pageToRefresh(streams) {
    const pages = new Set(streams.map(({ path }) => Math.floor(this.#places.get(path) / PAGE)));
    const [oldest] = [...pages].sort((one, other) => (this.#askedMs[one] ?? 0) - (this.#askedMs[other] ?? 0));
    if (oldest === undefined) return null;
    this.#askedMs[oldest] = performance.now();
    return oldest === 0 ? "" : this.items[oldest * PAGE - 1].path;
  }
}
