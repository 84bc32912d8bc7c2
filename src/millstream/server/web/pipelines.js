// Pipelines: what each reports of itself, whether it runs, and how it went.

import { pipelinesAddressOf, typedName } from "./address.js";
import { Chart } from "./charts.js";
import { ReportStream } from "./reportstream.js";
import { Runs, stateOf } from "./runs.js";
import { visible } from "./visible.js";
import { ago, bytes, count, duration, many, moment, rate } from "./words.js";

const LAST_REPORTS = 5000; // that are read at first
const MOST_ROWS = 100;
const DRAW_MS = 200;
const AGES_MS = 5000; // how often what is said about time is said anew

const $ = (id) => document.getElementById(id);
const CHARTS = [
  ["Lag", (point) => point.lagBytes, bytes, 1024],
  ["Rows per second", (point) => point.perSecond, rate],
  ["Dead letters and late rows", (point) => point.setAside, count],
].map(([title, measure, words, thousand]) => ({ measure, chart: new Chart(title, words, thousand) }));

/** What is shown: {name, runs, chosen, stream, drawing, ages}, or null. */
let open = null;

export function startPipelines() {
  $("pipelines-charts").replaceChildren(...CHARTS.map(({ chart }) => chart.element));
  $("pipelines-form").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = pipelinesAddressOf(typedName($("pipelines-stream").value));
  });
  $("pipelines-rows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || !open) return;
    open.chosen = button.pipeline;
    draw(open);
  });
  window.addEventListener("token", () => open && openPipelines(open.name));
}

export function closePipelines() {
  open?.stream?.stop();
  clearTimeout(open?.drawing);
  clearInterval(open?.ages);
  open = null;
}

export function openPipelines(name) {
  closePipelines();
  const mine = (open = { name, runs: new Runs(), chosen: null, stream: null, drawing: 0 });
  $("pipelines-stream").value = name;
  mine.ages = setInterval(() => draw(mine), AGES_MS);
  mine.stream = new ReportStream(name, LAST_REPORTS, {
    take: (text, isNew) => {
      mine.runs.take(text, isNew);
      drawSoon(mine);
    },
    say: (state, words) => {
      say(state, words);
      drawSoon(mine);
    },
    missing: () => drawSoon(mine),
    again: () => openPipelines(name),
  });
  draw(mine);
}

function say(state, words) {
  $("pipelines-state").dataset.state = state;
  if ($("pipelines-state").textContent !== words) $("pipelines-state").textContent = words;
}

// -- Display ------------------------------------------------------------------------------------

function drawSoon(mine) {
  mine.drawing ||= setTimeout(() => {
    mine.drawing = 0;
    if (open === mine) draw(mine);
  }, DRAW_MS);
}

function draw(mine) {
  const all = mine.runs.byUrgency();
  const shown = all.slice(0, MOST_ROWS);
  mine.chosen ??= all[0]?.key ?? null;
  const chosen = mine.runs.find(mine.chosen) ?? all[0];
  const { taken, others } = mine.runs;
  $("pipelines-hint").hidden = taken > 0;
  $("pipelines-option").textContent = `--report ${visible(mine.name.replace(/^\//, ""))}`;
  $("pipelines-counts").textContent = [many(taken, "report"), ...(others ? [`${many(others, "other record")} ignored`] : [])].join(" · ");
  $("pipelines-table").hidden = $("pipelines-chosen").hidden = all.length === 0;
  if (!chosen) return;
  $("pipelines-caption").textContent = shown.length < all.length
    ? `The ${shown.length} that need attention or have the largest lag, of ${count(all.length)}`
    : "Those that need attention first, then largest lag first";
  fillRows(shown, chosen);
  showChosen(chosen);
}

function fillRows(shown, chosen) {
  const body = $("pipelines-rows");
  const hadFocus = body.contains(document.activeElement) ? document.activeElement.pipeline : null;
  body.replaceChildren(...shown.map((one) => rowOf(one, one === chosen)));
  if (hadFocus === null) return;
  [...body.querySelectorAll("button")].find((button) => button.pipeline === hadFocus)?.focus({ preventScroll: true });
}

function rowOf(pipeline, isChosen) {
  const { newest } = pipeline;
  const row = document.createElement("tr");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.pipeline = pipeline.key;
  button.ariaPressed = isChosen;
  const between = document.createElement("span");
  between.className = "between";
  between.textContent = betweenOf(newest);
  button.append(visible(newest.pipeline), " ", between);
  const head = document.createElement("th");
  head.scope = "row";
  head.append(button);
  const unmet = newest.unmet.reduce((sum, [, number]) => sum + number, 0);
  row.append(
    head,
    cell(badge(stateOf(pipeline)), "state-cell"),
    cell(newest.lagBytes === null ? "–" : bytes(newest.lagBytes), "figure"),
    cell(perSecond(pipeline), "figure"),
    cell(known(newest.rows), "figure when-wide-cell"),
    cell(known(newest.lateRows), `figure when-wide-cell${newest.lateRows ? " noted" : ""}`),
    cell(known(newest.deadLetters), `figure when-wide-cell${newest.deadLetters ? " noted" : ""}`),
    cell(newest.rows === null ? "–" : count(unmet), `figure when-wide-cell${unmet ? " noted" : ""}`),
    cell(newest.batchMs === null ? "none" : ago(newest.batchMs), "when-wide-cell"),
  );
  return row;
}

/** Rows per second of the last interval; of a pipeline that does not run, nothing. */
function perSecond(pipeline) {
  const last = pipeline.points.at(-1).perSecond;
  return stateOf(pipeline) === "running" && last !== null ? rate(last) : "–";
}

function betweenOf({ source, target }) {
  return target === null ? visible(source) : `${visible(source)} → ${visible(target)}`;
}

const known = (number) => (number === null ? "–" : count(number));

function cell(content, className) {
  const made = document.createElement("td");
  made.className = className;
  made.append(content);
  return made;
}

function badge(state) {
  const made = document.createElement("span");
  made.className = "badge";
  made.dataset.status = state;
  made.textContent = state;
  return made;
}

function showChosen(pipeline) {
  const { newest, points } = pipeline;
  $("pipelines-name").textContent = `${visible(newest.pipeline)} ${betweenOf(newest)}`;
  const problem = problemOf(pipeline);
  $("pipelines-problem").hidden = problem === null;
  $("pipelines-problem").textContent = problem ?? "";
  const facts = [["Started", newest.startedMs === null ? "–" : moment(newest.startedMs)]];
  if (stateOf(pipeline) !== "running") facts.push(["Last report", moment(newest.atMs)]);
  facts.push(["Last batch", newest.batchMs === null ? "none yet" : moment(newest.batchMs)]);
  if (newest.host !== null) facts.push(["Host", visible(newest.host)]);
  facts.push(["Batches", known(newest.batches)], ["Rows", known(newest.rows)]);
  if (newest.busySeconds !== null) facts.push(["Time in batches", duration(newest.busySeconds)]);
  facts.push(["Late rows", known(newest.lateRows)], ["Dead letters", known(newest.deadLetters)]);
  if (newest.duplicates) facts.push(["Duplicates", count(newest.duplicates)]);
  facts.push(...newest.unmet.map(([rule, number]) => [`Unmet: ${visible(rule)}`, count(number)]));
  $("pipelines-facts").replaceChildren(...facts.map(([name, value]) => fact(name, value)));
  for (const { chart, measure } of CHARTS) {
    chart.drawOver(points.map((point) => [point.atMs, measure(point)]), moment);
  }
}

/** What a person should know: why it failed, or that it is probably gone. */
function problemOf(pipeline) {
  const { newest, heardMs } = pipeline;
  const state = stateOf(pipeline);
  if (state === "failed") return `It failed: ${visible(newest.error ?? "it did not say why")}`;
  if (state !== "silent") return null;
  const promised = duration(newest.withinMs / 1000);
  return `It reported ${ago(heardMs)} for the last time, and should do so every ${promised}. It was killed, or cannot reach this server.`;
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
