// JSON as text: split into messages and formatted without parsing, so that big integers, repeated keys
// and key order are shown as they were sent.

/** Split the text of an array into the texts of its elements. */
export function elements(text) {
  const found = [];
  let depth = 0;
  let from = -1;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = stringEnd(text, at) - 1;
        break;
      case 0x5b: // [
      case 0x7b: // {
        depth += 1;
        if (depth === 1) from = at + 1;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        if (depth === 0 && at > from) found.push(text.slice(from, at));
        break;
      case 0x2c: // ,
        if (depth === 1) {
          found.push(text.slice(from, at));
          from = at + 1;
        }
        break;
    }
  }
  return found;
}

function stringEnd(text, quote) {
  for (let at = text.indexOf('"', quote + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === 0x5c) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
  return text.length;
}

const WORD = /[^\s{}[\],:"]+/y;

/** Split JSON into tokens, up to about `limit` characters. */
function tokens(text, limit) {
  const found = [];
  let at = 0;
  while (at < text.length && at < limit) {
    const character = text[at];
    let end = at + 1;
    if (character === '"') end = stringEnd(text, at);
    else if (/\s/.test(character)) {
      at = end;
      continue;
    } else if (!"{}[],:".includes(character)) {
      WORD.lastIndex = at;
      end = at + (WORD.exec(text)?.[0].length ?? 1);
    }
    found.push(text.slice(at, end));
    at = end;
  }
  return { found, isWhole: at >= text.length };
}

/** Format JSON to a line width, as pieces of [kind, text], where kind is key, string, number, word or "". */
export function layOut(text, limit, width) {
  const { found, isWhole } = tokens(text, limit);
  const pieces = [];
  const inline = []; // for each open bracket, whether it fits on a line
  const newLine = () => pieces.push(["", `\n${"  ".repeat(inline.length)}`]);
  found.forEach((token, at) => {
    if (token === "{" || token === "[") {
      pieces.push(["", token]);
      inline.push(inline.at(-1) || fits(found, at, width - 2 * inline.length));
      if (!inline.at(-1)) newLine();
    } else if (token === "}" || token === "]") {
      if (!inline.pop()) newLine();
      pieces.push(["", token]);
    } else if (token === ",") {
      pieces.push(["", inline.at(-1) ? ", " : ","]);
      if (!inline.at(-1)) newLine();
    } else if (token === ":") pieces.push(["", ": "]);
    else pieces.push([kindOf(token, found[at + 1]), token]);
  });
  return { pieces, isWhole };
}

function fits(found, open, width) {
  let depth = 0;
  let left = width;
  for (let at = open; at < found.length && left > 0; at += 1) {
    const token = found[at];
    left -= token.length + (token === "," || token === ":" ? 1 : 0);
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return left > 0;
  }
  return false;
}

function kindOf(token, next) {
  if (token[0] === '"') return next === ":" ? "key" : "string";
  return /^[-\d]/.test(token) ? "number" : "word";
}
