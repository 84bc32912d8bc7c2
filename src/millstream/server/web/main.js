// The page: selects the view to show and connects the buttons around it.

import { accessAnywhere, allow, forgetAccess } from "./access.js";
import { addressOf, boardAt, nameAt, pipelinesAt, reportsAt, subscriptionsAt, typedName } from "./address.js";
import { closeBoard, openBoard, startBoard } from "./board.js";
import { onAnswer, openDialog } from "./dialogs.js";
import { startKeyboard } from "./keyboard.js";
import { closeLag, openLag, startLag } from "./lag.js";
import { reloadListing, showAsOpen, startListing } from "./listing.js";
import { startOverview } from "./overview.js";
import { closePipelines, openPipelines, startPipelines } from "./pipelines.js";
import { Problem, ask, controlUrl, streamUrl, token } from "./server.js";
import { closeStream, openStream, startStream } from "./stream.js";
import { closeSubscriptions, openSubscriptions, startSubscriptions } from "./subscriptions.js";
import { startTheme } from "./theme.js";
import { visible } from "./visible.js";
import { moment } from "./words.js";

const view = document.getElementById("view");
const tokenButton = document.getElementById("token-open");

/** The views beside the overview, by the id of their element: what of them an address shows, or null. */
const VIEWS = {
  stream: { at: nameAt, open: openStream, close: closeStream, title: visible },
  board: { at: boardAt, open: openBoard, close: closeBoard, title: () => "Board" },
  pipelines: { at: pipelinesAt, open: openPipelines, close: closePipelines, title: () => "Pipelines" },
  lag: { at: reportsAt, open: openLag, close: closeLag, title: () => "Lag" },
  subscriptions: { at: subscriptionsAt, open: openSubscriptions, close: closeSubscriptions, title: () => "Subscriptions" },
};

function route({ focus = true } = {}) {
  const found = Object.entries(VIEWS).find(([, { at }]) => at(location.hash) !== null);
  const showing = found?.[0] ?? "overview";
  const what = found?.[1].at(location.hash);
  document.body.dataset.showing = showing;
  for (const id of ["overview", ...Object.keys(VIEWS)]) document.getElementById(id).hidden = id !== showing;
  document.title = found ? `${found[1].title(what)} · millstream` : "millstream";
  for (const link of document.querySelectorAll(".top nav a")) link.ariaCurrent = link.id === `${showing}-open` ? "page" : null;
  showAsOpen(showing === "stream" ? what : null);
  for (const { close } of Object.values(VIEWS)) close();
  found?.[1].open(what);
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
startBoard();
startPipelines();
startLag();
startSubscriptions();
startKeyboard();
route({ focus: false });
