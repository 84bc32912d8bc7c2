// Routes: `#/s/chat/1` is the stream /chat/1, `#/pipelines` the pipelines that report to the usual stream,
// `#/pipelines/other` to /other, `#/lag` and `#/lag/other` likewise the lag of streams, `#/board/QUERY` the board of what
// a search finds, `#/subscriptions` the subscriptions, and anything else the overview.

const STREAM = "#/s";
const PIPELINES = "#/pipelines";
const LAG = "#/lag";
const BOARD = "#/board";
const SUBSCRIPTIONS = "#/subscriptions";
const USUAL_RUNS = "/_pipelines";
export const USUAL_REPORTS = "/_profile";

export function addressOf(name) {
  return STREAM + escaped(name);
}

export function nameAt(hash) {
  return below(STREAM, hash);
}

export function pipelinesAddressOf(name) {
  return name === USUAL_RUNS ? PIPELINES : PIPELINES + escaped(name);
}

/** The stream to which the pipelines to be shown report. */
export function pipelinesAt(hash) {
  return hash === PIPELINES ? USUAL_RUNS : below(PIPELINES, hash);
}

export function lagAddressOf(name) {
  return name === USUAL_REPORTS ? LAG : LAG + escaped(name);
}

/** The report stream to show. */
export function reportsAt(hash) {
  return hash === LAG ? USUAL_REPORTS : below(LAG, hash);
}

export function boardAddressOf(query) {
  return query === "" ? BOARD : `${BOARD}/${encodeURIComponent(query)}`;
}

/** The search whose streams to show. */
export function boardAt(hash) {
  return hash === BOARD ? "" : (below(BOARD, hash)?.slice(1) ?? null);
}

/** Whether the subscriptions are to be shown. */
export function subscriptionsAt(hash) {
  return hash === SUBSCRIPTIONS ? "" : null;
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
