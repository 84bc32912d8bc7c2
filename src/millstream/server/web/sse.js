// Parses server-sent events from text that arrives in chunks of any size.

export class EventParser {
  #pieces = []; // of an incomplete line
  #type = "";
  #data = [];

  /** Parse more text; return the events that it completes. */
  feed(text) {
    const events = [];
    const lines = text.split("\n");
    if (lines.length === 1) {
      this.#pieces.push(text);
      return events;
    }
    lines[0] = this.#pieces.join("") + lines[0];
    this.#pieces = [lines.pop()];
    for (const line of lines) {
      if (line === "") this.#finish(events);
      else this.#take(line);
    }
    return events;
  }

  #take(line) {
    const colon = line.indexOf(":");
    if (colon <= 0) return;
    const value = line.charCodeAt(colon + 1) === 0x20 ? line.slice(colon + 2) : line.slice(colon + 1);
    const field = line.slice(0, colon);
    if (field === "event") this.#type = value;
    else if (field === "data") this.#data.push(value);
  }

  #finish(events) {
    if (this.#data.length) events.push({ type: this.#type || "message", data: this.#data.join("\n") });
    this.#type = "";
    this.#data = [];
  }
}
