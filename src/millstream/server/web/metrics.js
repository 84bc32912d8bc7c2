// Charts of the server's metrics over the last minutes, refreshed every second while the page is visible.

import { Chart } from "./charts.js";
import { Problem, ask, controlUrl } from "./server.js";
import { bytes, milliseconds, rate } from "./words.js";

const EVERY_MS = 1000;
const SAMPLES = 180;

const perSecond = (name) => (now, before, seconds) => {
  const grown = now.get(name) - before?.get(name);
  return grown >= 0 ? grown / seconds : null; // after a restart the server counts from zero
};
const perEach = (name) => (now, before) => {
  const [total, number] = ["sum", "count"].map((part) => now.get(`${name}_${part}`) - before?.get(`${name}_${part}`));
  return number > 0 && total >= 0 ? (1000 * total) / number : null; // no events, no mean
};
const sum = (...names) => (now) => names.reduce((total, name) => total + (now.get(name) ?? 0), 0);

const CHARTS = [
  ["Appends per second", rate, perSecond("millstream_appends_total")],
  ["Bytes per second", (value) => `${bytes(value)}/s`, perSecond("millstream_appended_bytes_total"), 1024],
  ["Live readers", rate, sum("ds_sse_clients_num", "ds_poll_clients_num")],
  ["Reads per second", rate, perSecond("ds_requests_total")],
  ["Sync to disk, mean", milliseconds, perEach("millstream_sync_seconds"), 1000, "millstream_sync_seconds_count"],
].map(([title, words, measure, thousand, needs]) => {
  const chart = new Chart(title, words, SAMPLES, `${SAMPLES / 60} min`, thousand);
  chart.element.hidden = needs !== undefined; // until the server reports this metric
  return { chart, measure, needs, values: [] };
});

const problem = document.getElementById("metrics-problem");
let before = null;
let isRefused = false;
let isAsking = false;

export function startMetrics() {
  document.getElementById("charts").replaceChildren(...CHARTS.map(({ chart }) => chart.element));
  window.addEventListener("token", () => (isRefused = false));
  setInterval(measure, EVERY_MS);
  measure();
}

async function measure() {
  if (document.visibilityState !== "visible" || isRefused || isAsking) return;
  isAsking = true;
  try {
    const text = await (await ask(controlUrl("metrics"))).text();
    take({ atMs: performance.now(), numbers: parse(text) });
    problem.hidden = true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    isRefused = !error.passes;
    problem.textContent = isRefused ? `No charts: ${error.message}` : error.message;
    problem.hidden = false;
    before = null;
    for (const { chart, values } of CHARTS) chart.draw(keep(values, null));
  } finally {
    isAsking = false;
  }
}

function take(sample) {
  const seconds = before ? (sample.atMs - before.atMs) / 1000 : 1;
  for (const { chart, measure, needs, values } of CHARTS) {
    if (needs && !sample.numbers.has(needs)) continue;
    chart.element.hidden = false;
    keep(values, measure(sample.numbers, before?.numbers, seconds));
    chart.draw(values);
  }
  before = sample;
}

function keep(values, value) {
  values.push(value);
  if (values.length > SAMPLES) values.shift();
  return values;
}

/** Parse metrics without labels, by name, from the Prometheus text format. */
function parse(text) {
  const numbers = new Map();
  for (const [, name, value] of text.matchAll(/^(\w+) (\S+)$/gm)) numbers.set(name, Number(value));
  return numbers;
}
