// Lag of streams: the live reports of `millstream pipeline profile`.

import { USUAL_REPORTS, addressOf, lagAddressOf, typedName } from "./address.js";
import { Chart } from "./charts.js";
import { Reports } from "./reports.js";
import { ReportStream } from "./reportstream.js";
import { visible } from "./visible.js";
import { bytes, count, many, moment, rate } from "./words.js";

const LAST_REPORTS = 10_000; // that are read at first
const MOST_ROWS = 100;
const DRAW_MS = 200;

const $ = (id) => document.getElementById(id);
const CHARTS = [
  ["Lag", (report) => report.lagBytes, bytes, 1024],
  ["Rows in each report", (report) => report.rows, count],
  ["Bytes in each report", (report) => report.bytes, bytes, 1024],
].map(([title, measure, words, thousand]) => ({ measure, chart: new Chart(title, words, thousand) }));

/** What is shown: {name, reports, chosen, stream, drawing}, or null. */
let open = null;

export function startLag() {
  $("lag-charts").replaceChildren(...CHARTS.map(({ chart }) => chart.element));
  $("lag-form").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = lagAddressOf(typedName($("lag-stream").value));
  });
  $("lag-rows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || !open) return;
    open.chosen = button.stream;
    draw(open);
  });
  window.addEventListener("token", () => open && openLag(open.name));
}

export function closeLag() {
  open?.stream?.stop();
  clearTimeout(open?.drawing);
  open = null;
}

export function openLag(name) {
  closeLag();
  const mine = (open = { name, reports: new Reports(), chosen: null, stream: null, drawing: 0 });
  $("lag-stream").value = name;
  draw(mine);
  mine.stream = new ReportStream(name, LAST_REPORTS, {
    take: (text) => {
      mine.reports.take(text);
      drawSoon(mine);
    },
    say: (state, words) => {
      say(state, words);
      if (mine.stream?.isRead) drawSoon(mine);
    },
    missing: () => hint(`There is no stream ${visible(name)} yet. "millstream pipeline profile" reports to ${USUAL_REPORTS} by default.`),
    again: () => openLag(name),
  });
}

function say(state, words) {
  $("lag-state").dataset.state = state;
  if ($("lag-state").textContent !== words) $("lag-state").textContent = words;
}

function hint(words) {
  $("lag-hint").textContent = words;
  $("lag-hint").hidden = words === "";
}

// -- Display ------------------------------------------------------------------------------------

function drawSoon(mine) {
  mine.drawing ||= setTimeout(() => {
    mine.drawing = 0;
    if (open === mine) draw(mine);
  }, DRAW_MS);
}

function draw(mine) {
  const all = mine.reports.byLag();
  const shown = all.slice(0, MOST_ROWS);
  mine.chosen ??= all[0]?.name ?? null;
  const chosen = mine.reports.find(mine.chosen) ?? all[0];
  const { taken, others } = mine.reports;
  hint(mine.stream?.isRead && !taken ? `${visible(mine.name)} has no reports.` : "");
  $("lag-counts").textContent = [many(taken, "report"), ...(others ? [`${many(others, "other record")} ignored`] : [])].join(" · ");
  $("lag-table").hidden = $("lag-chosen").hidden = all.length === 0;
  if (!chosen) return;
  $("lag-caption").textContent = shown.length < all.length
    ? `Latest report of each stream: the ${shown.length} with the largest lag, of ${count(all.length)}`
    : "Latest report of each stream, largest lag first";
  fillRows(shown, chosen);
  showChosen(chosen);
}

function fillRows(shown, chosen) {
  const body = $("lag-rows");
  const hadFocus = body.contains(document.activeElement) ? document.activeElement.stream : null;
  body.replaceChildren(...shown.map((stream) => rowOf(stream, stream === chosen)));
  if (hadFocus === null) return;
  [...body.querySelectorAll("button")].find((button) => button.stream === hadFocus)?.focus({ preventScroll: true });
}

function rowOf({ name, reports, changes }, isChosen) {
  const newest = reports.at(-1);
  const row = document.createElement("tr");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.stream = name;
  button.ariaPressed = isChosen;
  button.textContent = visible(name);
  const head = document.createElement("th");
  head.scope = "row";
  head.append(button);
  if (newest.isClosed) head.append(" ", badge("closed"));
  row.append(
    head,
    cell(newest.lagBytes === null ? "unknown" : bytes(newest.lagBytes), "figure"),
    cell(count(newest.rows), "figure"),
    cell(newest.perSecond === null ? "–" : rate(newest.perSecond), "figure when-wide-cell"),
    cell(bytes(newest.bytes), "figure when-wide-cell"),
    newest.drift ? cell(badge(summary(newest.drift)), "drifted") : cell(changes.length ? `changed ${moment(changes.at(-1).untilMs)}` : "same", ""),
    cell(moment(newest.untilMs), "when-wide-cell"),
  );
  return row;
}

function cell(content, className) {
  const made = document.createElement("td");
  made.className = className;
  made.append(content);
  return made;
}

function badge(words) {
  const made = document.createElement("span");
  made.className = "badge";
  made.textContent = words;
  return made;
}

function summary({ added, removed, changed }) {
  const parts = [["added", added], ["removed", removed], ["changed type", changed]];
  return parts.filter(([, names]) => names.length).map(([word, names]) => `${names.length} ${word}`).join(", ");
}

function showChosen({ name, reports, changes }) {
  $("lag-name").textContent = visible(name);
  $("lag-name").href = addressOf(name);
  for (const { chart, measure } of CHARTS) {
    chart.drawOver(reports.map((report) => [report.untilMs, measure(report)]), moment);
  }
  $("drift").replaceChildren(...(changes.length ? changes.toReversed().map(change) : [item("No changes reported.")]));
}

function change({ untilMs, added, removed, changed }) {
  const parts = [["added", added], ["removed", removed], ["changed type", changed]];
  const listed = parts.filter(([, names]) => names.length).map(([word, names]) => `${word}: ${names.map(spelled).join(", ")}`);
  return item(`${moment(untilMs)} – ${listed.join("; ")}`);
}

/** A message that is not an object has one field, without a name. */
function spelled(field) {
  return field === "" ? "(the message itself)" : visible(field);
}

function item(words) {
  const made = document.createElement("li");
  made.textContent = words;
  return made;
}
