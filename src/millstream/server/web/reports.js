// Reports of the `profile` pipeline, each about one window of one stream. The JSON is untrusted input.
//
// {"stream", "since", "until", "rows", "bytes", "lagBytes", "offset", "closed", "expectations", "fields", "drift"}
//
// Memory is bounded: only the newest reports of the most recently reported streams are kept, and only what is shown.

const MOST_STREAMS = 1000;
const MOST_REPORTS = 360; // per stream: one hour at one report every ten seconds
const MOST_CHANGES = 20; // field changes per stream
const MOST_NAMES = 200; // per change
const LONGEST_NAME = 200;

export class Reports {
  /** By name, the most recently reported last: {name, reports, changes}. */
  #streams = new Map();
  /** Number of reports read, and of records that are not reports. */
  taken = 0;
  others = 0;

  /** Read the text of an array of records. */
  take(text) {
    for (const record of JSON.parse(text)) {
      const report = reportOf(record);
      if (report) this.#keep(report);
      else this.others += 1;
    }
  }

  #keep(report) {
    this.taken += 1;
    const { name } = report;
    const stream = this.#streams.get(name) ?? { name, reports: [], changes: [] };
    this.#streams.delete(name);
    this.#streams.set(name, stream);
    if (this.#streams.size > MOST_STREAMS) this.#streams.delete(this.#streams.keys().next().value);
    const isLate = report.untilMs < stream.reports.at(-1)?.untilMs;
    stream.reports.push(report);
    if (isLate) stream.reports.sort((one, other) => one.untilMs - other.untilMs);
    if (stream.reports.length > MOST_REPORTS) stream.reports.shift();
    if (report.drift) stream.changes.push({ untilMs: report.untilMs, ...report.drift });
    if (stream.changes.length > MOST_CHANGES) stream.changes.shift();
  }

  find(name) {
    return this.#streams.get(name);
  }

  /** All streams, largest lag first. */
  byLag() {
    const lag = (stream) => stream.reports.at(-1).lagBytes ?? -1;
    return [...this.#streams.values()].sort((one, other) => lag(other) - lag(one) || (one.name < other.name ? -1 : 1));
  }
}

/** Parse a record; null if it is not a report. */
function reportOf(record) {
  if (record === null || typeof record !== "object" || typeof record.stream !== "string") return null;
  const untilMs = time(record.until);
  const [rows, bytes] = [amount(record.rows), amount(record.bytes)];
  if (untilMs === null || rows === null || bytes === null) return null;
  const sinceMs = time(record.since);
  return {
    name: `/${record.stream.replace(/^\/+/, "")}`,
    untilMs,
    rows,
    bytes,
    perSecond: sinceMs !== null && untilMs > sinceMs ? (1000 * rows) / (untilMs - sinceMs) : null,
    lagBytes: amount(record.lagBytes),
    isClosed: record.closed === true,
    drift: driftOf(record.drift),
  };
}

function driftOf(drift) {
  if (drift === null || typeof drift !== "object") return null;
  const found = { added: names(drift.added), removed: names(drift.removed), changed: names(drift.changed) };
  return Object.values(found).some((list) => list.length) ? found : null;
}

function names(list) {
  if (!Array.isArray(list)) return [];
  return list.filter((name) => typeof name === "string").slice(0, MOST_NAMES).map((name) => name.slice(0, LONGEST_NAME));
}

function amount(value) {
  return Number.isFinite(value) && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : null;
}

function time(text) {
  const ms = typeof text === "string" ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? null : ms;
}
