// What the token allows. The server decides every request; this only keeps buttons from offering what it would refuse.

import { Problem, ask, controlUrl } from "./server.js";

const UNKNOWN = { read: true, write: true, admin: true, reason: "" }; // then a request shows what is allowed

let anywhere = null;

/** What the token allows on a stream: {read, write, admin, reason}. */
export function accessTo(name, signal) {
  return access({ path: name }, signal);
}

/** What the token allows on some stream; asked once for each token. */
export function accessAnywhere() {
  anywhere ??= access({});
  return anywhere;
}

/** Forget what an earlier token allowed. */
export function forgetAccess() {
  anywhere = null;
}

async function access(query, signal) {
  try {
    const found = await (await ask(controlUrl("access", query), { signal })).json();
    return { ...found, reason: found.write ? "" : "The token does not allow to write here." };
  } catch (error) {
    if (signal?.aborted) return UNKNOWN;
    if (!(error instanceof Problem)) throw error;
    return error.wantsToken ? { read: false, write: false, admin: false, reason: error.message } : UNKNOWN;
  }
}

/** Enable a button, or disable it and say why. */
export function allow(button, isAllowed, reason) {
  button.disabled = !isAllowed;
  button.title = isAllowed ? "" : reason;
}
