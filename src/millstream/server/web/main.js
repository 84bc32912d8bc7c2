// The page: selects the view to show and connects the buttons around it.

import { accessAnywhere, allow, forgetAccess } from "./access.js";
import { addressOf, nameAt, reportsAt, typedName } from "./address.js";
import { onAnswer, openDialog } from "./dialogs.js";
import { startKeyboard } from "./keyboard.js";
import { closeLag, openLag, startLag } from "./lag.js";
import { reloadListing, showAsOpen, startListing } from "./listing.js";
import { startOverview } from "./overview.js";
import { Problem, ask, controlUrl, streamUrl, token } from "./server.js";
import { closeStream, openStream, startStream } from "./stream.js";
import { startTheme } from "./theme.js";
import { visible } from "./visible.js";
import { moment } from "./words.js";

const view = document.getElementById("view");
const tokenButton = document.getElementById("token-open");

function route({ focus = true } = {}) {
  const name = nameAt(location.hash);
  const reports = name ? null : reportsAt(location.hash);
  const showing = name ? "stream" : reports ? "lag" : "overview";
  document.body.dataset.showing = showing;
  for (const id of ["overview", "stream", "lag"]) document.getElementById(id).hidden = id !== showing;
  document.title = { stream: `${visible(name ?? "")} · millstream`, lag: "Pipelines · millstream" }[showing] ?? "millstream";
  document.getElementById("lag-open").ariaCurrent = showing === "lag" ? "page" : null;
  showAsOpen(name);
  closeStream();
  closeLag();
  if (name) openStream(name);
  if (reports) openLag(reports);
  if (focus) (showing === "overview" ? document.getElementById("list") : view).focus({ preventScroll: true });
}

onAnswer("create", async ({ path, type, ttl, bytes, seconds }) => {
  const name = typedName(path);
  const limits = { "Stream-TTL": ttl, "Stream-Retain-Bytes": bytes, "Stream-Retain-Seconds": seconds };
  const given = Object.entries(limits).filter(([, value]) => value);
  const headers = { "Content-Type": type.trim(), ...Object.fromEntries(given) };
  await ask(streamUrl(name), { method: "PUT", headers });
  reloadListing();
  location.hash = addressOf(name);
});

onAnswer("token", async ({ token: value }) => {
  const typed = value.trim();
  if (/[^\x21-\x7e]/.test(typed)) throw new Problem(400, "A token is one word of letters, digits and punctuation.");
  if (typed) await ask(controlUrl("access"), { as: typed }); // refused ones are not kept: the dialog says why
  token.set(typed);
});

/** Offer what the token allows. */
async function offerNew() {
  const { read, write, admin, reason, expiresMs } = await accessAnywhere();
  allow(document.getElementById("create-open"), write, reason);
  const allowed = [read && "read", write && "write", admin && "see the server's statistics"].filter(Boolean);
  const until = expiresMs ? ` It expires: ${moment(expiresMs)}.` : "";
  tokenButton.title = token.get() ? `This token allows to ${allowed.join(", ") || "do nothing"}.${until}` : "";
}

function showToken() {
  tokenButton.textContent = token.get() ? "Token: set" : "Token";
}

document.getElementById("create-open").addEventListener("click", () => {
  const searched = document.getElementById("query").value.trim();
  openDialog("create", { path: searched.startsWith("/") && !searched.includes("*") ? searched : "" });
});
tokenButton.addEventListener("click", () => openDialog("token", { token: token.get() }));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
window.addEventListener("token", () => {
  forgetAccess();
  showToken();
  offerNew();
});
window.addEventListener("hashchange", () => route());

startTheme(document.getElementById("theme"));
showToken();
offerNew();
startListing();
startOverview();
startStream();
startLag();
startKeyboard();
route({ focus: false });
