// The board: many streams side by side, all over one connection. A search says which; streams that are created later
// join. Streams beyond the first hundred are left out, and said to be.

import { boardAddressOf } from "./address.js";
import { Many } from "./many.js";
import { offerToken } from "./reasons.js";
import { finds, globOf, wanted } from "./searching.js";
import { Problem, ask, controlUrl } from "./server.js";
import { STATES } from "./tail.js";
import { LINES, Tile } from "./tiles.js";
import { many as counted } from "./words.js";

const MOST_TILES = 100;
const DRAW_MS = 100; // drawing also takes at most a quarter of the time
const TIMES_MS = 5000;
const AGAIN_MS = 3000;

const $ = (id) => document.getElementById(id);

/** The open board: {query, tiles, many, isCut, stop, changed, drawing, restUntilMs}, or null. */
let open = null;

export function startBoard() {
  $("board-form").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = boardAddressOf($("board-query").value.trim());
  });
  $("board-found").addEventListener("click", () => {
    location.hash = boardAddressOf($("query").value.trim());
  });
  window.addEventListener("token", () => open && openBoard(open.query));
  setInterval(() => open?.tiles.forEach((tile) => tile.drawTime()), TIMES_MS);
}

export function closeBoard() {
  open?.stop.abort();
  open?.many?.stop();
  clearTimeout(open?.drawing);
  open = null;
}

export async function openBoard(query) {
  closeBoard();
  const stop = new AbortController();
  const mine = (open = { query, tiles: new Map(), many: null, isCut: false, stop, changed: new Set(), drawing: 0, restUntilMs: 0 });
  $("board-query").value = query;
  $("tiles").replaceChildren();
  $("board-problem").hidden = true;
  say("connecting", STATES.connecting);
  try {
    const paths = await find(mine);
    if (open === mine) follow(mine, paths);
  } catch (error) {
    refused(mine, error);
  }
}

/** The paths of the first streams that the search finds. */
async function find(mine) {
  const paths = [];
  let cursor = "";
  do {
    const url = controlUrl("streams", { ...wanted(mine.query), cursor, limit: MOST_TILES + 1 });
    const page = await (await ask(url, { signal: mine.stop.signal })).json();
    paths.push(...page.streams.map(({ path }) => path));
    cursor = page.cursor;
  } while (cursor !== null && paths.length <= MOST_TILES);
  mine.isCut = paths.length > MOST_TILES;
  return paths.slice(0, MOST_TILES);
}

function follow(mine, paths) {
  for (const path of paths) add(mine, path);
  const begin = paths.map((path) => [path, `last:${LINES}`]);
  mine.many = new Many(begin, {
    state: (state, detail) => open === mine && changed(mine, state, detail),
    joined: (path, { contentType }) => on(mine, path, (tile) => tile.join(contentType)),
    batch: (path, batch) => on(mine, path, (tile) => tile.take(batch)),
    ended: (path) => on(mine, path, (tile) => tile.end()),
    deleted: (path) => on(mine, path, (tile) => tile.remove()),
    refused: (path, problem) => on(mine, path, (tile) => tile.say(problem.message, true)),
  }, mine.isCut ? [] : [globOf(mine.query)]);
  count(mine);
}

/** Let a tile take an event; one that joins late gets a tile, as long as there is room. */
function on(mine, path, act) {
  if (open !== mine) return;
  const tile = mine.tiles.get(path) ?? (finds(mine.query, path) ? add(mine, path) : null);
  if (!tile) return;
  act(tile);
  mine.changed.add(tile);
  drawSoon(mine);
}

function add(mine, path) {
  if (mine.tiles.size >= MOST_TILES) {
    mine.isCut = true;
    count(mine);
    return null;
  }
  const tile = new Tile(path);
  mine.tiles.set(path, tile);
  const next = [...$("tiles").children].find((other) => other.dataset.path > path);
  $("tiles").insertBefore(tile.element, next ?? null);
  count(mine);
  return tile;
}

// -- Status --------------------------------------------------------------------------------------

function changed(mine, state, detail) {
  if (state === "failed") refused(mine, detail);
  else say(state, STATES[state]);
}

function refused(mine, error) {
  if (open !== mine || mine.stop.signal.aborted) return;
  if (!(error instanceof Problem)) throw error;
  say(error.passes ? "waiting" : "failed", error.passes ? STATES.waiting : "Refused");
  if (error.passes) setTimeout(() => open === mine && openBoard(mine.query), AGAIN_MS);
  $("board-problem").textContent = error.message;
  $("board-problem").hidden = false;
  offerToken($("board-problem"), error);
}

function say(state, words) {
  $("board-state").dataset.state = state;
  if ($("board-state").textContent !== words) $("board-state").textContent = words;
}

function count(mine) {
  const number = counted(mine.tiles.size, "stream");
  $("board-counts").textContent = mine.isCut ? `the first ${number}; search to see others` : `${number} on one connection`;
  $("board-hint").hidden = mine.tiles.size > 0;
}

// -- Drawing -------------------------------------------------------------------------------------

function drawSoon(mine) {
  mine.drawing ||= setTimeout(() => {
    mine.drawing = 0;
    if (open !== mine) return;
    const begunMs = performance.now();
    for (const tile of mine.changed) tile.draw();
    mine.changed.clear();
    const endMs = performance.now();
    mine.restUntilMs = endMs + 3 * (endMs - begunMs);
  }, Math.max(DRAW_MS, mine.restUntilMs - performance.now()));
}
