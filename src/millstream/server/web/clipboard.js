// Copies text, and shows on the button that it did.

const SHOWN_MS = 1500;

/** Copy on a click of the button; `text` returns what to copy. */
export function copyOn(button, text) {
  button.addEventListener("click", () => copyWith(button, text()));
}

export async function copyWith(button, text) {
  const isCopied = await copy(text, button);
  const words = (button.dataset.words ??= button.textContent);
  button.textContent = isCopied ? "Copied" : "Not copied";
  // For screen readers; while a dialog is open they hear only what is in it.
  const told = button.closest("dialog, .stream").querySelector(".copied");
  told.textContent = isCopied ? "Copied to the clipboard." : "The browser did not copy it.";
  clearTimeout(button.timer);
  button.timer = setTimeout(() => (button.textContent = words), SHOWN_MS);
}

async function copy(text, near) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text, near);
  }
}

/** The older way, for pages that are served over plain HTTP from another machine: there is no clipboard object there. */
function copySelected(text, near) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  (near.closest("dialog") ?? document.body).append(field); // an open dialog lets nothing outside be selected
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  near.focus();
  return isCopied;
}
