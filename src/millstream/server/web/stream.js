// One stream: follows its messages live, from the selected position.

import { offerActions, showWritable, startActions } from "./actions.js";
import { before } from "./backwards.js";
import { copyWith } from "./clipboard.js";
import { contentsOf, kindOf } from "./contents.js";
import { startCopying } from "./copying.js";
import { describe, showAbout, showOffset } from "./facts.js";
import { Joined } from "./joined.js";
import { Log } from "./log.js";
import { moved, parseOffset, position } from "./offsets.js";
import { offerToken } from "./reasons.js";
import { Problem } from "./server.js";
import { STATES, Tail } from "./tail.js";
import { VIEWS, copyOf } from "./views.js";
import { visible } from "./visible.js";
import { bytes, count, many } from "./words.js";

const BYTES_PER_ENTRY = { json: 256, text: 128, binary: 256 }; // first estimate of how far back "last" is
const AMOUNTS = { json: (number) => many(number, "message"), text: (number) => many(number, "line"), binary: bytes };

const JOINED_AT_LEAST = 2000; // of the last messages; tokens are short

const $ = (id) => document.getElementById(id);
const joined = new Joined(
  { box: $("joined"), field: $("field"), note: $("joined-note"), choices: $("fields") },
  (following) => log.follow(following),
);
const log = new Log($("log"), $("newer"), {
  onFollow: (following) => {
    $("follow").ariaPressed = following;
    joined.follow(following);
  },
  onCopy: (button, entry) => {
    const isOffset = button.matches(".place");
    copyWith(button, isOffset ? moved(open.about.tail, entry.at) : copyOf(entry));
  },
});

const views = {}; // the view that was last selected for each kind of content
/** The open stream: {name, about, kind, contents, tail, held, received, turn, isEnded, stop}, or null. */
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
  $("composer").hidden = $("read-only").hidden = $("stream-problem").hidden = true;
  for (const action of ["copy-open", "fork-open", "close-open", "delete-open"]) $(action).disabled = true;
  say("connecting", "Connecting…");
  try {
    mine.about = await describe(mine);
  } catch (error) {
    return refused(mine, error);
  }
  if (open !== mine) return;
  mine.kind = kindOf(mine.about.contentType);
  showAbout(mine);
  $("copy-open").disabled = false;
  offerActions(mine);
  if (views[mine.kind] in VIEWS[mine.kind]) $("as").value = views[mine.kind];
  showView();
  await read(mine);
}

/** Show the entries as selected: as rows of the log, or one field of them as running text. */
function showView() {
  const isJoined = $("as").value === "joined";
  for (const id of ["joined", "joined-note", "field-field"]) $(id).hidden = !isJoined;
  log.mirrorTo(isJoined ? joined : null);
  if (!isJoined) log.show($("as").value);
}

/** Start reading from the selected position. */
async function read(mine) {
  const wanted = $("from").value;
  mine.tail?.stop();
  mine.tail = null;
  mine.turn = {}; // identifies this read: an older one that is still waiting stops
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

/** Read the last N entries: start far enough back, and show nothing until the tail is reached. */
async function readLast(mine, factor) {
  const number = Math.max(1, Math.min(10_000, Number($("from-count").value) || 200));
  const back = Math.max(16 * 1024, number * BYTES_PER_ENTRY[mine.kind]) * factor;
  const { turn } = mine;
  let offset;
  try {
    offset = await before(mine.name, mine.about, mine.kind, back, mine.stop.signal);
  } catch (error) {
    return refused(mine, error);
  }
  if (open !== mine || mine.turn !== turn) return;
  if (offset === null) log.remark("This stream is too large to find its last messages. Read from the start or from now.");
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
      log.remark("The stream was deleted and recreated. This is the new stream.");
    },
  });
}

function take(mine, batch) {
  showOffset(mine, batch.end);
  if (batch.data) {
    const { added, grown, amount } = mine.contents.take(batch);
    if (mine.held) hold(mine.held, added);
    else {
      mine.received += amount;
      log.add(added, grown);
    }
  }
  if (mine.held && (batch.upToDate || position(batch.end) >= mine.held.until)) release(mine);
}

function hold(held, added) {
  held.entries.push(...added);
  if (held.entries.length > 2 * held.number) {
    held.entries.splice(0, held.entries.length - held.number);
    held.isWhole = true; // there are more than enough
  }
}

function release(mine, { isEnough = false } = {}) {
  const held = mine.held;
  mine.held = null;
  // If reading started inside a line of text, the first entry is only the end of that line.
  const entries = held.isWhole || mine.kind !== "text" ? held.entries : held.entries.slice(1);
  if (entries.length < held.number && !held.isWhole && !isEnough) {
    mine.tail.stop();
    mine.tail = null;
    readLast(mine, held.factor * 8);
    return;
  }
  const last = entries.slice(-held.number);
  mine.received += mine.kind === "binary" ? last.reduce((sum, entry) => sum + entry.size, 0) : last.length;
  log.add(last);
}

// -- Status --------------------------------------------------------------------------------------

function changed(mine, state, detail) {
  if (state === "failed") return refused(mine, detail);
  mine.isLive = state === "live";
  say(state, STATES[state]);
  if (state !== "ended") return;
  mine.isEnded = true;
  mine.about.closed = true;
  $("closed").hidden = false;
  if (mine.access) showWritable(mine);
  log.finish(`End of stream: closed at offset ${count(position(mine.about.tail))}, after ${bytes(mine.about.bytes)}.`);
}

function refused(mine, error) {
  if (open !== mine || mine.stop.signal.aborted) return;
  if (!(error instanceof Problem)) throw error;
  if (error.passes) {
    say("waiting", error.message);
    setTimeout(() => open === mine && openStream(mine.name), 1500);
  } else {
    say("failed", error.message);
    if (!mine.received) $("joined-note").hidden = true; // it would say that there are no messages yet
    $("stream-problem").textContent = error.message;
    $("stream-problem").hidden = false;
    offerToken($("stream-problem"), error);
  }
}

function say(state, words) {
  $("state").dataset.state = state;
  if ($("state").textContent !== words) $("state").textContent = words;
}

function startCounting() {
  let before = { mine: null, received: 0, atMs: 0 };
  setInterval(() => {
    const atMs = performance.now();
    const mine = open?.tail && !open.held ? open : null; // what is held back is not shown yet
    if (mine) {
      const perSecond = before.mine === mine ? ((mine.received - before.received) * 1000) / (atMs - before.atMs) : 0;
      const rate = perSecond >= 1 ? ` · ${mine.kind === "binary" ? bytes(perSecond) : count(Math.round(perSecond))}/s` : "";
      $("counts").textContent = `${AMOUNTS[mine.kind](mine.received)}${rate}`;
      $("counts").dataset.received = mine.received;
    }
    before = { mine, received: mine?.received ?? 0, atMs };
  }, 500);
}

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

export function startStream() {
  startCounting();
  startActions(() => open);
  startCopying(() => open, () => ($("as").value === "joined" ? joined.text : ""));
  $("follow").addEventListener("click", () => log.follow(!log.following));
  $("pause").addEventListener("click", pause);
  $("as").addEventListener("change", () => {
    if (!open?.kind) return;
    views[open.kind] = $("as").value;
    showView();
    const isShort = $("from").value === "last" && Number($("from-count").value) < JOINED_AT_LEAST;
    if ($("as").value !== "joined" || !isShort) return;
    $("from-count").value = JOINED_AT_LEAST;
    read(open);
  });
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
  window.addEventListener("token", () => open && openStream(open.name));
}
