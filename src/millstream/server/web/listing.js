// The list of streams: all results of a search, loaded page by page while the list can already be used. Without a search
// they are shown as a tree of paths, if *Tree* is pressed.

import { addressOf } from "./address.js";
import { Found, PAGE } from "./found.js";
import { fillRow } from "./listrows.js";
import { LiveRows } from "./liverows.js";
import { position } from "./offsets.js";
import { ORDERS } from "./orders.js";
import { offerToken } from "./reasons.js";
import { wanted } from "./searching.js";
import { Problem, ask, controlUrl } from "./server.js";
import { VirtualList } from "./virtual.js";
import { many } from "./words.js";

const MOST = 250_000; // streams that are listed; a search finds others
const ROW_PX = 44;
const AGAIN_MS = 3000; // how often sizes are refreshed: all of a list of one page, or else one page of it
const LIVE_MS = 250; // how often the rows are arranged at most while streams grow
const TYPING_MS = 150;
const FEW = 100; // folders with up to so many streams are open at first

const $ = (id) => document.getElementById(id);
const query = $("query");
const order = $("order");
const treeButton = $("tree");

let found = new Found();
let loading = null;
let openName = null;
let opensFirst = false; // the search was submitted: open what it finds first
let arranging = 0;
let restUntilMs = 0;
const chosen = new Map(); // folders that the user opened or closed

const list = new VirtualList($("list"), ROW_PX, {
  fill: fillRow,
  keyOf: (shown) => shown.key ?? shown.path,
  isOpen: (shown) => shown.path === openName && !shown.folder,
  open: (shown) => (shown.folder ? toggle(shown) : (location.hash = addressOf(shown.path))),
  turn,
  leave: () => query.focus(),
  drawn: () => liveRows.show(visibleStreams()),
});
const liveRows = new LiveRows({ grew, ended: (path) => replace(path, { closed: true }), gone: () => reloadListing() });

export function showAsOpen(name) {
  openName = name;
  arrange();
}

export function startListing() {
  let typing = 0;
  order.value = localStorage.getItem("millstream-order") ?? "name";
  if (!order.value) order.value = "name";
  treeButton.ariaPressed = localStorage.getItem("millstream-tree") !== "false";
  order.addEventListener("change", () => {
    localStorage.setItem("millstream-order", order.value);
    arrange();
  });
  treeButton.addEventListener("click", () => {
    treeButton.ariaPressed = treeButton.ariaPressed !== "true";
    localStorage.setItem("millstream-tree", treeButton.ariaPressed);
    arrange();
  });
  query.addEventListener("input", () => {
    opensFirst = false;
    clearTimeout(typing);
    typing = setTimeout(load, TYPING_MS);
  });
  query.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    list.enter();
  });
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    opensFirst = isSearching();
    load();
  });
  $("refresh").addEventListener("click", () => load());
  window.addEventListener("token", () => {
    load();
    liveRows.restart();
  });
  setInterval(refresh, AGAIN_MS);
  load();
}

/** Refresh the list after a change made by this page. */
export function reloadListing() {
  load({ quietly: true });
}

// -- Loading -------------------------------------------------------------------------------------

async function load({ quietly = false } = {}) {
  loading?.abort();
  const mine = (loading = new AbortController());
  const fresh = new Found();
  let cursor = "";
  try {
    do {
      const page = await ask(listingUrl(cursor), { signal: mine.signal });
      const { streams, cursor: next } = await page.json();
      fresh.add(quietly ? streams.map(latest) : streams);
      cursor = next;
      if (!quietly || cursor === null) {
        found = fresh;
        arrangeSoon();
        say(fresh.items.length, cursor !== null);
        if (streams.length) openFirst();
      }
      $("list-problem").hidden = true;
    } while (cursor !== null && fresh.items.length < MOST);
    opensFirst = false;
    say(fresh.items.length, false, cursor !== null);
  } catch (error) {
    if (mine.signal.aborted) return;
    opensFirst = false;
    fail(error);
  } finally {
    if (loading === mine) loading = null;
  }
}

/** Refresh sizes: all if they come in one request, otherwise one page that somebody looks at. */
async function refresh() {
  if (document.visibilityState !== "visible" || loading) return;
  if (found.items.length < PAGE) return load({ quietly: true });
  const before = found;
  const visible = list.visible().map((shown) => shown.item ?? shown.folder?.first ?? shown);
  const cursor = found.pageToRefresh(visible);
  if (cursor === null) return;
  try {
    const { streams } = await (await ask(listingUrl(cursor))).json();
    if (found !== before) return;
    $("list-problem").hidden = true;
    found.replace(streams);
    arrangeSoon();
  } catch (error) {
    fail(error);
  }
}

function listingUrl(cursor) {
  return controlUrl("streams", { ...wanted(query.value.trim()), cursor, limit: PAGE });
}

function isSearching() {
  return query.value.trim() !== "";
}

function openFirst() {
  if (!opensFirst) return;
  opensFirst = false;
  arrange();
  list.openFirst();
}

function say(number, isLoading, isCut = false) {
  const words = number === 0 && !isSearching() ? "No streams yet" : many(number, "stream");
  $("count").textContent = isLoading ? `${words}, loading…` : isCut ? `First ${words}; search to find others` : words;
}

function fail(error) {
  if (!(error instanceof Problem)) throw error;
  $("list-problem").hidden = false;
  $("list-problem").textContent = error.message;
  if (!error.passes) {
    found = new Found();
    arrange();
  }
  offerToken($("list-problem"), error);
  $("count").textContent = found.items.length ? many(found.items.length, "stream") : "";
}

// -- Live ----------------------------------------------------------------------------------------

/** The streams of the visible rows; one that is closed does not change any more. */
function visibleStreams() {
  const items = list.visible().map((shown) => ("level" in shown ? shown.item : shown));
  return items.filter((item) => item && !item.closed).map(({ path }) => path);
}

function grew(path, tail, time) {
  const item = found.find(path);
  const grown = position(tail) - position(item?.tail);
  if (item && grown > 0) replace(path, { tail, bytes: item.bytes + grown, lastWriteMs: Date.parse(time) || Date.now() });
}

function replace(path, changes) {
  const item = found.find(path);
  if (!item) return;
  found.replace([{ ...item, ...changes }]);
  arrangeSoon(LIVE_MS);
}

/** A listing may be older than what has been heard of a stream. */
function latest(stream) {
  const known = found.find(stream.path);
  if (!known || known.incarnation !== stream.incarnation || known.tail <= stream.tail) return stream;
  return { ...stream, tail: known.tail, bytes: known.bytes, lastWriteMs: known.lastWriteMs };
}

// -- Arranging -----------------------------------------------------------------------------------

/** Arrange the rows soon; while pages arrive this takes at most a fifth of the time. */
function arrangeSoon(leastMs = 0) {
  arranging ||= setTimeout(arrange, Math.max(leastMs, restUntilMs - performance.now()));
}

function arrange() {
  clearTimeout(arranging);
  arranging = 0;
  const begunMs = performance.now();
  const isTree = treeButton.ariaPressed === "true" && !isSearching();
  treeButton.disabled = isSearching();
  treeButton.title = isSearching() ? "The results of a search are a list." : "";
  const compare = ORDERS[order.value];
  $("list").role = isTree ? "tree" : "listbox";
  if (isTree) list.set(found.tree.rows(isOpen, compare));
  else list.set(compare ? [...found.items].sort(compare) : found.items);
  const endMs = performance.now();
  restUntilMs = endMs + 4 * (endMs - begunMs);
}

/** Whether a folder is open: as the user chose, or else if it is small, alone, or has the open stream. */
function isOpen(folder, isAlone) {
  const isFirstOpen = isAlone || (folder.count <= FEW && found.items.length < PAGE) || openName?.startsWith(folder.path);
  return chosen.get(folder.path) ?? Boolean(isFirstOpen);
}

function toggle(shown) {
  chosen.set(shown.folder.path, !shown.isOpen);
  arrange();
}

/** The arrow keys of a tree: give the row to go to, or null if the key means nothing here. */
function turn(key, rows, at) {
  const shown = rows[at];
  if (!shown || !("level" in shown)) return null;
  if (key === "ArrowRight" && shown.folder) {
    if (shown.isOpen) return at + 1;
    toggle(shown);
    return at;
  }
  if (key !== "ArrowLeft") return null;
  if (shown.isOpen) {
    toggle(shown);
    return at;
  }
  const parent = rows.slice(0, at).findLastIndex((row) => row.level < shown.level);
  return parent < 0 ? at : parent;
}
