// Where in the page we are: `#/s/chat/1` is the stream /chat/1, `#/lag` the lag of pipelines as the usual stream
// has it, `#/lag/other` as /other has it, anything else the overview.

const STREAM = "#/s";
const LAG = "#/lag";
export const USUAL_REPORTS = "/_profile";

export function addressOf(name) {
  return STREAM + escaped(name);
}

export function nameAt(hash) {
  return below(STREAM, hash);
}

export function lagAddressOf(name) {
  return name === USUAL_REPORTS ? LAG : LAG + escaped(name);
}

/** The stream of which reports are to be shown. */
export function reportsAt(hash) {
  return hash === LAG ? USUAL_REPORTS : below(LAG, hash);
}

function escaped(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}

function below(place, hash) {
  if (!hash.startsWith(`${place}/`)) return null;
  try {
    return decodeURIComponent(hash.slice(place.length));
  } catch {
    return null;
  }
}

/** A path as somebody typed it. */
export function typedName(text) {
  const path = text.trim();
  return path.startsWith("/") ? path : `/${path}`;
}
