// Offsets: `%016d_%016d`, a generation and a position in bytes. The page shows the position.

const FORM = /^(\d{16})_(\d{16})$/;

export function position(offset) {
  const parts = FORM.exec(offset ?? "");
  return parts ? Number(parts[2]) : null;
}

export function moved(offset, to) {
  return `${offset.slice(0, 17)}${String(Math.max(0, to)).padStart(16, "0")}`;
}

/** Parse user input: a position or a complete offset. */
export function parseOffset(text, like) {
  const typed = text.trim();
  return /^\d+$/.test(typed) && like ? moved(like, Number(typed)) : typed;
}
