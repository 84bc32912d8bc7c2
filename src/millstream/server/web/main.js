// The page: which of its two views is shown, and what the buttons around them do.

import { addressOf, nameAt, typedName } from "./address.js";
import { onAnswer, openDialog } from "./dialogs.js";
import { reloadListing, showAsOpen, startListing } from "./listing.js";
import { startMetrics } from "./metrics.js";
import { ask, streamUrl, token } from "./server.js";
import { closeStream, openStream, startStream } from "./stream.js";
import { startTheme } from "./theme.js";
import { visible } from "./visible.js";

const view = document.getElementById("view");
const tokenButton = document.getElementById("token-open");

function route({ focus = true } = {}) {
  const name = nameAt(location.hash);
  document.body.dataset.showing = name ? "stream" : "overview";
  document.getElementById("overview").hidden = name !== null;
  document.getElementById("stream").hidden = name === null;
  document.title = name ? `${visible(name)} · millstream` : "millstream";
  showAsOpen(name);
  if (name) openStream(name);
  else closeStream();
  if (focus) (name ? view : document.getElementById("list")).focus({ preventScroll: true });
}

onAnswer("create", async ({ path, type, ttl }) => {
  const name = typedName(path);
  const headers = { "Content-Type": type.trim(), ...(ttl && { "Stream-TTL": ttl }) };
  await ask(streamUrl(name), { method: "PUT", headers });
  reloadListing();
  location.hash = addressOf(name);
});

onAnswer("token", ({ token: value }) => token.set(value.trim()));

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
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  document.getElementById("query").focus();
});
window.addEventListener("token", showToken);
window.addEventListener("hashchange", () => route());

startTheme(document.getElementById("theme"));
showToken();
startListing();
startMetrics();
startStream();
route({ focus: false });
