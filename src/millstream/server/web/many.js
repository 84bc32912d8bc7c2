// Many streams over one connection to `__ds/events`, resumed by offset after every disconnect.
//
// The streams are named in the body of a POST, because they may be too many for a URL. Globs, if there are any, find
// the streams that are created later. As for one stream, data is used only when its control event has arrived.

import { keepReading, readEvents } from "./connections.js";
import { Problem, controlUrl } from "./server.js";

const REFUSED = 403;

export class Many {
  #on;
  #globs;
  #streams; // path -> where to go on, of those that have not ended
  #encodings = new Map(); // path -> encoding of its data
  #from = null;
  #stop = new AbortController();
  #heard = false;
  #fatal = null;
  #state = "";

  /**
   * `streams` is a map of paths to offsets. `on` has state(word, detail), and for each stream joined(path, {offset,
   * contentType}), batch(path, {data, start, end, encoding, time}), ended(path), deleted(path) and
   * refused(path, problem). `arrived(characters)` is optional.
   */
  constructor(streams, on, globs = []) {
    this.#streams = new Map(streams);
    this.#on = on;
    this.#globs = globs;
    this.#report("connecting");
    keepReading(this.#stop.signal, {
      read: () => this.#read(),
      heard: () => this.#heard,
      refused: (problem) => {
        this.#report("failed", problem);
        return null;
      },
      wait: () => this.#report("waiting"),
    });
  }

  stop() {
    this.#stop.abort();
  }

  async #read() {
    this.#heard = false;
    this.#fatal = null;
    const body = new URLSearchParams(this.#globs.map((glob) => ["glob", glob]));
    for (const [path, offset] of this.#streams) body.append("stream", `${path}@${offset}`);
    if (this.#from !== null) body.append("from", this.#from);
    let data = null;
    await readEvents(controlUrl("events"), { method: "POST", body, signal: this.#stop.signal }, {
      begin: () => this.#report("live"),
      arrived: (characters) => this.#on.arrived?.(characters),
      take: ({ type, data: said }) => {
        this.#heard = true;
        if (type === "data") data = said;
        else if (type === "control") {
          this.#control(JSON.parse(said), data);
          data = null;
        } else if (type === "globs") this.#from = JSON.parse(said).from;
        else if (type === "error") this.#failed(JSON.parse(said));
        return this.#stop.signal.aborted;
      },
    });
    if (this.#fatal) throw this.#fatal;
    const isOver = this.#streams.size === 0 && this.#globs.length === 0;
    if (isOver) this.#report("ended");
    return isOver;
  }

  #control(control, data) {
    const path = control.streamPath;
    const end = control.streamNextOffset;
    if (control.streamDeleted) {
      this.#streams.delete(path);
      this.#on.deleted(path);
      return;
    }
    if (control.streamContentType !== undefined) {
      this.#encodings.set(path, control.streamDataEncoding ?? null);
      this.#on.joined(path, { offset: end, contentType: control.streamContentType });
    } else {
      const batch = { data, start: this.#streams.get(path), end, time: control.streamLastTime ?? null };
      this.#on.batch(path, { ...batch, encoding: this.#encodings.get(path) ?? null });
    }
    this.#streams.set(path, end);
    if (!control.streamClosed) return;
    this.#streams.delete(path);
    this.#on.ended(path);
  }

  /** Without a path it is the connection that failed. */
  #failed({ streamPath, status, detail }) {
    const problem = new Problem(status ?? REFUSED, String(detail ?? "The server refused this."));
    if (streamPath === undefined) {
      this.#fatal = problem;
      return;
    }
    this.#streams.delete(streamPath);
    this.#on.refused(streamPath, problem);
  }

  #report(state, detail) {
    if (state === this.#state && !detail) return;
    this.#state = state;
    if (!this.#stop.signal.aborted) this.#on.state(state, detail);
  }
}
