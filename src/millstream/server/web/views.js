// Renders an entry as a row: formatted JSON, plain text, or hex. Content is only ever put into text nodes.

import { asBytes, asText } from "./contents.js";
import { hexDigits, hexLines } from "./hex.js";
import { layOut } from "./json.js";
import { visible } from "./visible.js";
import { clock, count, instant } from "./words.js";

const FIRST_CUT = 2_000; // characters shown of a long entry at first

export const VIEWS = {
  json: { pretty: "JSON", joined: "Text", plain: "Raw", hex: "Hex" },
  text: { plain: "Text", hex: "Hex" },
  binary: { hex: "Hex", plain: "Text" },
};

/** Make the row of an entry, for a log of `columns` characters. */
export function rowOf(entry, view, columns) {
  const row = document.createElement("div");
  row.className = "row";
  const place = document.createElement(entry.at === null ? "span" : "button");
  place.className = "place";
  if (entry.at !== null) {
    place.textContent = count(entry.at);
    place.type = "button";
    place.tabIndex = -1; // reached with Enter and the arrow keys, see rowkeys
    place.title = "Copy the offset";
    place.ariaLabel = `Copy the offset ${count(entry.at)}`;
  }
  const what = document.createElement("span");
  what.className = "what";
  if (view === "hex") row.classList.add("hex");
  row.append(place, timeOf(entry), what, copyButton());
  const hidden = fill[view](what, entry, Math.max(entry.limit, FIRST_CUT), columns);
  if (hidden > 0) row.append(moreButton(hidden));
  return row;
}

function timeOf(entry) {
  const time = document.createElement("time");
  if (entry.time) {
    time.textContent = clock(Date.parse(entry.time));
    time.dateTime = entry.time;
    time.title = `Arrived ${instant(Date.parse(entry.time))}`;
  }
  return time;
}

function copyButton() {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.tabIndex = -1;
  button.textContent = "Copy";
  button.title = "Copy the message";
  return button;
}

/** The text to copy for an entry: the message as it was sent, or bytes as hex. */
export function copyOf(entry) {
  return entry.bytes ? hexDigits(entry.bytes) : entry.text.trim();
}

/** Show ten times as much of an entry. */
export function showMore(entry) {
  entry.limit = Math.max(entry.limit, FIRST_CUT) * 10;
}

function moreButton(hidden) {
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more link";
  more.textContent = `Show more (${count(hidden)} characters hidden)`;
  return more;
}

// Each returns the number of characters that are not shown.
const fill = {
  plain(what, entry, limit) {
    const text = asText(entry);
    what.textContent = visible(cut(text, limit));
    return text.length - limit;
  },

  hex(what, entry, limit, columns) {
    const bytes = asBytes(entry);
    what.textContent = hexLines(bytes.subarray(0, limit), entry.at, columns < 78 ? 8 : 16);
    return bytes.length - limit;
  },

  pretty(what, entry, limit, columns) {
    const { pieces, isWhole } = layOut(entry.text, limit, columns);
    let left = limit * 2; // formatting adds spaces
    let shown = 0;
    for (const [kind, text] of pieces) {
      const part = visible(cut(text, left));
      if (kind === "") what.append(part);
      else {
        const span = document.createElement("span");
        span.className = kind;
        span.textContent = part;
        what.append(span);
      }
      left -= part.length;
      shown += Math.min(text.length, part.length);
      if (left <= 0) break;
    }
    return isWhole && left > 0 ? 0 : Math.max(1, entry.text.length - shown);
  },
};

function cut(text, length) {
  if (text.length <= length) return text;
  const splitsPair = (text.charCodeAt(length - 1) & 0xfc00) === 0xd800;
  return text.slice(0, splitsPair ? length - 1 : length);
}
