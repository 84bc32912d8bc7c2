// The message log: a bounded list of entries, of which a window is in the document.
//
//   entries   [ . . . . . . . . . . . . . . . . ]   at most MAX_ENTRIES and MAX_BYTES; the oldest are dropped first
//   shown     [ .   . .     . . .   . . . .   . ]   those that match the filter
//   rows                        first ^     ^ last  at most WINDOW of them are elements, fewer while following
//
// Entries may arrive at any rate: they are drawn at most once per frame, and drawing takes at most a quarter of the time.

import { searchable } from "./contents.js";
import { startRowKeys } from "./rowkeys.js";
import { rowOf, showMore } from "./views.js";
import { count, many } from "./words.js";

const MAX_ENTRIES = 20_000;
const MAX_BYTES = 32 * 2 ** 20;
const WINDOW = 300;
const FOLLOWING_WINDOW = 100;
const STEP = 100; // rows added and removed when the user scrolls to an end of the window
const NEAR_PX = 400;
const SETTLING_MS = 500; // how long a scroll that began earlier may continue
const CHARACTER_PX = 7.55; // width of a character in the log's font
const MARGIN_PX = 120;
const TIME_PX = 98; // a column and the gap before it
const NARROW_MARGIN_PX = 26;

export class Log {
  #box;
  #newer;
  #note = element("p", "note");
  #rows = element("div", "rows");
  #end = element("p", "eof");
  #entries = [];
  #bytes = 0;
  #dropped = 0;
  #nextSeq = 0;
  #shown = [];
  #first = 0;
  #last = 0;
  #grown = new Set();
  #needle = "";
  #view = "plain";
  #frame = 0;
  #restUntilMs = 0;
  #topPx = 0;
  #following = true;
  #followedMs = 0;
  #entryOf = new WeakMap();
  #columns = 80;
  #remark = "";
  #mirror = null;
  #timed = false;

  /** `onFollow` is called when following starts or stops, `onCopy` with a button of an entry and the entry. */
  constructor(box, newer, { onFollow, onCopy }) {
    this.#box = box;
    this.#newer = newer;
    this.onFollow = onFollow;
    this.onCopy = onCopy;
    startRowKeys(box);
    this.#end.hidden = this.#note.hidden = true;
    box.replaceChildren(this.#note, this.#rows, this.#end);
    new ResizeObserver(() => this.#measure()).observe(box);
    box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    box.addEventListener("wheel", (event) => event.deltaY < 0 && this.#stopFollowing(), { passive: true });
    box.addEventListener("touchmove", () => this.#stopFollowing(), { passive: true });
    box.addEventListener("keydown", (event) => {
      if (["ArrowUp", "PageUp", "Home", "Enter"].includes(event.key)) this.#stopFollowing();
    });
    box.addEventListener("click", (event) => this.#clicked(event));
    newer.addEventListener("click", () => this.follow(true));
  }

  get following() {
    return this.#following;
  }

  clear() {
    this.#entries = [];
    this.#bytes = this.#dropped = 0;
    this.#remark = "";
    this.#end.hidden = true;
    this.#refilter();
  }

  add(entries, grown = null) {
    const matching = [];
    for (const entry of entries) {
      entry.seq = this.#nextSeq;
      this.#nextSeq += 1;
      entry.row = null;
      this.#entries.push(entry);
      this.#bytes += entry.size;
      if (this.#matches(entry)) matching.push(entry);
    }
    for (const entry of matching) this.#shown.push(entry);
    this.#mirror?.add(matching);
    if (grown?.row) this.#grown.add(grown);
    if (this.#entries.length > MAX_ENTRIES * 1.1 || this.#bytes > MAX_BYTES * 1.1) this.#trim();
    this.#schedule();
  }

  /** Show a remark above the first entry. */
  remark(words) {
    this.#remark = words;
    this.#schedule();
  }

  /** Show that the stream has ended. */
  finish(words) {
    this.#end.textContent = words;
    this.#end.hidden = false;
    this.#schedule();
  }

  show(view) {
    this.#view = view;
    this.#refilter();
  }

  /** Let another view show the entries, while the log's own box is hidden; null ends that. */
  mirrorTo(view) {
    this.#mirror = view;
    this.#box.hidden = view !== null;
    view?.reset(() => this.#shown);
  }

  /** Show when each entry arrived, or not. */
  showTimes(timed) {
    this.#timed = timed;
    this.#box.classList.toggle("timed", timed);
    this.#measure();
  }

  filter(needle) {
    this.#needle = needle.toLowerCase();
    this.#refilter();
  }

  follow(following) {
    this.#following = following;
    if (following) this.#followedMs = performance.now();
    this.onFollow(following);
    this.#schedule();
  }

  #measure() {
    if (this.#following) this.#schedule(); // the end stays in view when the box becomes lower
    const widthPx = this.#box.clientWidth;
    const marginPx = widthPx < 600 ? NARROW_MARGIN_PX : MARGIN_PX + (this.#timed ? TIME_PX : 0);
    const columns = Math.floor((widthPx - marginPx) / CHARACTER_PX);
    if (columns === this.#columns || widthPx === 0) return;
    this.#columns = columns;
    if (this.#view !== "plain") this.#refilter();
  }

  #stopFollowing() {
    if (this.#following && this.#box.scrollHeight > this.#box.clientHeight) this.follow(false);
  }

  #matches(entry) {
    return !this.#needle || searchable(entry).includes(this.#needle);
  }

  #refilter() {
    for (const entry of this.#shown) entry.row = null;
    this.#rows.replaceChildren();
    this.#shown = this.#entries.filter((entry) => this.#matches(entry));
    this.#first = this.#last = this.#following ? 0 : Math.max(0, this.#shown.length - WINDOW);
    this.#mirror?.reset(() => this.#shown);
    this.#schedule();
  }

  #trim() {
    let cut = 0;
    while (this.#entries.length - cut > MAX_ENTRIES || (this.#bytes > MAX_BYTES && cut < this.#entries.length - 1)) {
      this.#bytes -= this.#entries[cut].size;
      cut += 1;
    }
    this.#entries.splice(0, cut);
    this.#dropped += cut;
    const oldest = this.#entries[0].seq;
    let gone = this.#shown.findIndex((entry) => entry.seq >= oldest);
    if (gone < 0) gone = this.#shown.length;
    this.#removeRows(this.#first, Math.min(gone, this.#last));
    this.#shown.splice(0, gone);
    this.#first = Math.max(0, this.#first - gone);
    this.#last = Math.max(0, this.#last - gone);
  }

  // -- Drawing ---------------------------------------------------------------------------------

  #schedule() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      if (performance.now() < this.#restUntilMs) return this.#schedule();
      const begunMs = performance.now();
      this.#draw();
      const endMs = performance.now();
      this.#restUntilMs = endMs + 3 * (endMs - begunMs);
    });
  }

  #draw() {
    if (this.#mirror) return this.#notes();
    for (const entry of this.#grown) {
      if (entry.row) entry.row.replaceWith(this.#row(entry));
    }
    this.#grown.clear();
    const total = this.#shown.length;
    if (this.#following) {
      const from = Math.max(0, total - FOLLOWING_WINDOW);
      if (from >= this.#last) {
        this.#removeRows(this.#first, this.#last);
        this.#last = from;
      } else this.#removeRows(this.#first, from);
      this.#first = from;
    }
    if (this.#following || this.#last - this.#first < WINDOW) {
      const until = Math.min(total, this.#first + WINDOW);
      this.#rows.append(...this.#shown.slice(this.#last, until).map((entry) => this.#row(entry)));
      this.#last = until;
    }
    this.#notes();
    if (this.#following) this.#box.scrollTop = this.#box.scrollHeight;
    this.#topPx = this.#box.scrollTop;
  }

  #notes() {
    const older = `${many(this.#dropped, "older entry", "older entries")} dropped from this page`;
    const words = this.#dropped ? older : this.#remark;
    this.#note.hidden = !words || this.#first > 0;
    if (this.#note.textContent !== words) this.#note.textContent = words;
    const unseen = this.#mirror ? 0 : this.#shown.length - this.#last;
    this.#newer.hidden = this.#following;
    this.#newer.textContent = unseen > 0 ? `↓ ${count(unseen)} newer` : "↓ Latest";
  }

  #row(entry) {
    entry.row = rowOf(entry, this.#view, this.#columns);
    this.#entryOf.set(entry.row, entry);
    return entry.row;
  }

  #removeRows(from, to) {
    for (let at = from; at < to; at += 1) {
      this.#shown[at].row?.remove();
      this.#shown[at].row = null;
    }
  }

  // -- Scrolling -------------------------------------------------------------------------------

  #scrolled() {
    const box = this.#box;
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    const isAtEnd = below < 4 && this.#last === this.#shown.length;
    if (isAtEnd && !this.#following && box.scrollTop > this.#topPx) this.follow(true);
    else if (!isAtEnd && box.scrollTop < this.#topPx - 1) {
      if (performance.now() - this.#followedMs > SETTLING_MS) this.#stopFollowing();
      else this.#schedule();
    }
    this.#topPx = box.scrollTop;
    if (this.#following) return;
    if (box.scrollTop < NEAR_PX && this.#first > 0) this.#slide(-1);
    else if (below < NEAR_PX && this.#last < this.#shown.length) this.#slide(1);
  }

  /** Move the window by a step without moving the visible rows. */
  #slide(direction) {
    const middle = this.#shown[Math.floor((this.#first + this.#last) / 2)];
    const beforePx = middle?.row?.offsetTop ?? 0;
    if (direction < 0) {
      const from = Math.max(0, this.#first - STEP);
      this.#rows.prepend(...this.#shown.slice(from, this.#first).map((entry) => this.#row(entry)));
      this.#first = from;
      const until = Math.min(this.#last, from + WINDOW);
      this.#removeRows(until, this.#last);
      this.#last = until;
    } else {
      const until = Math.min(this.#shown.length, this.#last + STEP);
      this.#rows.append(...this.#shown.slice(this.#last, until).map((entry) => this.#row(entry)));
      this.#last = until;
      const from = Math.max(this.#first, until - WINDOW);
      this.#removeRows(this.#first, from);
      this.#first = from;
    }
    this.#notes();
    if (middle?.row) this.#box.scrollTop += middle.row.offsetTop - beforePx;
    this.#topPx = this.#box.scrollTop;
  }

  #clicked(event) {
    const button = event.target.closest?.("button");
    const row = button?.closest(".row");
    const entry = row && this.#entryOf.get(row);
    if (!entry) return;
    if (!button.matches(".more")) return this.onCopy(button, entry);
    showMore(entry);
    const fresh = this.#row(entry);
    row.replaceWith(fresh);
    (fresh.querySelector(".more") ?? this.#box).focus({ preventScroll: true });
  }
}

function element(name, className) {
  const made = document.createElement(name);
  made.className = className;
  return made;
}
