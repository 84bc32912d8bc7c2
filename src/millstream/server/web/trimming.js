// The dialog that trims a stream: drops its beginning. It shows what would go before anything does: the server says
// where the stream would begin, because only whole appends go, and exactly that is then asked for.

import { kindOf } from "./contents.js";
import { WrongInput, onAnswer, openDialog, showError } from "./dialogs.js";
import { hexDigits } from "./hex.js";
import { elements } from "./json.js";
import { reloadListing } from "./listing.js";
import { parseOffset, position } from "./offsets.js";
import { Problem, ask, streamUrl } from "./server.js";
import { visible } from "./visible.js";
import { bytes, count, fieldTime, moment } from "./words.js";

const TYPING_MS = 250;
const SAMPLE_BYTES = 2048;
const SAMPLE_CHARACTERS = 160;
const MOST_LAST = 100_000;

const $ = (id) => document.getElementById(id);
const form = document.querySelector("#trim form");
const button = form.querySelector(".danger");
let planned = null; // the preview that is shown: {start}
let looking = new AbortController();

/** `current` returns the open stream, `changed(stream)` shows it again. */
export function startTrimming(current, changed) {
  let typing = 0;
  $("trim-open").addEventListener("click", () => {
    const { name, about } = current();
    const first = Date.parse(about.firstTime ?? "") || Date.now();
    openDialog("trim", { time: fieldTime(first) }, visible(name));
    preview(current());
  });
  form.addEventListener("input", () => {
    clearTimeout(typing);
    forget();
    typing = setTimeout(() => $("trim").open && preview(current()), TYPING_MS);
  });
  $("trim").addEventListener("close", () => looking.abort());
  onAnswer("trim", async () => {
    const mine = current();
    if (!planned) throw new Problem(400, "Say first what to drop.");
    await ask(streamUrl(mine.name, { trim: planned.start }), { method: "POST" });
    reloadListing();
    await changed(mine);
  });
}

function forget() {
  looking.abort();
  planned = null;
  button.disabled = true;
}

/** Show what would go and what would stay. */
async function preview(mine) {
  forget();
  const { signal } = (looking = new AbortController());
  for (const by of ["offset", "time", "last"]) $(`trim-by-${by}`).hidden = form.elements.by.value !== by;
  showError(form, null);
  $("trim-goes").replaceChildren();
  try {
    if (form.elements.by.value === "offset" && !form.elements.offset.value.trim()) return;
    const asked = wanted(mine);
    const resolved = asked.includes(":") ? await resolve(mine, asked, signal) : asked;
    const [{ start }, { start: from, tail }] = await Promise.all([
      plan(mine, resolved, signal),
      plan(mine, "-1", signal),
    ]);
    const lines = await tell(mine, { from, start, tail }, signal);
    if (signal.aborted) return;
    $("trim-goes").replaceChildren(...lines);
    planned = start > from ? { start } : null;
    button.disabled = planned === null;
  } catch (error) {
    if (signal.aborted) return;
    showError(form, ofField(error), { focuses: false }); // it was typed a moment ago
  }
}

/** Before which offset, time or number of messages to drop; raises what is wrong. */
function wanted({ about }) {
  const by = form.elements.by.value;
  if (by === "all") return "now";
  const field = form.elements[by];
  const text = field.value.trim();
  if (by === "offset") {
    return parseOffset(text.replaceAll(",", ""), about.tail);
  }
  if (by === "time") {
    const ms = Date.parse(text);
    if (Number.isNaN(ms)) throw new WrongInput([[field, "This is not a complete date and time."]]);
    return `time:${new Date(ms).toISOString()}`;
  }
  if (!/^\d+$/.test(text) || Number(text) > MOST_LAST) {
    throw new WrongInput([[field, `A whole number of at most ${count(MOST_LAST)}.`]]);
  }
  return `last:${Number(text)}`;
}

async function resolve({ name }, offset, signal) {
  const response = await ask(streamUrl(name, { offset, limit: 1 }), { method: "HEAD", signal });
  return response.headers.get("Stream-Start-Offset");
}

/** Ask where the stream would begin. */
async function plan({ name }, before, signal) {
  const { headers } = await ask(streamUrl(name, { "trim-preview": before }), { method: "POST", signal });
  return { start: headers.get("Stream-Earliest-Offset"), tail: headers.get("Stream-Next-Offset") };
}

/** The server's refusal of an offset belongs beside it. */
function ofField(error) {
  const isOfOffset = error instanceof Problem && error.status === 400 && !(error instanceof WrongInput);
  return isOfOffset && form.elements.by.value === "offset" ? new WrongInput([[form.elements.offset, error.message]]) : error;
}

// -- What is shown -------------------------------------------------------------------------------

async function tell(mine, { from, start, tail }, signal) {
  if (start <= from) return [line("Nothing goes", "The stream begins there already, or with an append that holds it.")];
  const goes = position(start) - position(from);
  const [first, kept] = await Promise.all([
    sample(mine, { offset: from, until: start }, signal),
    start === tail ? null : sample(mine, { offset: start }, signal),
  ]);
  const lines = [
    line("Goes", `${bytes(goes)}, the offsets ${count(position(from))} to ${count(position(start))}${spanned(first, kept)}`),
    ...quoted("Begins with", first),
  ];
  if (!kept) return [...lines, line("Stays", "nothing: the stream will be empty")];
  const stays = position(tail) - position(start);
  return [...lines, line("Stays", `${bytes(stays)}, from ${count(position(start))} on`), ...quoted("Begins with", kept)];
}

function spanned(first, kept) {
  const since = first.time ? `, arrived from ${moment(first.time)}` : "";
  return since && kept?.time ? `${since} to ${moment(kept.time)}` : since;
}

/** The first message of a range, as far as it is short, and when it arrived. */
async function sample({ name, about }, range, signal) {
  const response = await ask(streamUrl(name, { ...range, limit: SAMPLE_BYTES }), { signal });
  const reader = response.body.getReader();
  let read = new Uint8Array();
  while (read.length < SAMPLE_BYTES) {
    const { value, done } = await reader.read();
    if (done) break;
    const both = new Uint8Array(read.length + value.length);
    both.set(read);
    both.set(value, read.length);
    read = both;
  }
  reader.cancel().catch(() => {}); // the dialog was closed
  const time = Date.parse(response.headers.get("Stream-First-Time") ?? "") || null;
  return { time, text: shortened(kindOf(about.contentType), read.subarray(0, SAMPLE_BYTES)) };
}

function shortened(kind, read) {
  if (kind === "binary") return hexDigits(read.subarray(0, SAMPLE_CHARACTERS / 3));
  const text = new TextDecoder().decode(read);
  const message = kind === "json" ? (elements(text)[0] ?? text.slice(1)) : text.split("\n")[0];
  return message.length > SAMPLE_CHARACTERS ? `${message.slice(0, SAMPLE_CHARACTERS)}…` : message;
}

function quoted(term, { text }) {
  const made = line(term, text);
  made.classList.add("quoted");
  return text ? [made] : [];
}

function line(term, words) {
  const box = document.createElement("div");
  const name = document.createElement("dt");
  name.textContent = term;
  const what = document.createElement("dd");
  what.textContent = visible(words);
  box.append(name, what);
  return box;
}
