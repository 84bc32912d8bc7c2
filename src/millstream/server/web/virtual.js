// A list of any length in which only the visible rows are elements. All rows have the same height.

const SPARE_ROWS = 6; // above and below the visible rows

export class VirtualList {
  #box;
  #space = document.createElement("div");
  #rows = new Map(); // index -> element
  #frame = 0;
  #items = [];
  #active = -1;
  #on;

  /** `on` has fill(element, item), keyOf(item), open(item), isOpen(item), turn(key, items, index), which gives an index
   * or null, leave(), for the arrow key that goes up from the first row, and drawn(), after every change of the rows. */
  constructor(box, rowPx, on) {
    this.#box = box;
    this.rowPx = rowPx;
    this.#on = on;
    this.#space.className = "space";
    this.#space.role = "presentation";
    box.replaceChildren(this.#space);
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    box.addEventListener("keydown", (event) => this.#pressed(event));
    box.addEventListener("click", (event) => this.#clicked(event));
    box.addEventListener("focus", () => this.#active < 0 && this.#items.length && this.#activate(this.#firstVisible()));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  set(items) {
    const active = this.#items[this.#active];
    this.#items = items;
    if (active) {
      const key = this.#on.keyOf(active);
      this.#active = items.findIndex((item) => this.#on.keyOf(item) === key);
    }
    this.draw();
  }

  /** Focus the list at its first row. */
  enter() {
    if (!this.#items.length) return;
    this.#activate(0);
    this.#box.focus();
  }

  openFirst() {
    if (this.#items.length) this.#open(0);
  }

  /** The items that can be seen. */
  visible() {
    const { scrollTop, clientHeight } = this.#box;
    return this.#items.slice(Math.floor(scrollTop / this.rowPx), Math.ceil((scrollTop + clientHeight) / this.rowPx));
  }

  /** Schedule a redraw: items were added or changed. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const { scrollTop, clientHeight } = this.#box;
    this.#space.style.height = `${this.#items.length * this.rowPx}px`;
    const from = Math.max(0, Math.floor(scrollTop / this.rowPx) - SPARE_ROWS);
    const to = Math.min(this.#items.length, Math.ceil((scrollTop + clientHeight) / this.rowPx) + SPARE_ROWS);
    const idle = [];
    let hasMoved = false;
    for (const [index, row] of this.#rows) {
      if (index < from || index >= to) {
        this.#rows.delete(index);
        idle.push(row);
      }
    }
    for (let index = from; index < to; index += 1) {
      let row = this.#rows.get(index);
      if (!row) {
        row = idle.pop() ?? this.#makeRow();
        this.#rows.set(index, row);
        hasMoved = true;
      }
      this.#fill(row, index);
    }
    for (const row of idle) row.remove();
    if (hasMoved) this.#space.replaceChildren(...this.#inOrder()); // screen readers use the document order
    const active = this.#rows.has(this.#active) ? `item-${this.#active}` : "";
    if (active) this.#box.setAttribute("aria-activedescendant", active);
    else this.#box.removeAttribute("aria-activedescendant");
    this.#on.drawn();
  }

  #makeRow() {
    const row = document.createElement("div");
    row.className = "item";
    return row;
  }

  #inOrder() {
    return [...this.#rows].sort(([one], [other]) => one - other).map(([, row]) => row);
  }

  #fill(row, index) {
    const item = this.#items[index];
    row.id = `item-${index}`;
    row.dataset.index = index;
    row.style.transform = `translateY(${index * this.rowPx}px)`;
    row.ariaSetSize = this.#items.length;
    row.ariaPosInSet = index + 1;
    row.ariaSelected = this.#on.isOpen(item);
    row.classList.toggle("active", index === this.#active);
    this.#on.fill(row, item);
  }

  #firstVisible() {
    return Math.min(this.#items.length - 1, Math.ceil(this.#box.scrollTop / this.rowPx));
  }

  #activate(index) {
    this.#active = Math.max(0, Math.min(this.#items.length - 1, index));
    const top = this.#active * this.rowPx;
    const { scrollTop, clientHeight } = this.#box;
    if (top < scrollTop) this.#box.scrollTop = top;
    else if (top + this.rowPx > scrollTop + clientHeight) this.#box.scrollTop = top + this.rowPx - clientHeight;
    this.draw();
  }

  #pressed(event) {
    if (!this.#items.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#box.clientHeight / this.rowPx) - 1);
    const to = {
      ArrowDown: this.#active + 1,
      ArrowUp: this.#active - 1,
      PageDown: this.#active + page,
      PageUp: this.#active - page,
      Home: 0,
      End: this.#items.length - 1,
    }[event.key];
    const turned = this.#on.turn(event.key, this.#items, this.#active);
    if (event.key === "ArrowUp" && this.#active <= 0) this.#on.leave();
    else if (to !== undefined) this.#activate(to);
    else if (turned !== null) this.#activate(turned);
    else if (event.key === "Enter" || event.key === " ") this.#open(this.#active);
    else return;
    event.preventDefault();
  }

  #clicked(event) {
    const row = event.target.closest(".item");
    if (row) this.#open(Number(row.dataset.index));
  }

  #open(index) {
    if (!this.#items[index]) return;
    this.#activate(index);
    this.#on.open(this.#items[index]);
  }
}
