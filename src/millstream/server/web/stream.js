// One stream: its facts, its messages as they come, and what can be done with it.

import { addressOf, typedName } from "./address.js";
import { before } from "./backwards.js";
import { contentsOf, kindOf, utf8 } from "./contents.js";
import { onAnswer, openDialog, tell } from "./dialogs.js";
import { parseHex } from "./hex.js";
import { reloadListing } from "./listing.js";
import { Log } from "./log.js";
import { parseOffset, position } from "./offsets.js";
import { Problem, ask, controlUrl, streamPath, streamUrl } from "./server.js";
import { Tail } from "./tail.js";
import { VIEWS } from "./views.js";
import { visible } from "./visible.js";
import { bytes, count, many, moment } from "./words.js";

const BYTES_PER_MESSAGE = { json: 256, text: 128, binary: 16 }; // a first guess at how far back "last" is
const UNITS = { json: ["message"], text: ["line"], binary: ["block"] };

const $ = (id) => document.getElementById(id);
const log = new Log($("log"), $("newer"), (following) => ($("follow").ariaPressed = following));

/** What is open: {name, about, kind, contents, tail, received, isEnded, stop}; null when nothing is. */
let open = null;

export function closeStream() {
  open?.tail?.stop();
  open?.stop.abort();
  open = null;
}

export async function openStream(name) {
  closeStream();
  const mine = (open = { name, about: null, tail: null, received: 0, isEnded: false, stop: new AbortController() });
  log.clear();
  log.follow(true);
  $("name").textContent = visible(name);
  $("facts").replaceChildren();
  $("closed").hidden = true;
  $("at").textContent = $("counts").textContent = "";
  $("pause").ariaPressed = false;
  $("composer").hidden = true;
  say("connecting", "Connecting…");
  try {
    mine.about = await describe(mine);
  } catch (error) {
    return refused(mine, error);
  }
  if (open !== mine) return;
  mine.kind = kindOf(mine.about.contentType);
  showAbout(mine);
  await read(mine);
}

/** Begin to read from where the person wants. */
async function read(mine) {
  const wanted = $("from").value;
  mine.tail?.stop();
  mine.received = 0;
  mine.isEnded = false;
  mine.contents = contentsOf(mine.kind);
  mine.held = null;
  log.clear();
  $("pause").ariaPressed = false;
  const typed = $("from-offset").value;
  if (wanted === "last") await readLast(mine, 1);
  else begin(mine, { start: "-1", now: "now", offset: parseOffset(typed || "-1", mine.about.tail) }[wanted]);
}

/** Read the last N: from a place that is far enough back, showing nothing until the tail is reached. */
async function readLast(mine, factor) {
  const number = Math.max(1, Math.min(10_000, Number($("from-count").value) || 200));
  const back = Math.max(16 * 1024, number * BYTES_PER_MESSAGE[mine.kind]) * factor;
  let offset;
  try {
    offset = await before(mine.name, mine.about, mine.kind, back, mine.stop.signal);
  } catch (error) {
    return refused(mine, error);
  }
  if (open !== mine) return;
  if (offset === null) say("waiting", "Too large to find the last messages; reading from now.");
  else mine.held = { entries: [], number, factor, isWhole: offset === "-1", until: position(mine.about.tail) };
  mine.contents = contentsOf(mine.kind);
  begin(mine, offset ?? "now");
}

function begin(mine, offset) {
  mine.tail = new Tail(mine.name, offset, {
    batch: (batch) => open === mine && take(mine, batch),
    state: (state, detail) => open === mine && changed(mine, state, detail),
    restarted: () => {
      if (open !== mine) return;
      mine.contents = contentsOf(mine.kind);
      mine.held = null;
      mine.received = 0;
      log.clear();
    },
  });
}

function take(mine, batch) {
  showOffset(mine, batch.end);
  if (batch.data) {
    const { added, grown } = mine.contents.take(batch);
    if (mine.held) hold(mine.held, added);
    else {
      mine.received += added.length;
      log.add(added, grown);
    }
  }
  if (mine.held && (batch.upToDate || position(batch.end) >= mine.held.until)) release(mine);
}

function hold(held, added) {
  held.entries.push(...added);
  if (held.entries.length > 2 * held.number) {
    held.entries.splice(0, held.entries.length - held.number);
    held.isWhole = true; // there is more than enough
  }
}

function release(mine, { isEnough = false } = {}) {
  const held = mine.held;
  mine.held = null;
  // Where text was cut into, its first line is only the end of one.
  const entries = held.isWhole || mine.kind !== "text" ? held.entries : held.entries.slice(1);
  if (entries.length < held.number && !held.isWhole && !isEnough) {
    mine.tail.stop();
    readLast(mine, held.factor * 8);
    return;
  }
  const last = entries.slice(-held.number);
  mine.received += last.length;
  log.add(last);
}

// -- What is said about it -----------------------------------------------------------------------

async function describe({ name, stop }) {
  const url = controlUrl("streams", { prefix: name, limit: 1 });
  const [found] = (await (await ask(url, { signal: stop.signal })).json()).streams;
  if (found?.path === name) return found;
  const head = await ask(streamUrl(name), { method: "HEAD", signal: stop.signal }).catch((error) => {
    // An answer to HEAD has no words of its own.
    const words = { 404: "There is no such stream.", 410: "The stream was deleted." }[error.status];
    throw words ? new Problem(error.status, words) : error;
  });
  const tail = head.headers.get("Stream-Next-Offset");
  const contentType = head.headers.get("Content-Type");
  return { path: name, contentType, tail, bytes: position(tail), closed: head.headers.has("Stream-Closed") };
}

function showAbout({ about, kind }) {
  const facts = [["Type", about.contentType], ["Size", bytes(about.bytes)], ["Tail", about.tail]];
  if (about.createdMs) facts.push(["Created", moment(about.createdMs)]);
  if (about.ttlSeconds !== null && about.ttlSeconds !== undefined) facts.push(["TTL", `${count(about.ttlSeconds)} s`]);
  if (about.expiresMs) facts.push(["Expires", moment(about.expiresMs)]);
  if (about.forkedFrom) facts.push(["Fork of", about.forkedFrom]);
  $("facts").replaceChildren(...facts.map(([name, value]) => fact(name, value)));
  $("closed").hidden = !about.closed;
  $("as").replaceChildren(...Object.entries(VIEWS[kind]).map(([value, words]) => new Option(words, value)));
  log.show($("as").value);
  $("composer").hidden = about.closed;
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

function showOffset(mine, offset) {
  const grown = position(offset) - position(mine.about.tail);
  if (grown > 0) {
    mine.about.tail = offset;
    mine.about.bytes += grown;
    $("facts").querySelector('[data-fact="Tail"]').textContent = offset;
    $("facts").querySelector('[data-fact="Size"]').textContent = bytes(mine.about.bytes);
  }
  $("at").textContent = `next offset ${count(position(offset))}`;
}

const STATES = {
  connecting: "Connecting…",
  "catching-up": "Catching up",
  live: "Live",
  waiting: "Connection lost; trying again",
  paused: "Paused",
  ended: "Ended",
};

function changed(mine, state, detail) {
  if (state === "failed") return refused(mine, detail);
  say(state, STATES[state]);
  if (state !== "ended") return;
  mine.isEnded = true;
  mine.about.closed = true;
  $("closed").hidden = false;
  $("composer").hidden = true;
  $("close-open").disabled = true;
  log.finish(`End of stream: closed at offset ${count(position(mine.about.tail))}, after ${bytes(mine.about.bytes)}.`);
}

function refused(mine, error) {
  if (open !== mine || mine.stop.signal.aborted) return;
  if (!(error instanceof Problem)) throw error;
  if (error.passes) {
    say("waiting", error.message);
    setTimeout(() => open === mine && openStream(mine.name), 1500);
  } else say("failed", error.message);
}

function say(state, words) {
  $("state").dataset.state = state;
  if ($("state").textContent !== words) $("state").textContent = words;
}

function startCounting() {
  let before = { mine: null, received: 0, atMs: 0 };
  setInterval(() => {
    const atMs = performance.now();
    if (open?.kind) {
      const perSecond = before.mine === open ? ((open.received - before.received) * 1000) / (atMs - before.atMs) : 0;
      const [one] = UNITS[open.kind];
      const rate = perSecond >= 1 ? ` · ${count(Math.round(perSecond))}/s` : "";
      $("counts").textContent = `${many(open.received, one)}${rate}`;
      $("counts").dataset.received = open.received;
    }
    before = { mine: open, received: open?.received ?? 0, atMs };
  }, 500);
}

// -- What can be done ------------------------------------------------------------------------------

function pause() {
  if (!open?.tail || open.isEnded) return;
  const pausing = $("pause").ariaPressed !== "true";
  $("pause").ariaPressed = pausing;
  if (pausing) {
    open.tail.stop();
    if (open.held) release(open, { isEnough: true });
    say("paused", STATES.paused);
  } else begin(open, open.tail.offset);
}

function body(kind, text, { hex = false, newline = false } = {}) {
  if (kind === "binary" && hex) {
    const parsed = parseHex(text);
    if (parsed === null) throw new Problem(400, "This is not hex: pairs of 0-9 and a-f.");
    return parsed;
  }
  return utf8(kind === "text" && newline ? `${text}\n` : text);
}

async function append(event) {
  event.preventDefault();
  const { name, kind, about } = open;
  const message = $("message");
  const button = $("composer").querySelector("button");
  if (button.disabled || !message.value) return;
  button.disabled = true;
  tell($("composer"), null);
  try {
    const options = { hex: $("hex").checked, newline: $("newline").checked };
    const headers = { "Content-Type": about.contentType };
    await ask(streamUrl(name), { method: "POST", headers, body: body(kind, message.value, options) });
    message.value = "";
    fitComposer();
  } catch (error) {
    const isUnknown = error instanceof Problem && error.status === 0;
    tell($("composer"), isUnknown ? new Problem(0, "The server went away; look whether the message arrived.") : error);
  } finally {
    button.disabled = false;
    message.focus();
  }
}

function fitComposer() {
  const message = $("message");
  message.rows = Math.min(8, message.value.split("\n").length);
}

export function startStream() {
  startCounting();
  $("follow").addEventListener("click", () => log.follow(!log.following));
  $("pause").addEventListener("click", pause);
  $("as").addEventListener("change", () => log.show($("as").value));
  let typing = 0;
  $("filter").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => log.filter($("filter").value), 100);
  });
  $("from").addEventListener("change", () => {
    $("from-count").hidden = $("from").value !== "last";
    $("from-offset").hidden = $("from").value !== "offset";
    if ($("from").value === "offset") $("from-offset").focus();
    else if (open?.kind) read(open);
  });
  for (const field of ["from-count", "from-offset"]) {
    $(field).addEventListener("change", () => open?.kind && read(open));
  }
  $("composer").addEventListener("submit", append);
  $("message").addEventListener("input", fitComposer);
  $("message").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) append(event);
  });
  window.addEventListener("token", () => open && openStream(open.name));

  $("fork-open").addEventListener("click", () => {
    openDialog("fork", { path: `${open.name}-fork` }, visible(open.name));
  });
  $("close-open").addEventListener("click", () => openDialog("close", {}, visible(open.name)));
  $("delete-open").addEventListener("click", () => openDialog("delete", {}, visible(open.name)));
  onAnswer("fork", fork);
  onAnswer("close", close);
  onAnswer("delete", remove);
}

async function fork({ path, offset }) {
  const name = typedName(path);
  const headers = { "Stream-Forked-From": streamPath(open.name) };
  if (offset.trim()) headers["Stream-Fork-Offset"] = parseOffset(offset.replaceAll(",", ""), open.about?.tail);
  await ask(streamUrl(name), { method: "PUT", headers });
  reloadListing();
  location.hash = addressOf(name);
}

async function close({ last }) {
  const headers = { "Stream-Closed": "true" };
  if (last) headers["Content-Type"] = open.about.contentType;
  await ask(streamUrl(open.name), { method: "POST", headers, body: last ? body(open.kind, last, { newline: true }) : undefined });
  reloadListing();
}

async function remove() {
  await ask(streamUrl(open.name), { method: "DELETE" });
  location.hash = "#/";
  reloadListing();
}
