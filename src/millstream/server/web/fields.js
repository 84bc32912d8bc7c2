// A field of a JSON message by its path: `delta`, `choices[0].delta.content`, `["a.b"]`. The empty path is the message.

const STEP = /(?:^|\.)([^.[\]"]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]/y;
const PLAIN = /^[^.[\]"]+$/;
const USUAL = ["delta", "content", "text", "token", "output", "message"]; // names of text in messages of language models
const MOST_PATHS = 200;
const DEEPEST = 8;

/** Parse a path into its keys; null if it is not a path. */
export function parsePath(text) {
  const keys = [];
  let at = 0;
  while (at < text.length) {
    STEP.lastIndex = at;
    const step = STEP.exec(text);
    if (!step) return null;
    const [whole, name, index, quoted] = step;
    keys.push(name ?? (index === undefined ? JSON.parse(`"${quoted}"`) : Number(index)));
    at += whole.length;
  }
  return keys;
}

/** The text at a path; null if there is none. */
export function textAt(message, keys) {
  let value = message;
  for (const key of keys) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) return null;
    value = value[key];
  }
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : null;
}

/** The paths of all text in some messages, the one that is most likely running text first. */
export function textPaths(messages) {
  const found = new Map(); // path -> {name, times}
  for (const message of messages) collect(message, "", "", 0, found);
  const isUsual = ({ name }) => Number(USUAL.includes(name));
  const rank = ({ name }) => USUAL.indexOf(name);
  return [...found]
    .sort(([, one], [, other]) => isUsual(other) - isUsual(one) || other.times - one.times || rank(one) - rank(other))
    .map(([path]) => path);
}

function collect(value, path, name, depth, found) {
  if (typeof value === "string") {
    const known = found.get(path);
    if (known) known.times += 1;
    else if (found.size < MOST_PATHS) found.set(path, { name, times: 1 });
  } else if (Array.isArray(value) && depth < DEEPEST) {
    if (value.length) collect(value[0], `${path}[0]`, name, depth + 1, found);
  } else if (value !== null && typeof value === "object" && depth < DEEPEST) {
    for (const [key, inner] of Object.entries(value)) collect(inner, joined(path, key), key, depth + 1, found);
  }
}

function joined(path, key) {
  if (!PLAIN.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}
