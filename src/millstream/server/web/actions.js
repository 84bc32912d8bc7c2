// Actions on the open stream: append, fork, close, delete.

import { accessAnywhere, accessTo, allow } from "./access.js";
import { addressOf, typedName } from "./address.js";
import { utf8 } from "./contents.js";
import { onAnswer, openDialog, showError } from "./dialogs.js";
import { parseHex } from "./hex.js";
import { reloadListing } from "./listing.js";
import { parseOffset } from "./offsets.js";
import { Problem, ask, streamPath, streamUrl } from "./server.js";
import { plain, visible } from "./visible.js";

const $ = (id) => document.getElementById(id);
let current; // returns the open stream: {name, kind, about}

export function startActions(whatIsOpen) {
  current = whatIsOpen;
  $("composer").addEventListener("submit", append);
  $("message").addEventListener("input", fitComposer);
  $("message").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) append(event);
  });
  $("fork-open").addEventListener("click", () => {
    openDialog("fork", { path: `${plain(current().name)}-fork` }, visible(current().name));
  });
  $("close-open").addEventListener("click", () => openDialog("close", {}, visible(current().name)));
  $("delete-open").addEventListener("click", () => openDialog("delete", {}, visible(current().name)));
  onAnswer("fork", fork);
  onAnswer("close", close);
  onAnswer("delete", remove);
}

/** Offer what can be done with a stream: what the token allows, and nothing that changes a closed one. */
export async function offerActions(mine) {
  const [here, anywhere] = await Promise.all([accessTo(mine.name, mine.stop.signal), accessAnywhere()]);
  if (current() !== mine) return;
  mine.access = here;
  allow($("fork-open"), anywhere.write, "The token does not allow to write any stream.");
  for (const id of ["change-open", "trim-open", "delete-open"]) allow($(id), here.write, here.reason);
  showWritable(mine);
}

/** Show the form to append, or why there is none. */
export function showWritable({ about, access }) {
  const reason = about.closed ? "The stream is closed." : access.reason;
  allow($("close-open"), !reason, reason);
  $("composer").hidden = Boolean(reason);
  $("read-only").hidden = about.closed || !reason;
  $("read-only").textContent = reason;
}

function body(kind, text, { hex = false, newline = false } = {}) {
  if (kind === "binary" && hex) {
    const parsed = parseHex(text);
    if (parsed === null) throw new Problem(400, "Not valid hex. Use pairs of 0-9 and a-f.");
    return parsed;
  }
  return utf8(kind === "text" && newline ? `${text}\n` : text);
}

async function append(event) {
  event.preventDefault();
  const { name, kind, about } = current();
  const message = $("message");
  const button = $("composer").querySelector("button");
  if (button.disabled || !message.value) return;
  button.disabled = true;
  showError($("composer"), null);
  try {
    const options = { hex: $("hex").checked, newline: $("newline").checked };
    const headers = { "Content-Type": about.contentType };
    await ask(streamUrl(name), { method: "POST", headers, body: body(kind, message.value, options) });
    message.value = "";
    fitComposer();
  } catch (error) {
    const isUnknown = error instanceof Problem && error.status === 0;
    showError($("composer"), isUnknown ? new Problem(0, "The connection was lost. Check whether the message was stored.") : error);
  } finally {
    button.disabled = false;
    message.focus();
  }
}

function fitComposer() {
  const message = $("message");
  message.rows = Math.min(8, message.value.split("\n").length);
}

async function fork({ path, offset }) {
  const name = typedName(path);
  const headers = { "Stream-Forked-From": streamPath(current().name) };
  if (offset.trim()) headers["Stream-Fork-Offset"] = parseOffset(offset.replaceAll(",", ""), current().about?.tail);
  await ask(streamUrl(name), { method: "PUT", headers });
  reloadListing();
  location.hash = addressOf(name);
}

async function close({ last }) {
  const { name, kind, about } = current();
  const headers = { "Stream-Closed": "true" };
  if (last) headers["Content-Type"] = about.contentType;
  await ask(streamUrl(name), { method: "POST", headers, body: last ? body(kind, last, { newline: true }) : undefined });
  reloadListing();
}

async function remove() {
  await ask(streamUrl(current().name), { method: "DELETE" });
  location.hash = "#/";
  reloadListing();
}
