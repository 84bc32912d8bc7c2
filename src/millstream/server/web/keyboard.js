// Keys that work everywhere on the page: `/` goes to the search, `?` shows all keys.

const $ = (id) => document.getElementById(id);

export function startKeyboard() {
  const help = $("help");
  $("help-open").addEventListener("click", () => help.showModal());
  help.querySelector('button[value="cancel"]').addEventListener("click", () => help.close());
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") showSearch();
    else if (event.key === "?") help.showModal();
    else return;
    event.preventDefault();
  });
}

/** Focus the search; in a narrow window it is only on the overview. */
function showSearch() {
  if ($("query").checkVisibility()) return $("query").focus();
  // The view changes and takes the focus with this event; listeners are called in the order in which they were added.
  window.addEventListener("hashchange", () => $("query").focus(), { once: true });
  location.hash = "#/";
}
