// Subscriptions: how far each is behind, what failed last, and when it is tried again.

import { addressOf } from "./address.js";
import { offerToken } from "./reasons.js";
import { Problem, ask, controlUrl, subscriptionUrl } from "./server.js";
import { visible } from "./visible.js";
import { ago, bytes, count, duration, many, moment } from "./words.js";

const REFRESH_MS = 2000;
const MOST_ROWS = 200;
const MOST_PAGES = 10;
const PAGE = 1000;

const $ = (id) => document.getElementById(id);

/** What is shown: {stop, timer, retried}, or null. */
let open = null;

export function startSubscriptions() {
  $("subscriptions-rows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.subscription && open) retry(open, button.subscription);
  });
  window.addEventListener("token", () => open && openSubscriptions());
}

export function closeSubscriptions() {
  open?.stop.abort();
  clearTimeout(open?.timer);
  open = null;
}

export async function openSubscriptions() {
  closeSubscriptions();
  const mine = (open = { stop: new AbortController(), timer: 0 });
  say("connecting", "Connecting…");
  problem(null);
  await refresh(mine);
}

async function refresh(mine) {
  clearTimeout(mine.timer);
  try {
    const found = await listed(mine.stop.signal);
    if (open !== mine) return;
    draw(found);
    say("live", "Live");
  } catch (error) {
    if (open !== mine || mine.stop.signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    say(error.passes ? "waiting" : "failed", error.message);
    if (!error.passes) {
      draw([]);
      $("subscriptions-hint").hidden = true;
      offerToken($("subscriptions-state"), error);
      return;
    }
  }
  mine.timer = setTimeout(() => open === mine && refresh(mine), REFRESH_MS);
}

async function listed(signal) {
  const found = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const url = controlUrl("subscriptions", { limit: PAGE, cursor });
    const answer = await (await ask(url, { signal })).json();
    found.push(...answer.subscriptions);
    cursor = answer.cursor;
    if (cursor === null) break;
  }
  return found;
}

/** Let the server attempt a delivery now, and show what came of it. */
async function retry(mine, { root, id }) {
  try {
    await ask(subscriptionUrl(root, id, "/retry"), { method: "POST", signal: mine.stop.signal });
    problem(null);
  } catch (error) {
    if (mine.stop.signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    problem(error);
  }
  if (open === mine) await refresh(mine);
}

function say(state, words) {
  $("subscriptions-state").dataset.state = state;
  if ($("subscriptions-state").textContent !== words) $("subscriptions-state").textContent = words;
}

function problem(error) {
  const line = $("subscriptions-problem");
  line.hidden = error === null;
  line.textContent = error?.message ?? "";
  if (error) offerToken(line, error);
}

// -- Display ------------------------------------------------------------------------------------

function draw(found) {
  const sorted = found.toSorted(
    (a, b) => (b.status === "failed") - (a.status === "failed") || behind(b) - behind(a) || (a.id < b.id ? -1 : 1),
  );
  const shown = sorted.slice(0, MOST_ROWS);
  $("subscriptions-hint").hidden = found.length > 0;
  $("subscriptions-table").hidden = found.length === 0;
  const failed = found.filter(({ status }) => status === "failed").length;
  $("subscriptions-counts").textContent = [many(found.length, "subscription"), ...(failed ? [`${count(failed)} failing`] : [])].join(" · ");
  $("subscriptions-caption").textContent = shown.length < found.length
    ? `The ${shown.length} that fail or are furthest behind, of ${count(found.length)}`
    : "Failing ones first, then those that are furthest behind";
  fill(shown);
}

const behind = ({ pending_bytes: lag }) => lag ?? 0;

/** Replace the rows, and keep the focus on the button of the same subscription. */
function fill(shown) {
  const body = $("subscriptions-rows");
  const focused = body.contains(document.activeElement) ? document.activeElement.subscription : null;
  body.replaceChildren(...shown.map(rowOf));
  if (!focused) return;
  const isSame = ({ subscription: one }) => one && one.id === focused.id && one.root === focused.root;
  ([...body.querySelectorAll("button")].find(isSame) ?? $("view")).focus({ preventScroll: true });
}

function rowOf(one) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.append(visible(one.id));
  if (one.description) head.title = visible(one.description);
  row.append(
    head,
    cell(stateOf(one), "when-wide-cell"),
    cell(lagOf(one), "figure"),
    cell(targetOf(one), "target when-wide-cell"),
    cell(errorOf(one), "error"),
    cell(nextOf(one), "next"),
  );
  return row;
}

function stateOf({ status, holder }) {
  const made = document.createElement("span");
  made.className = "badge";
  made.dataset.status = status;
  made.textContent = status === "failed" ? "failing" : holder ? "working" : visible(status);
  if (holder) made.title = `Claimed by ${visible(holder)}`;
  return made;
}

function lagOf({ pending_streams: streams, pending_bytes: size, pending_since: since }) {
  if (!streams) return "none";
  const words = [many(streams, "stream"), bytes(size ?? 0)];
  if (since) words.push(`for ${duration(Math.max(0, (Date.now() - Date.parse(since)) / 1000))}`);
  return words.join(", ");
}

function targetOf({ webhook, wake_stream: wake, root }) {
  if (webhook) return visible(webhook.url);
  const link = document.createElement("a");
  const name = root + wake;
  link.href = addressOf(name);
  link.textContent = visible(name);
  return link;
}

function errorOf({ last_error: error, last_error_at: at }) {
  if (!error) return "–";
  return `${visible(error)}${at ? ` (${ago(Date.parse(at))})` : ""}`;
}

function nextOf({ id, root, attempts, next_attempt_at: at }) {
  if (!at) return "–";
  const made = document.createElement("div");
  const button = document.createElement("button");
  button.type = "button";
  button.subscription = { id, root };
  button.textContent = "Retry now";
  button.ariaLabel = `Retry now: ${visible(id)}`;
  const words = document.createElement("span");
  words.textContent = moment(Date.parse(at));
  words.title = `${many(attempts, "attempt")} failed`;
  made.append(words, " ", button);
  return made;
}

function cell(content, className = "") {
  const made = document.createElement("td");
  made.className = className;
  made.append(content);
  return made;
}
