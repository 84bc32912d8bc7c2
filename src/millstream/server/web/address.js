// Routes: `#/s/chat/1` is the stream /chat/1, `#/lag` the pipeline lag from the default report stream, `#/lag/other`
// from /other, and anything else the overview.

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

/** The report stream to show. */
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

/** A path as typed by the user, with a leading slash. */
export function typedName(text) {
  const path = text.trim();
  return path.startsWith("/") ? path : `/${path}`;
}
