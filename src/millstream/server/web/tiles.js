// A tile of the board: a stream's name, what it is doing, and its last messages, each cut to a line.

import { addressOf } from "./address.js";
import { asText, contentsOf, kindOf } from "./contents.js";
import { hexDigits } from "./hex.js";
import { visible } from "./visible.js";
import { ago, clock } from "./words.js";

export const LINES = 8;
const LONGEST_LINE = 300; // characters
const HEX_BYTES = 32;

export class Tile {
  #contents = null;
  #entries = [];
  #lines = element("ol", "lines");
  #note = element("p", "tile-note");
  #when = element("span", "when");
  #badge = element("span", "badge");
  #lastMs = 0;
  isDeleted = false;
  element = element("li", "tile");

  constructor(path) {
    this.path = path;
    const head = element("div", "tile-head");
    const name = document.createElement("h2");
    const link = document.createElement("a");
    link.href = addressOf(path);
    link.textContent = link.title = visible(path);
    name.append(link);
    head.append(name, this.#badge, this.#when);
    this.#badge.hidden = true;
    this.element.dataset.path = path;
    this.element.append(head, this.#note, this.#lines);
    this.say("");
  }

  /** The stream is followed; one that takes the place of a deleted one begins anew. */
  join(contentType) {
    const kind = kindOf(contentType);
    if (this.isDeleted) {
      this.#entries = [];
      this.#contents = null;
      this.isDeleted = false;
      this.say("Deleted, and created anew: this is the new stream.");
    }
    this.#contents ??= contentsOf(kind);
    this.#mark("");
  }

  take({ data, start, end, encoding, time }) {
    if (time) this.#lastMs = Math.max(this.#lastMs, Date.parse(time) || 0);
    if (!data || !this.#contents) return;
    const { added } = this.#contents.take({ data, start, end, encoding, time });
    this.#entries.push(...added.slice(-LINES));
    if (this.#entries.length > LINES) this.#entries.splice(0, this.#entries.length - LINES);
  }

  end() {
    this.#mark("Closed");
  }

  remove() {
    this.isDeleted = true;
    this.#mark("Deleted");
  }

  /** Show a note, such as why there is nothing to see. */
  say(words, isProblem = false) {
    this.#note.textContent = words;
    this.#note.hidden = words === "";
    this.#note.classList.toggle("problem", isProblem);
  }

  draw() {
    while (this.#lines.children.length > this.#entries.length) this.#lines.lastElementChild.remove();
    this.#entries.forEach((entry, at) => {
      const line = this.#lines.children[at] ?? this.#lines.appendChild(document.createElement("li"));
      const words = shown(entry);
      if (line.textContent !== words) line.textContent = words;
      line.title = entry.time ? `Arrived ${clock(Date.parse(entry.time))}` : "";
    });
    this.drawTime();
  }

  drawTime() {
    const words = this.#lastMs ? ago(this.#lastMs) : "";
    if (this.#when.textContent !== words) this.#when.textContent = words;
  }

  #mark(words) {
    this.#badge.textContent = words;
    this.#badge.hidden = words === "";
    this.element.classList.toggle("is-over", words !== "");
  }
}

function shown(entry) {
  const text = entry.bytes ? hexDigits(entry.bytes.subarray(0, HEX_BYTES)) : asText(entry);
  return visible(text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)}…` : text);
}

function element(name, className) {
  const made = document.createElement(name);
  made.className = className;
  return made;
}
