// Splits batches from the server into entries to show: a JSON message, a line of text, or 256 bytes.
//
// An entry is {at, text, bytes, size, limit, time}. `time` is when it began to arrive. `at` is its position in the stream, or null if that is not
// certain (the server normalises line ends, so text with CR is shorter than what is stored). The last line of
// text, or the last bytes, may be incomplete: then the next batch extends that entry.

import { elements } from "./json.js";
import { position } from "./offsets.js";

const LONGEST_LINE = 64 * 1024;
const BYTES_PER_ENTRY = 256;

const encoder = new TextEncoder();
export const utf8 = (text) => encoder.encode(text);
// eslint-disable-next-line no-control-regex
const byteLength = (text) => (/^[\x00-\x7f]*$/.test(text) ? text.length : utf8(text).length);

export function kindOf(contentType) {
  const essence = contentType.split(";")[0].trim().toLowerCase();
  if (essence === "application/json" || essence.endsWith("+json")) return "json";
  return essence.startsWith("text/") ? "text" : "binary";
}

export function contentsOf(kind) {
  return { json: () => new JsonContents(), text: () => new TextContents(), binary: () => new BinaryContents() }[kind]();
}

const entry = (at, text, size, time, bytes = null) => ({ at, text, bytes, size, limit: 0, time });

/** The position at which a batch begins, if its size confirms it; otherwise null. */
function startOf(batch, size) {
  const end = position(batch.end);
  const start = position(batch.start) ?? end - size;
  return end - start === size ? start : null;
}

class JsonContents {
  take(batch) {
    const texts = elements(batch.data);
    const sizes = texts.map((text) => byteLength(text) + 1);
    let at = startOf(batch, sizes.reduce((sum, size) => sum + size, 0));
    const added = texts.map((text, index) => {
      const made = entry(at, text, sizes[index], batch.time);
      if (at !== null) at += sizes[index];
      return made;
    });
    return { added, grown: null, amount: added.length };
  }
}

class TextContents {
  #open = null;

  take(batch) {
    let at = startOf(batch, byteLength(batch.data));
    const added = [];
    let grown = null;
    const lines = batch.data.split("\n");
    const last = lines.pop();
    const put = (text, ends) => {
      const size = byteLength(text) + (ends ? 1 : 0);
      if (this.#open && this.#open.text.length + text.length <= LONGEST_LINE) {
        if (!added.length) grown = this.#open;
        this.#open.text += text;
        this.#open.size += size;
      } else {
        this.#open = entry(at, text, size, batch.time);
        added.push(this.#open);
      }
      if (ends) this.#open = null;
      if (at !== null) at += size;
    };
    for (const line of lines) put(line, true);
    if (last) put(last, false);
    return { added, grown, amount: added.length };
  }
}

class BinaryContents {
  #open = null;

  take(batch) {
    const bytes = fromBase64(batch.data);
    let at = startOf(batch, bytes.length);
    const added = [];
    let grown = null;
    let from = 0;
    while (from < bytes.length) {
      const room = this.#open ? BYTES_PER_ENTRY - this.#open.size : BYTES_PER_ENTRY;
      const part = bytes.subarray(from, from + room);
      if (this.#open) {
        grown = this.#open;
        grown.bytes = joined(grown.bytes, part);
        grown.size += part.length;
      } else added.push(entry(at, "", part.length, batch.time, part));
      const current = this.#open ?? added.at(-1);
      this.#open = current.size < BYTES_PER_ENTRY ? current : null;
      from += part.length;
      if (at !== null) at += part.length;
    }
    return { added, grown, amount: bytes.length };
  }
}

function joined(one, other) {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

function fromBase64(text) {
  return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

const loosely = new TextDecoder("utf-8");

/** The text that a filter searches. */
export function searchable(found) {
  return (found.bytes ? loosely.decode(found.bytes) : found.text).toLowerCase();
}

export function asText(found) {
  return found.bytes ? loosely.decode(found.bytes) : found.text;
}

export function asBytes(found) {
  return found.bytes ?? utf8(found.text);
}
