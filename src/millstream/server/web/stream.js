// One stream: follows its messages live, from the selected position.

import { offerActions, showWritable, startActions } from "./actions.js";
import { startChanging } from "./changing.js";
import { copyWith } from "./clipboard.js";
import { contentsOf, kindOf } from "./contents.js";
import { startCopying } from "./copying.js";
import { describe, showAbout, showFacts, showOffset } from "./facts.js";
import { Joined } from "./joined.js";
import { Log } from "./log.js";
import { moved, parseOffset, position } from "./offsets.js";
import { offerToken } from "./reasons.js";
import { Problem } from "./server.js";
import { STATES, Tail } from "./tail.js";
import { startTrimming } from "./trimming.js";
import { VIEWS, copyOf } from "./views.js";
import { visible } from "./visible.js";
import { bytes, count, fieldTime, many, moment } from "./words.js";

const GONE = "Deleted; waiting for a new stream of this name";
const ANOTHER_MS = 2000;
const MOST_LAST = 10_000;
const APPENDS_A_LINE = 4; // lines are also written in pieces
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

export async function openStream(name, { isAnew = false } = {}) {
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
  for (const action of $("stream").querySelectorAll(".actions button")) action.disabled = true;
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
  read(mine);
  if (isAnew) log.remark(`The stream was deleted, and created anew${created(mine)}. This is the new one.`);
}

function created({ about }) {
  return about.createdMs ? ` at ${moment(about.createdMs)}` : "";
}

/** Show the properties of the open stream again: they were changed. */
async function refreshAbout(mine) {
  const about = await describe(mine).catch((error) => {
    if (!mine.stop.signal.aborted) throw error;
  });
  if (open !== mine) return;
  if (about.incarnation !== mine.about.incarnation) return openStream(mine.name, { isAnew: true });
  mine.about = about;
  showFacts(mine);
}

/** Show the entries as selected: as rows of the log, or one field of them as running text. */
function showView() {
  const isJoined = $("as").value === "joined";
  for (const id of ["joined", "joined-note", "field-field"]) $(id).hidden = !isJoined;
  log.mirrorTo(isJoined ? joined : null);
  if (!isJoined) log.show($("as").value);
}

/** Start reading from the selected position. */
function read(mine) {
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
  if (wanted === "last") readLast(mine);
  else begin(mine, { start: "-1", now: "now", time: typedTime(), offset: parseOffset(typed || "-1", mine.about.tail) }[wanted]);
}

/** The selected time, as the server reads it; the start if none is complete. */
function typedTime() {
  const ms = Date.parse($("from-time").value);
  return Number.isNaN(ms) ? "-1" : `time:${new Date(ms).toISOString()}`;
}

/**
 * Read the last N entries. The server counts messages of JSON. Of other content it counts appends: then nothing is
 * shown until the tail is reached, because only then is known which lines are the last.
 */
function readLast(mine) {
  const number = Math.max(1, Math.min(MOST_LAST, Number($("from-count").value) || 200));
  const isJson = mine.kind === "json";
  if (!isJson) mine.held = { entries: [], number, until: position(mine.about.tail) };
  begin(mine, `last:${isJson ? number : APPENDS_A_LINE * (number + 4)}`);
}

function begin(mine, offset) {
  mine.tail = new Tail(mine.name, offset, {
    batch: (batch) => open === mine && take(mine, batch),
    state: (state, detail) => open === mine && changed(mine, state, detail),
    restarted: () => open === mine && openStream(mine.name, { isAnew: true }),
  }, { times: true, incarnation: mine.about.incarnation ?? null });
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
  }
}

function release(mine) {
  const last = mine.held.entries.slice(-mine.held.number);
  mine.held = null;
  mine.received += mine.kind === "binary" ? last.reduce((sum, entry) => sum + entry.size, 0) : last.length;
  log.add(last);
}

// -- Status --------------------------------------------------------------------------------------

function changed(mine, state, detail) {
  if (state === "failed") return refused(mine, detail);
  mine.isLive = state === "live";
  say(state, state === "gone" ? GONE : STATES[state]);
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
    if (open.held) release(open);
    say("paused", STATES.paused);
  } else begin(open, open.tail.offset);
}

function showTimes(shown) {
  $("times").ariaPressed = shown;
  log.showTimes(shown);
}

/** An ended stream has no live read that would say so: look whether it was deleted, and created anew. */
async function lookForAnother() {
  const mine = open;
  if (!mine?.isEnded || document.visibilityState !== "visible") return;
  try {
    const { incarnation } = await describe(mine);
    if (open === mine && incarnation !== mine.about.incarnation) openStream(mine.name, { isAnew: true });
  } catch (error) {
    if (mine.stop.signal.aborted) return; // another view was opened meanwhile
    if (!(error instanceof Problem)) throw error;
    if (open === mine && error.isMissing) say("gone", GONE);
  }
}

/** An hour ago, or the first message if that is later. */
function anHourAgo() {
  return Math.max(Date.now() - 3_600_000, Date.parse(open?.about?.firstTime ?? 0));
}

export function startStream() {
  startCounting();
  setInterval(lookForAnother, ANOTHER_MS);
  startActions(() => open);
  startChanging(() => open, refreshAbout);
  startTrimming(() => open, refreshAbout);
  startCopying(() => open, () => ($("as").value === "joined" ? joined.text : ""));
  $("follow").addEventListener("click", () => log.follow(!log.following));
  $("pause").addEventListener("click", pause);
  $("times").addEventListener("click", () => showTimes($("times").ariaPressed !== "true"));
  showTimes(true);
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
    $("from-time").hidden = $("from").value !== "time";
    if ($("from").value === "time" && !$("from-time").value) $("from-time").value = fieldTime(anHourAgo());
    if ($("from").value === "offset") $("from-offset").focus();
    else if (open?.kind) read(open);
  });
  for (const field of ["from-count", "from-offset", "from-time"]) {
    $(field).addEventListener("change", () => open?.kind && read(open));
  }
  window.addEventListener("token", () => open && openStream(open.name));
}
