// The buttons of messages by keyboard: Enter in the log selects the last visible message's *Copy*, the arrow keys move
// between messages and their two buttons, Escape returns to the log. One stop for the tab key instead of hundreds.

const MOVES = {
  ArrowUp: (row) => row.previousElementSibling,
  ArrowDown: (row) => row.nextElementSibling,
};

export function startRowKeys(box) {
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === box) {
      if (event.key === "Enter") focusIn(lastVisible(box), ".copy", event);
      return;
    }
    const button = event.target.closest(".copy, .place");
    if (!button) return;
    const row = button.closest(".row");
    if (event.key in MOVES) focusIn(MOVES[event.key](row), button.matches(".place") ? ".place" : ".copy", event);
    else if (event.key === "ArrowLeft") focusIn(row, "button.place", event);
    else if (event.key === "ArrowRight") focusIn(row, ".copy", event);
    else if (event.key === "Escape") focusIn(box.parentElement, `#${box.id}`, event);
  });
}

function focusIn(place, selector, event) {
  event.preventDefault();
  const found = place?.querySelector(selector);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: "nearest" });
}

function lastVisible(box) {
  const bottomPx = box.scrollTop + box.clientHeight;
  const rows = [...box.querySelectorAll(".row")];
  return rows.findLast((row) => row.offsetTop + row.offsetHeight <= bottomPx + 1) ?? rows[0];
}
