// The properties of a stream, as the server reports them, updated while the stream is read.

import { VIEWS } from "./views.js";
import { Problem, ask, controlUrl, streamUrl } from "./server.js";
import { position } from "./offsets.js";
import { visible } from "./visible.js";
import { bytes, count, moment } from "./words.js";

const $ = (id) => document.getElementById(id);

/** Look up a stream in the listing, which has most properties, or else with HEAD. */
export async function describe({ name, stop }) {
  const url = controlUrl("streams", { prefix: name, limit: 1 });
  const [found] = (await (await ask(url, { signal: stop.signal })).json()).streams;
  if (found?.path === name) return found;
  const head = await ask(streamUrl(name), { method: "HEAD", signal: stop.signal }).catch((error) => {
    // A response to HEAD has no body and so no error message.
    const words = { 404: "There is no such stream.", 410: "The stream was deleted." }[error.status];
    throw words ? new Problem(error.status, words) : error;
  });
  const tail = head.headers.get("Stream-Next-Offset");
  const contentType = head.headers.get("Content-Type");
  return { path: name, contentType, tail, bytes: position(tail), closed: head.headers.has("Stream-Closed") };
}

export function showAbout({ about, kind }) {
  const facts = [["Type", about.contentType], ["Size", bytes(about.bytes)], ["Tail", about.tail]];
  if (about.createdMs) facts.push(["Created", moment(about.createdMs)]);
  if (about.ttlSeconds !== null && about.ttlSeconds !== undefined) facts.push(["TTL", `${count(about.ttlSeconds)} s`]);
  if (about.expiresMs) facts.push(["Expires", moment(about.expiresMs)]);
  if (about.retainBytes) facts.push(["Retain bytes", bytes(about.retainBytes)]);
  if (about.retainSeconds) facts.push(["Retain seconds", `${count(about.retainSeconds)} s`]);
  if (about.forkedFrom) facts.push(["Fork of", about.forkedFrom]);
  $("facts").replaceChildren(...facts.map(([name, value]) => fact(name, value)));
  $("closed").hidden = !about.closed;
  $("as").replaceChildren(...Object.entries(VIEWS[kind]).map(([value, words]) => new Option(words, value)));
  $("composer").hidden = about.closed;
  $("fork-open").disabled = $("delete-open").disabled = false;
  $("close-open").disabled = about.closed;
  $("newline-field").hidden = kind !== "text";
  $("hex-field").hidden = kind !== "binary";
}

function fact(name, value) {
  const box = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = name;
  const description = document.createElement("dd");
  description.textContent = visible(value);
  description.dataset.fact = name;
  box.append(term, description);
  return box;
}

export function showOffset(mine, offset) {
  const grown = position(offset) - position(mine.about.tail);
  if (grown > 0) {
    mine.about.tail = offset;
    mine.about.bytes += grown;
    $("facts").querySelector('[data-fact="Tail"]').textContent = offset;
    $("facts").querySelector('[data-fact="Size"]').textContent = bytes(mine.about.bytes);
  }
  $("at").textContent = `next offset ${count(position(offset))}`;
}
