// The visible rows of the list, live: sizes, last writes and ends of their streams, over one connection.
//
// It begins at the tails, so that only what is new is sent. If that is very much, the list rests: it is refreshed by
// listings every few seconds anyway.

import { Many } from "./many.js";

const SETTLING_MS = 300; // while somebody scrolls, nothing is followed
const BUSY_CHARACTERS = 4 * 2 ** 20; // in a second
const REST_MS = 5000;

export class LiveRows {
  #on;
  #paths = [];
  #many = null;
  #timer = 0;
  #arrived = 0;
  #sinceMs = 0;

  /** `on` has grew(path, tail, time), ended(path) and gone(path). */
  constructor(on) {
    this.#on = on;
    document.addEventListener("visibilitychange", () => this.restart());
  }

  /** Follow these streams instead. */
  show(paths) {
    if (paths.length === this.#paths.length && paths.every((path, at) => path === this.#paths[at])) return;
    this.#paths = paths;
    this.restart();
  }

  /** Follow anew, soon: with another token, or after a rest. */
  restart(afterMs = SETTLING_MS) {
    this.#many?.stop();
    this.#many = null;
    clearTimeout(this.#timer);
    if (this.#paths.length && document.visibilityState === "visible") this.#timer = setTimeout(() => this.#begin(), afterMs);
  }

  #begin() {
    this.#arrived = 0;
    this.#sinceMs = performance.now();
    this.#many = new Many(this.#paths.map((path) => [path, "now"]), {
      state: () => {},
      joined: (path, { offset }) => this.#on.grew(path, offset, null),
      batch: (path, { end, time }) => this.#on.grew(path, end, time),
      ended: (path) => this.#on.ended(path),
      deleted: (path) => this.#on.gone(path),
      refused: (path, problem) => problem.isMissing && this.#on.gone(path),
      arrived: (characters) => this.#count(characters),
    });
  }

  #count(characters) {
    const nowMs = performance.now();
    if (nowMs - this.#sinceMs > 1000) [this.#sinceMs, this.#arrived] = [nowMs, 0];
    this.#arrived += characters;
    if (this.#arrived > BUSY_CHARACTERS) this.restart(REST_MS);
  }
}
