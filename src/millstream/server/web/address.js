// Where in the page we are: `#/s/chat/1` is the stream /chat/1, anything else the overview.

const STREAM = "#/s";

export function addressOf(name) {
  return STREAM + name.split("/").map(encodeURIComponent).join("/");
}

export function nameAt(hash) {
  if (!hash.startsWith(`${STREAM}/`)) return null;
  try {
    return decodeURIComponent(hash.slice(STREAM.length));
  } catch {
    return null;
  }
}

/** A path as somebody typed it. */
export function typedName(text) {
  const path = text.trim();
  return path.startsWith("/") ? path : `/${path}`;
}
