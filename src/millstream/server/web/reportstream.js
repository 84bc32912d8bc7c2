// Follows a stream of JSON reports: reads the last of them, stays on it, and waits where there is none yet.

import { kindOf } from "./contents.js";
import { describe } from "./facts.js";
import { Problem } from "./server.js";
import { STATES, Tail } from "./tail.js";

const AGAIN_MS = 3000; // how often to look for a stream that does not exist yet

export class ReportStream {
  #on;
  #tail = null;
  #stop = new AbortController();
  #isCurrent = false;

  /**
   * `last` is how many reports are read at first. `on` has take(text, isNew) for an array of records, say(state, words),
   * missing(), and again(), which is called when the stream must be opened anew. After `stop` none of them is called.
   */
  constructor(name, last, on) {
    this.name = name;
    this.#on = on;
    on.say("connecting", STATES.connecting);
    this.#open(last);
  }

  /** Whether there is such a stream, and it is read. */
  get isRead() {
    return this.#tail !== null;
  }

  stop() {
    this.#stop.abort();
    this.#tail?.stop();
  }

  async #open(last) {
    try {
      const about = await describe({ name: this.name, stop: this.#stop });
      if (kindOf(about.contentType) !== "json") throw new Problem(415, "This stream is not JSON, so it has no reports.");
      if (!this.#stop.signal.aborted) this.#follow(`last:${last}`);
    } catch (error) {
      this.#refused(error);
    }
  }

  #follow(offset) {
    this.#tail = new Tail(this.name, offset, {
      batch: ({ data, upToDate }) => {
        if (this.#stop.signal.aborted) return;
        if (data) this.#on.take(data, this.#isCurrent);
        this.#isCurrent ||= upToDate;
      },
      state: (state, detail) => {
        if (state === "failed") this.#refused(detail);
        else if (!this.#stop.signal.aborted) this.#on.say(state, STATES[state]);
      },
      restarted: () => this.#again(),
    });
  }

  #refused(error) {
    if (this.#stop.signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    this.#on.say(error.passes ? "waiting" : "failed", error.message);
    const isMissing = error.status === 404;
    if (isMissing) this.#on.missing();
    if (error.passes || isMissing) setTimeout(() => this.#again(), AGAIN_MS);
  }

  #again() {
    if (!this.#stop.signal.aborted) this.#on.again();
  }
}
