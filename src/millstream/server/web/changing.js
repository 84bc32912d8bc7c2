// The dialog that changes a stream: how long it lives, what it keeps, and its attributes. One PATCH with what differs.

import { changedAttributes, showAttributes, startAttributes } from "./attributes.js";
import { WrongInput, onAnswer, openDialog } from "./dialogs.js";
import { reloadListing } from "./listing.js";
import { Problem, ask, streamUrl } from "./server.js";
import { visible } from "./visible.js";
import { fieldTime } from "./words.js";

const WHOLE = /^[1-9]\d{0,14}$/;
const HEADERS = {
  ttl: "Stream-TTL",
  expires: "Stream-Expires-At",
  bytes: "Stream-Retain-Bytes",
  seconds: "Stream-Retain-Seconds",
};

const form = document.querySelector("#change form");
let before = {}; // the fields as they were shown

/** `current` returns the open stream, `changed(stream)` shows it again. */
export function startChanging(current, changed) {
  startAttributes();
  document.getElementById("change-open").addEventListener("click", () => {
    const { name, about } = current();
    before = fieldsOf(about);
    openDialog("change", before, visible(name));
    showAttributes(about.attributes ?? {});
  });
  onAnswer("change", async (typed) => {
    const mine = current();
    const headers = changes(typed);
    if (Object.keys(headers).length === 0) return;
    try {
      await ask(streamUrl(mine.name), { method: "PATCH", headers });
    } catch (error) {
      throw ofField(error);
    }
    reloadListing();
    await changed(mine);
  });
}

/** The deadline of a stream with a TTL moves by itself: it is no expiry that somebody set. */
function fieldsOf({ ttlSeconds, expiresMs, retainBytes, retainSeconds }) {
  const hasTtl = ttlSeconds !== null && ttlSeconds !== undefined;
  return {
    ttl: hasTtl ? String(ttlSeconds) : "",
    expires: expiresMs && !hasTtl ? fieldTime(expiresMs) : "",
    bytes: retainBytes ? String(retainBytes) : "",
    seconds: retainSeconds ? String(retainSeconds) : "",
  };
}

/** The headers for what was changed; raises what is wrong. */
function changes(typed) {
  const headers = {};
  const wrong = [];
  for (const [field, header] of Object.entries(HEADERS)) {
    const text = typed[field].trim();
    const input = form.elements[field];
    if (input.validity.badInput) wrong.push([input, "This is not a complete date and time."]);
    else if (text === before[field]) continue;
    else if (text === "") headers[header] = "none";
    else if (field === "expires") headers[header] = expiry(input, text, wrong);
    else if (WHOLE.test(text)) headers[header] = text;
    else wrong.push([input, "A whole number from 1 on, or nothing for no limit."]);
  }
  if (typed.ttl.trim() && typed.expires) wrong.push([form.elements.expires, "A stream has a TTL or an expiry, not both."]);
  if (wrong.length) throw new WrongInput(wrong);
  const attributes = changedAttributes();
  if (attributes !== null) headers["Stream-Attributes"] = attributes;
  return headers;
}

function expiry(input, text, wrong) {
  const ms = Date.parse(text);
  if (ms <= Date.now()) wrong.push([input, "This time is past. To end the stream now, delete it."]);
  return new Date(ms).toISOString();
}

/** Put a refusal beside the field whose header it names. */
function ofField(error) {
  if (!(error instanceof Problem) || error.status !== 400) return error;
  if (error.code.includes("ATTRIBUTES")) {
    return new WrongInput([[document.querySelector("#attributes input") ?? form.elements.ttl, error.message]]);
  }
  const named = Object.entries(HEADERS).find(([, header]) => error.message.includes(header));
  return named ? new WrongInput([[form.elements[named[0]], error.message]]) : error;
}
