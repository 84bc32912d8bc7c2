// The list of streams: all results of a search, loaded page by page while the list can already be used.

import { addressOf } from "./address.js";
import { offerToken } from "./reasons.js";
import { Problem, ask, controlUrl } from "./server.js";
import { VirtualList } from "./virtual.js";
import { visible } from "./visible.js";
import { bytes, many } from "./words.js";

const PAGE = 1000;
const MOST = 250_000; // streams that are listed; a search finds others
const ROW_PX = 44;
const AGAIN_MS = 3000; // how often a list of one page is refreshed
const TYPING_MS = 150;

const query = document.getElementById("query");
const countLine = document.getElementById("count");
const problem = document.getElementById("list-problem");

let items = [];
let loading = null;
let openName = null;

const list = new VirtualList(document.getElementById("list"), ROW_PX, {
  fill,
  open: (item) => (location.hash = addressOf(item.path)),
  isOpen: (item) => item.path === openName,
});

export function showAsOpen(name) {
  openName = name;
  list.draw();
}

export function startListing() {
  let typing = 0;
  query.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(load, TYPING_MS);
  });
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    load();
  });
  document.getElementById("refresh").addEventListener("click", () => load());
  window.addEventListener("token", () => load());
  setInterval(() => {
    const isSmall = items.length < PAGE;
    if (document.visibilityState === "visible" && isSmall && !loading) load({ quietly: true });
  }, AGAIN_MS);
  load();
}

/** Refresh the list after a change made by this page. */
export function reloadListing() {
  load({ quietly: true });
}

async function load({ quietly = false } = {}) {
  loading?.abort();
  const mine = (loading = new AbortController());
  const found = [];
  let cursor = "";
  try {
    do {
      const url = controlUrl("streams", { ...wanted(query.value.trim()), cursor, limit: PAGE });
      const page = await (await ask(url, { signal: mine.signal })).json();
      found.push(...page.streams);
      cursor = page.cursor;
      if (!quietly || !cursor) {
        if (items !== found) list.set((items = found));
        else list.draw();
        say(found.length, cursor !== null);
      }
      problem.hidden = true;
    } while (cursor !== null && found.length < MOST);
    say(found.length, false, cursor !== null);
  } catch (error) {
    if (!mine.signal.aborted) fail(error);
  } finally {
    if (loading === mine) loading = null;
  }
}

/** Interpret a search: with a star it is a glob, with a leading slash a prefix, otherwise part of a name. */
function wanted(text) {
  if (text.includes("*")) return { glob: text };
  if (text === "" || text.startsWith("/")) return { prefix: text };
  return { glob: `**/*${text}*/**` };
}

function say(number, isLoading, isCut = false) {
  const words = number === 0 && query.value.trim() === "" ? "No streams yet" : many(number, "stream");
  countLine.textContent = isLoading ? `${words}, loading…` : isCut ? `First ${words}; search to find others` : words;
}

function fail(error) {
  if (!(error instanceof Problem)) throw error;
  problem.hidden = false;
  problem.textContent = error.message;
  if (error.wantsToken) {
    items = [];
    list.set(items);
  }
  offerToken(problem, error);
  countLine.textContent = items.length ? many(items.length, "stream") : "";
}

function fill(row, item) {
  if (row.item === item) return;
  row.item = item;
  const path = document.createElement("span");
  path.className = "path";
  path.textContent = visible(item.path);
  const about = document.createElement("span");
  about.className = "about-item";
  const parts = [item.contentType, bytes(item.bytes)];
  if (item.forkedFrom) parts.push("fork");
  if (item.closed) parts.push("closed");
  about.textContent = visible(parts.join(" · "));
  row.classList.toggle("is-closed", item.closed);
  row.replaceChildren(path, about);
}
