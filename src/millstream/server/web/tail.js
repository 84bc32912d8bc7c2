// A live read of one stream that reconnects, resumed by offset after every disconnect.
//
//   connecting --> catching-up --> live --> ended       the stream is closed, and all of it was read
//        ^              |           |
//        +--- waiting <-+-----------+                   the connection was lost: resume at the last offset
//        +--- gone <----------------+                   the stream was deleted: its path may get another one
//        failed                                         refused: the stream does not exist or may not be read
//
// Data is used only when its control event has arrived, which says where it ends. So a disconnect neither loses nor
// repeats data. Each response names the stream's incarnation: another one than before is another stream.

import { keepReading, readEvents } from "./connections.js";
import { ask, streamUrl } from "./server.js";

const GONE_MS = 2000; // how often to look whether a deleted stream was created again

/** Display names of the states. */
export const STATES = {
  connecting: "Connecting…",
  "catching-up": "Catching up",
  live: "Live",
  waiting: "Connection lost; reconnecting",
  paused: "Paused",
  gone: "Deleted",
  ended: "Ended",
};

export class Tail {
  #name;
  #on;
  #times;
  #cursor = null;
  #stop = new AbortController();
  #isEnded = false;
  #heard = false;

  /**
   * `on` has batch({data, start, end, upToDate, encoding, time}), state(word, detail) and restarted(), which is
   * called once, when the stream is not the one of this incarnation. With `times` a batch has messages of one time only.
   */
  constructor(name, offset, on, { times = false, incarnation = null } = {}) {
    this.#name = name;
    this.offset = offset;
    this.incarnation = incarnation;
    this.#on = on;
    this.#times = times;
    this.#run();
  }

  stop() {
    this.#stop.abort();
  }

  #run() {
    this.#report("connecting");
    keepReading(this.#stop.signal, {
      read: () => this.#read(),
      heard: () => this.#heard,
      refused: (problem) => this.#refused(problem),
      wait: () => this.#report("waiting"),
    });
  }

  async #read() {
    this.#heard = false;
    const query = { offset: this.offset, live: "sse", cursor: this.#cursor, times: this.#times || null };
    let encoding = null;
    let data = null;
    await readEvents(streamUrl(this.#name, query), { signal: this.#stop.signal }, {
      begin: (response) => {
        encoding = response.headers.get("Stream-SSE-Data-Encoding");
        return this.#isAnother(response.headers.get("Stream-Incarnation"));
      },
      take: (event) => {
        if (event.type === "data") data = event.data;
        if (event.type !== "control") return false;
        this.#control(JSON.parse(event.data), data, encoding);
        data = null;
        return this.#isEnded;
      },
    });
    return this.#isEnded;
  }

  #isAnother(incarnation) {
    const isAnother = this.incarnation !== null && incarnation !== this.incarnation;
    this.incarnation = incarnation;
    if (!isAnother) return false;
    this.stop();
    this.#on.restarted();
    return true;
  }

  /** A stream that was read before and is missing now was deleted; another one may not have our offset. */
  async #refused(problem) {
    const wasRead = this.incarnation !== null;
    if (wasRead && problem.isMissing) {
      this.#report("gone");
      return GONE_MS;
    }
    if (!wasRead || !(await this.#isReplaced())) this.#report("failed", problem);
    return null;
  }

  async #isReplaced() {
    try {
      const { headers } = await ask(streamUrl(this.#name), { method: "HEAD", signal: this.#stop.signal });
      return this.#isAnother(headers.get("Stream-Incarnation"));
    } catch {
      return false; // the refusal says why
    }
  }

  #control(control, data, encoding) {
    const start = this.offset;
    const end = control.streamNextOffset;
    this.#heard = true;
    this.offset = end;
    this.#cursor = control.streamCursor ?? null;
    const upToDate = Boolean(control.upToDate);
    this.#on.batch({ data, start, end, upToDate, encoding, time: control.streamLastTime ?? null });
    this.#isEnded = Boolean(control.streamClosed);
    this.#report(this.#isEnded ? "ended" : upToDate ? "live" : "catching-up");
  }

  #state = "";

  #report(state, detail) {
    if (state === this.#state && !detail) return;
    this.#state = state;
    if (!this.#stop.signal.aborted) this.#on.state(state, detail);
  }
}
