// What pipelines report of themselves (`--report`). The JSON is untrusted input.
//
// {"event", "pipeline", "source", "target", "run", "host", "startedAt", "at", "batchAt", "withinSeconds", "error",
//  "rows", "batches", "deadLetters", "lateRows", "duplicates", "expectations", "lagBytes", "seconds"}
//
// Runs of one pipeline (verb, source and target) follow each other; counts begin at zero with each. Memory is bounded:
// only the newest reports of the pipelines that reported last are kept, and only what is shown.

const MOST_PIPELINES = 200;
const MOST_POINTS = 360; // per pipeline
const MOST_RULES = 50;
const LONGEST = 300;
const SILENCES = 3; // so many times the promised interval without a report is too long

const STATES = { start: "running", batch: "running", alive: "running", done: "done", stopped: "stopped", failed: "failed" };
const URGENCY = ["failed", "silent", "running", "stopped", "done"];

export class Runs {
  /** By key, the one that reported last is the last: {key, newest, points, heardMs}. */
  #pipelines = new Map();
  /** Number of reports read, and of records that are not reports. */
  taken = 0;
  others = 0;

  /** Read the text of an array of records; `isNew` if they have just been written. */
  take(text, isNew) {
    for (const record of JSON.parse(text)) {
      const report = reportOf(record);
      if (report) this.#keep(report, isNew);
      else this.others += 1;
    }
  }

  #keep(report, isNew) {
    this.taken += 1;
    const { key } = report;
    const pipeline = this.#pipelines.get(key) ?? { key, newest: null, points: [] };
    this.#pipelines.delete(key);
    this.#pipelines.set(key, pipeline);
    if (this.#pipelines.size > MOST_PIPELINES) this.#pipelines.delete(this.#pipelines.keys().next().value);
    pipeline.points.push({
      atMs: report.atMs,
      lagBytes: report.lagBytes,
      perSecond: rowsPerSecond(report, pipeline.newest),
      setAside: report.rows === null ? null : (report.deadLetters ?? 0) + (report.lateRows ?? 0),
    });
    if (pipeline.points.length > MOST_POINTS) pipeline.points.shift();
    pipeline.newest = report;
    // Another machine's clock may differ from ours, so what has just been written is dated by ours.
    pipeline.heardMs = isNew ? Date.now() : Math.min(report.atMs, Date.now());
  }

  find(key) {
    return this.#pipelines.get(key);
  }

  /** All pipelines: those that need a person first, then by lag. */
  byUrgency() {
    const rank = (one) => URGENCY.indexOf(stateOf(one));
    const lag = ({ newest }) => newest.lagBytes ?? -1;
    return [...this.#pipelines.values()].sort((one, other) => rank(one) - rank(other) || lag(other) - lag(one) || (one.key < other.key ? -1 : 1));
  }
}

/** running, done, stopped, failed, or silent: it should have reported again long ago. */
export function stateOf({ newest, heardMs }) {
  const said = STATES[newest.event];
  const isLate = Date.now() - heardMs > SILENCES * newest.withinMs;
  return said === "running" && isLate ? "silent" : said;
}

function rowsPerSecond(report, before) {
  if (report.rows === null) return null;
  const isSame = before !== null && before.run === report.run && before.rows !== null;
  const [rows, sinceMs] = isSame ? [report.rows - before.rows, before.atMs] : [report.rows, report.startedMs];
  return sinceMs !== null && report.atMs > sinceMs && rows >= 0 ? (1000 * rows) / (report.atMs - sinceMs) : null;
}

/** Parse a record; null if it is not a report. */
function reportOf(record) {
  if (record === null || typeof record !== "object") return null;
  if (typeof record.event !== "string" || !Object.hasOwn(STATES, record.event)) return null;
  const [pipeline, source, run] = [words(record.pipeline), words(record.source), words(record.run)];
  const atMs = time(record.at);
  if (pipeline === null || source === null || run === null || atMs === null) return null;
  const target = words(record.target);
  return {
    key: JSON.stringify([pipeline, source, target]),
    event: record.event,
    pipeline,
    source,
    target,
    run,
    host: words(record.host),
    error: words(record.error),
    atMs,
    startedMs: time(record.startedAt),
    batchMs: time(record.batchAt),
    withinMs: 1000 * (amount(record.withinSeconds) || 30),
    rows: amount(record.rows),
    batches: amount(record.batches),
    deadLetters: amount(record.deadLetters),
    lateRows: amount(record.lateRows),
    duplicates: amount(record.duplicates),
    unmet: unmetOf(record.expectations),
    lagBytes: amount(record.lagBytes),
    busySeconds: amount(record.seconds),
  };
}

/** The rules that some records did not meet, as [name, number] pairs. */
function unmetOf(counts) {
  if (counts === null || typeof counts !== "object") return [];
  const found = Object.entries(counts).filter(([, number]) => amount(number));
  return found.slice(0, MOST_RULES).map(([name, number]) => [name.slice(0, LONGEST), number]);
}

function words(text) {
  return typeof text === "string" ? text.slice(0, LONGEST) : null;
}

function amount(value) {
  return Number.isFinite(value) && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : null;
}

function time(text) {
  const ms = typeof text === "string" ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? null : ms;
}
