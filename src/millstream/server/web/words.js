// Formats numbers and times for people.

const plain = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const count = (number) => plain.format(number);

export function many(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = number;
  for (; left >= 1024 && at < units.length - 1; at += 1) left /= 1024;
  return `${short.format(left)} ${units[at]}`;
}

export function rate(number) {
  if (number >= 1e6) return `${short.format(number / 1e6)}M`;
  return number >= 1e4 ? `${short.format(number / 1e3)}k` : short.format(number);
}

export function milliseconds(number) {
  return number >= 1000 ? `${short.format(number / 1000)} s` : `${short.format(number)} ms`;
}

/** A length of time in its two largest units. */
export function duration(seconds) {
  const units = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.min(units.length - 1, Math.max(0, units.findIndex(([, size]) => seconds >= size)));
  let left = seconds < 1 ? 0 : Math.floor(seconds);
  if (left === 0) return "0 s";
  const parts = [];
  for (const [unit, size] of units.slice(first, first + 2)) {
    const number = Math.floor(left / size);
    if (number) parts.push(`${count(number)} ${unit}`);
    left -= number * size;
  }
  return parts.join(" ");
}

/** How long ago a time was, in its largest unit. */
export function ago(ms) {
  const seconds = Math.max(0, Math.floor((Date.now() - ms) / 1000));
  if (seconds < 5) return "now";
  return `${duration(seconds).split(" ").slice(0, 2).join(" ")} ago`;
}

const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const days = new Intl.DateTimeFormat("en", { month: "short", day: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});

/** A time of today by the clock, an earlier one by its day and the clock, as narrow as can be. */
export function clock(ms) {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  return isToday ? hours.format(ms) : `${days.format(ms)} ${hours.format(ms).slice(0, 5)}`;
}

/** A time to the millisecond. */
export const instant = (ms) => whole.format(ms);

/** A time as a field for one has it: local, to the second. */
export function fieldTime(ms) {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

export function moment(ms) {
  const when = new Date(ms);
  const day = when.toDateString() === new Date().toDateString() ? {} : { dateStyle: "medium" };
  return new Intl.DateTimeFormat(undefined, { timeStyle: "medium", ...day }).format(when);
}
