// A small line chart: the newest value is at the right, zero at the bottom.
//
// Both ways to draw take values with their times: `drawUntil` for a span of time that ends now, `drawOver` from the
// first value to the last.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 80;

export class Chart {
  #value = made("output", "value");
  #top = made("span", "top-mark");
  #area = document.createElementNS(SVG, "path");
  #line = document.createElementNS(SVG, "path");
  #svg = document.createElementNS(SVG, "svg");
  #title;
  #words;
  #thousand;
  #from = made("span", "");
  #until = made("span", "");

  /** `words` formats a value; `thousand` is the ratio of adjacent units: 1024 for bytes. */
  constructor(title, words, thousand = 1000) {
    this.#thousand = thousand;
    this.#title = title;
    this.#words = words;
    this.#svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.#svg.setAttribute("preserveAspectRatio", "none");
    this.#svg.setAttribute("role", "img");
    this.#svg.setAttribute("aria-label", title);
    this.#area.setAttribute("class", "area");
    this.#line.setAttribute("class", "line");
    this.#svg.append(this.#area, this.#line);
    const caption = made("figcaption", "");
    caption.append(title, this.#value);
    const plot = made("div", "plot");
    plot.append(this.#top, this.#svg);
    const axis = made("div", "axis");
    axis.append(this.#from, made("span", "spring"), this.#until);
    this.element = made("figure", "chart");
    this.element.append(caption, plot, axis);
    this.#draw([]);
  }

  /** Draw [milliseconds, value] pairs in time order over the `spanMs` before `nowMs`; null is a gap. */
  drawUntil(points, nowMs, spanMs) {
    this.#draw(points.map(([ms, value]) => [1 - (nowMs - ms) / spanMs, value]));
    this.#from.textContent = `${Math.round(spanMs / 60_000)} min ago`;
    this.#until.textContent = "now";
    this.#svg.setAttribute("aria-label", `${this.#title}: ${this.#value.textContent} now`);
  }

  /** Draw [milliseconds, value] pairs in time order; `words` formats the labels of the axis. */
  drawOver(points, words) {
    const [first, last] = [points.at(0)?.[0] ?? 0, points.at(-1)?.[0] ?? 0];
    this.#draw(points.map(([ms, value]) => [last > first ? (ms - first) / (last - first) : 1, value]));
    this.#from.textContent = points.length > 1 ? words(first) : "";
    this.#until.textContent = points.length ? words(last) : "";
    this.#svg.setAttribute("aria-label", `${this.#title}: ${this.#value.textContent} at ${this.#until.textContent}`);
  }

  #draw(points) {
    const known = points.map(([, value]) => value).filter((value) => value !== null);
    const top = niceAbove(Math.max(1, ...known), this.#thousand);
    const lines = [];
    let run = [];
    for (const [left, value] of points) {
      if (value === null) {
        if (run.length) lines.push(run);
        run = [];
      } else run.push([(left * WIDTH).toFixed(1), (HEIGHT - 1 - (value / top) * (HEIGHT - 4)).toFixed(1)]);
    }
    if (run.length) lines.push(run);
    const drawn = lines.map((points) => `M${points.map((point) => point.join(" ")).join("L")}`);
    this.#line.setAttribute("d", drawn.join(""));
    const filled = lines.map((points, at) => `${drawn[at]}V${HEIGHT}H${points[0][0]}Z`);
    this.#area.setAttribute("d", filled.join(""));
    const now = points.at(-1)?.[1] ?? null;
    this.#value.textContent = now === null ? "–" : this.#words(now);
    this.#top.textContent = this.#words(top);
  }
}

function niceAbove(value, thousand) {
  const unit = thousand ** Math.floor(Math.log(value) / Math.log(thousand));
  const marks = [1, 2, 5, 10, 20, 50, 100, 200, 500, thousand, 2 * thousand];
  return marks.map((mark) => mark * unit).find((mark) => mark >= value);
}

function made(name, className) {
  const element = document.createElement(name);
  if (className) element.className = className;
  return element;
}
