// Running text: one field of each JSON message, joined as it arrives. Made for the tokens of a language model.
//
// The text is bounded: the oldest pieces are dropped first. What arrives is drawn once per frame.

import { parsePath, textAt, textPaths } from "./fields.js";
import { visible } from "./visible.js";
import { count, many } from "./words.js";

const MOST_CHARACTERS = 1_000_000;
const PIECE = 20_000; // characters of a text node
const PARTS = /[^]{1,10000}/gu; // by code points, each of one or two characters
const LOOKED_AT = 50; // messages in which fields are looked for

export class Joined {
  #box;
  #field;
  #note;
  #choices;
  #output = document.createElement("p");
  #pieces = []; // text, as arrived; each is a text node
  #size = 0;
  #isCut = false;
  #keys = null;
  #messages = 0;
  #matches = 0;
  #entries = () => [];
  #isChosen = false; // the user wrote the field
  #frame = 0;
  #topPx = 0;
  following = true;

  /** `onFollow` is called when scrolling starts or stops following. */
  constructor({ box, field, note, choices }, onFollow) {
    this.#box = box;
    this.#field = field;
    this.#note = note;
    this.#choices = choices;
    this.onFollow = onFollow;
    box.replaceChildren(this.#output);
    new ResizeObserver(() => this.#schedule()).observe(box); // the end stays in view when the box becomes lower
    box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    field.addEventListener("change", () => {
      this.#isChosen = field.value.trim() !== "";
      this.reset(this.#entries);
    });
  }

  get text() {
    return this.#pieces.map((piece) => piece.text).join("");
  }

  /** Start over with the entries that `entries` returns. */
  reset(entries) {
    this.#entries = entries;
    this.#pieces = [];
    this.#size = this.#messages = this.#matches = 0;
    this.#isCut = false;
    this.#keys = null;
    this.#output.replaceChildren();
    this.add(entries());
  }

  add(entries) {
    this.#chooseField(entries);
    let text = "";
    for (const entry of entries) {
      const found = this.#keys && textAt(parsed(entry), this.#keys);
      this.#messages += 1;
      if (found === null) continue;
      this.#matches += 1;
      text += found;
    }
    if (text) this.#append(text);
    this.#schedule();
  }

  follow(following) {
    this.following = following;
    this.#schedule();
  }

  /** Take the field that the user wrote, or else the first that has text. */
  #chooseField(entries) {
    if (this.#keys || !entries.length) return;
    const paths = textPaths(entries.slice(-LOOKED_AT).map(parsed));
    this.#choices.replaceChildren(...paths.map((path) => new Option(path, path)));
    if (!this.#isChosen) this.#field.value = paths[0] ?? "";
    if (this.#isChosen || paths.length) this.#keys = parsePath(this.#field.value.trim());
    const isPath = this.#keys !== null || !this.#isChosen;
    this.#field.setCustomValidity(isPath ? "" : "Not a path");
    this.#field.ariaInvalid = isPath ? null : "true";
  }

  #append(text) {
    for (const part of text.length > PIECE ? text.match(PARTS) : [text]) {
      let last = this.#pieces.at(-1);
      if (!last || last.text.length + part.length > PIECE) {
        last = { text: "", node: new Text() };
        this.#pieces.push(last);
      }
      last.text += part;
    }
    this.#size += text.length;
    while (this.#size > MOST_CHARACTERS && this.#pieces.length > 1) {
      const first = this.#pieces.shift();
      this.#size -= first.text.length;
      first.node.remove();
      this.#isCut = true;
    }
  }

  #schedule() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    for (const piece of this.#pieces) {
      if (piece.node.isConnected && piece.drawn === piece.text.length) continue;
      piece.node.data = visible(piece.text);
      piece.drawn = piece.text.length;
      if (!piece.node.isConnected) this.#output.append(piece.node);
    }
    const words = this.#words();
    if (this.#note.textContent !== words) this.#note.textContent = words;
    if (this.following) this.#box.scrollTop = this.#box.scrollHeight;
    this.#topPx = this.#box.scrollTop;
  }

  #words() {
    const field = visible(this.#field.value.trim());
    if (this.#field.ariaInvalid) return "This is not a path. Write delta, or choices[0].delta.content.";
    if (this.#messages === 0) return "No messages yet.";
    const where = field === "" ? "Messages that are text" : `Messages with ${field}`;
    const cut = this.#isCut ? "; the oldest text is no longer shown" : "";
    return `${where}: ${count(this.#matches)} of ${many(this.#messages, "message")}${cut}`;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#box;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < 4;
    if (this.following && !isAtEnd && scrollTop < this.#topPx - 1) this.onFollow(false);
    else if (!this.following && isAtEnd && scrollTop > this.#topPx) this.onFollow(true);
    this.#topPx = scrollTop;
  }
}

function parsed(entry) {
  try {
    return JSON.parse(entry.text);
  } catch {
    return null; // JSON that this browser cannot read, such as a very deep one
  }
}
