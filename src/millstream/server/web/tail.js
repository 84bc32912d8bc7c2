// A live read that reconnects: server-sent events over fetch, resumed by offset after every disconnect.
//
//   connecting --> catching-up --> live --> ended       the stream is closed, and all of it was read
//        ^              |           |
//        +--- waiting <-+-----------+                   the connection was lost: resume at the last offset
//        failed                                         refused: the stream does not exist or may not be read
//
// Data is used only when its control event has arrived, which says where it ends. So a disconnect neither loses nor
// repeats data. EventSource is not used because it cannot send a token.

import { EventParser } from "./sse.js";
import { Problem, ask, streamUrl } from "./server.js";

const SILENCE_MS = 45_000; // the server sends a keep-alive every 15 s
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
const SLICE_MS = 12; // yield to the browser after working this long

/** Display names of the states. */
export const STATES = {
  connecting: "Connecting…",
  "catching-up": "Catching up",
  live: "Live",
  waiting: "Connection lost; reconnecting",
  paused: "Paused",
  ended: "Ended",
};

export class Tail {
  #name;
  #on;
  #times;
  #cursor = null;
  #stop = new AbortController();
  #isEnded = false;

  /**
   * `on` has batch({data, start, end, upToDate, encoding, time}), state(word, detail) and restarted(). With `times`
   * a batch has messages of one time only.
   */
  constructor(name, offset, on, { times = false } = {}) {
    this.#name = name;
    this.offset = offset;
    this.#on = on;
    this.#times = times;
    this.#run();
  }

  stop() {
    this.#stop.abort();
  }

  async #run() {
    const stop = this.#stop.signal;
    let failures = 0;
    this.#report("connecting");
    while (!stop.aborted) {
      const begun = performance.now();
      let wait = 0;
      try {
        await this.#read();
        if (this.#isEnded) return;
        // Event streams end after a minute. Back off if one ends at once, to avoid a busy loop.
        failures = performance.now() - begun > 1000 ? 0 : failures + 1;
      } catch (error) {
        if (stop.aborted) return;
        if (error instanceof Problem && !error.passes) return this.#report("failed", error);
        failures = this.#heard ? 1 : failures + 1;
        wait = error.retryAfterS ?? 0;
      }
      if (stop.aborted) return;
      if (failures) {
        const waitMs = Math.max(wait * 1000, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1)));
        this.#report("waiting");
        await pause(waitMs * (0.75 + Math.random() / 2), stop);
      }
    }
  }

  #heard = false;

  async #read() {
    this.#heard = false;
    const connection = new AbortController();
    const signal = AbortSignal.any([connection.signal, this.#stop.signal]);
    let heardMs = performance.now();
    const watch = setInterval(() => {
      if (performance.now() - heardMs > SILENCE_MS) connection.abort();
    }, 5000);
    try {
      const query = { offset: this.offset, live: "sse", cursor: this.#cursor, times: this.#times || null };
      const response = await ask(streamUrl(this.#name, query), { signal });
      const encoding = response.headers.get("Stream-SSE-Data-Encoding");
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let data = null;
      let sliceMs = performance.now();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || this.#stop.signal.aborted) return;
        heardMs = performance.now();
        for (const event of parser.feed(value)) {
          if (event.type === "data") data = event.data;
          else if (event.type === "control") {
            if (this.#control(JSON.parse(event.data), data, encoding)) return;
            data = null;
          }
        }
        if (performance.now() - sliceMs > SLICE_MS) {
          await new Promise((resume) => setTimeout(resume));
          sliceMs = performance.now();
        }
      }
    } finally {
      clearInterval(watch);
      connection.abort();
    }
  }

  /** Handle a control event; true when this connection has nothing more to read. */
  #control(control, data, encoding) {
    const start = this.offset;
    const end = control.streamNextOffset;
    if (!this.#heard && start.includes("_") && end < start) {
      // The tail is before our offset: the stream was deleted and recreated.
      this.offset = "-1";
      this.#cursor = null;
      this.#on.restarted();
      return true;
    }
    this.#heard = true;
    this.offset = end;
    this.#cursor = control.streamCursor ?? null;
    const upToDate = Boolean(control.upToDate);
    this.#on.batch({ data, start, end, upToDate, encoding, time: control.streamLastTime ?? null });
    this.#isEnded = Boolean(control.streamClosed);
    this.#report(this.#isEnded ? "ended" : upToDate ? "live" : "catching-up");
    return this.#isEnded;
  }

  #state = "";

  #report(state, detail) {
    if (state === this.#state && !detail) return;
    this.#state = state;
    if (!this.#stop.signal.aborted) this.#on.state(state, detail);
  }
}

function pause(ms, signal) {
  return new Promise((resume) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resume();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}
