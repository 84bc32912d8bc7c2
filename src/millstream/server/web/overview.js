// The overview: facts about the server, and charts of its numbers over the last 15 minutes.

import { Chart } from "./charts.js";
import { History } from "./history.js";
import { offerToken } from "./reasons.js";
import { Problem, ask, controlUrl } from "./server.js";
import { bytes, count, duration, milliseconds, rate } from "./words.js";

const EVERY_MS = 1000;
const FACTS_EVERY_MS = 5000;

const perSecond = (name) => (now, before, seconds) => {
  const grown = now[name] - before[name];
  return grown >= 0 ? grown / seconds : null; // after a restart the server counts from zero
};
const syncMs = (now, before) => {
  const number = now.syncs - before.syncs;
  return number > 0 ? (1000 * (now.syncSeconds - before.syncSeconds)) / number : null; // no syncs, no mean
};

const CHARTS = [
  ["Appends per second", rate, perSecond("appends")],
  ["Bytes per second", (value) => `${bytes(value)}/s`, perSecond("appendedBytes"), 1024],
  ["Live readers", rate, (now) => now.liveReaders],
  ["Reads per second", rate, perSecond("reads")],
  ["Sync to disk, mean", milliseconds, syncMs, 1000, "syncs"],
].map(([title, words, measure, thousand, needs]) => {
  const chart = new Chart(title, words, thousand);
  chart.element.hidden = needs !== undefined; // until the server reports this number
  return { chart, measure, needs };
});

const problem = document.getElementById("metrics-problem");
const facts = document.getElementById("server-facts");
let history = new History();
let factsMs = -Infinity;
let isRefused = false;
let isAsking = false;

export function startOverview() {
  document.getElementById("charts").replaceChildren(...CHARTS.map(({ chart }) => chart.element));
  window.addEventListener("token", () => {
    isRefused = false;
    history = new History();
    factsMs = -Infinity;
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("hashchange", refresh);
  setInterval(refresh, EVERY_MS);
  refresh();
}

/** Ask for what is new, while somebody can see it. */
async function refresh() {
  const isShown = document.visibilityState === "visible" && document.body.dataset.showing === "overview";
  if (!isShown || isRefused || isAsking) return;
  isAsking = true;
  try {
    await history.load();
    draw();
    if (performance.now() - factsMs >= FACTS_EVERY_MS) {
      const server = await (await ask(controlUrl("server"))).json();
      showFacts(server);
      const isMeasuring = server.durability !== null && server.storeBytes === null;
      if (!isMeasuring) factsMs = performance.now();
    }
    problem.hidden = true;
    document.getElementById("charts").hidden = false;
  } catch (error) {
    fail(error);
  } finally {
    isAsking = false;
  }
}

function fail(error) {
  if (!(error instanceof Problem)) throw error;
  isRefused = !error.passes;
  problem.textContent = isRefused ? `No charts and no facts about the server: ${error.message}` : error.message;
  problem.hidden = false;
  offerToken(problem, error);
  if (!isRefused) return;
  facts.replaceChildren();
  document.getElementById("charts").hidden = true;
}

function draw() {
  for (const { chart, measure, needs } of CHARTS) {
    if (needs) chart.element.hidden = (history.now?.[needs] ?? null) === null;
    chart.drawUntil(history.points(measure), history.nowMs, history.keptMs);
  }
}

function showFacts(server) {
  const told = [
    ["Version", server.version],
    ["Up for", duration(server.uptimeSeconds)],
    ["Streams", count(server.streams)],
    ["Store", server.durability ? `${server.store}, ${server.durability}` : server.store],
  ];
  if (server.storeBytes !== null) told.push(["On disk", bytes(server.storeBytes)], ["Disk free", bytes(server.freeBytes)]);
  told.push(
    ["Appends", `${count(server.appends)} (${bytes(server.appendedBytes)})`],
    ["Reads", count(server.reads)],
    ["Refused", count(server.refused)],
    ["Failed", count(server.failed)],
  );
  facts.replaceChildren(...told.map(([name, value]) => fact(name, value)));
}

function fact(name, value) {
  const box = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = name;
  const description = document.createElement("dd");
  description.textContent = value;
  description.dataset.fact = name;
  box.append(term, description);
  return box;
}
