// The properties of a stream, as the server reports them, updated while the stream is read.

import { addressOf } from "./address.js";
import { VIEWS } from "./views.js";
import { ask, controlUrl, streamUrl } from "./server.js";
import { position } from "./offsets.js";
import { visible } from "./visible.js";
import { bytes, count, moment } from "./words.js";

const $ = (id) => document.getElementById(id);

/** Look up a stream in the listing, which has most properties, or else by a read of nothing. */
export async function describe({ name, stop }) {
  const url = controlUrl("streams", { prefix: name, limit: 1 });
  const [found] = (await (await ask(url, { signal: stop.signal })).json()).streams;
  if (found?.path === name) return found;
  // Not HEAD: a response to HEAD has no body, and so no reason for a refusal.
  const read = await ask(streamUrl(name, { offset: "now" }), { signal: stop.signal });
  const tail = read.headers.get("Stream-Next-Offset");
  const contentType = read.headers.get("Content-Type");
  const size = { bytes: position(tail), inheritedBytes: 0 };
  const incarnation = read.headers.get("Stream-Incarnation");
  return { path: name, contentType, tail, ...size, closed: read.headers.has("Stream-Closed"), incarnation };
}

/** Show a stream that was opened: its properties, and how its messages can be shown and written. */
export function showAbout(mine) {
  showFacts(mine);
  $("as").replaceChildren(...Object.entries(VIEWS[mine.kind]).map(([value, words]) => new Option(words, value)));
  $("newline-field").hidden = mine.kind !== "text";
  $("hex-field").hidden = mine.kind !== "binary";
}

export function showFacts({ about }) {
  const facts = [["Type", about.contentType], ["Size", bytes(about.bytes)]];
  if (about.inheritedBytes) facts.push(["Inherited", bytes(about.inheritedBytes)]);
  if (about.forkedFrom) facts.push(["Fork of", linkTo(about.forkedFrom)]);
  facts.push(["Tail", about.tail]);
  if (about.createdMs) facts.push(["Created", moment(about.createdMs)]);
  if (about.firstTime) facts.push(["First message", moment(Date.parse(about.firstTime))]);
  if (about.lastWriteMs) facts.push(["Last write", moment(about.lastWriteMs)]);
  if (about.ttlSeconds !== null && about.ttlSeconds !== undefined) facts.push(["TTL", `${count(about.ttlSeconds)} s`]);
  if (about.expiresMs) facts.push(["Expires", moment(about.expiresMs)]);
  if (about.retainBytes) facts.push(["Retain bytes", bytes(about.retainBytes)]);
  if (about.retainSeconds) facts.push(["Retain seconds", `${count(about.retainSeconds)} s`]);
  for (const [name, value] of Object.entries(about.attributes ?? {})) facts.push([`@${name}`, String(value)]);
  if (about.incarnation) facts.push(["Incarnation", about.incarnation]);
  $("facts").replaceChildren(...facts.map(([name, value]) => fact(name, value)));
  $("closed").hidden = !about.closed;
}

function fact(name, value) {
  const box = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = visible(name);
  const description = document.createElement("dd");
  if (value instanceof Node) description.append(value);
  else description.textContent = visible(value);
  description.dataset.fact = name;
  box.append(term, description);
  return box;
}

function linkTo(name) {
  const link = document.createElement("a");
  link.href = addressOf(name);
  link.textContent = visible(name);
  return link;
}

export function showOffset(mine, offset) {
  const grown = position(offset) - position(mine.about.tail);
  if (grown > 0) {
    mine.about.tail = offset;
    mine.about.bytes += grown;
    $("facts").querySelector('[data-fact="Tail"]').textContent = offset;
    $("facts").querySelector('[data-fact="Size"]').textContent = bytes(mine.about.bytes);
    const written = $("facts").querySelector('[data-fact="Last write"]');
    if (written && mine.isLive) written.textContent = moment(Date.now());
  }
  $("at").textContent = `next offset ${count(position(offset))}`;
}
