// The dialog that copies: the stream's URL, its next offset, and the stream as curl and as Python.

import { copyOn } from "./clipboard.js";
import { openDialog } from "./dialogs.js";
import { parseOffset } from "./offsets.js";
import { streamUrl, token } from "./server.js";
import { snippets } from "./snippets.js";
import { visible } from "./visible.js";

const $ = (id) => document.getElementById(id);

/** `current` returns the open stream, `joined` the text that the joined view shows, or "". */
export function startCopying(current, joined) {
  $("copy-open").addEventListener("click", () => {
    if (!current()?.kind) return;
    openDialog("copy", {}, visible(current().name));
    $("copies").replaceChildren(...copies(current(), joined()).map(([label, text]) => row(label, text)));
  });
  $("copy").querySelector('button[value="cancel"]').addEventListener("click", () => $("copy").close());
}

function copies(stream, joined) {
  const url = streamUrl(stream.name);
  const { contentType, tail } = stream.about;
  const typed = $("message").value;
  const message = stream.kind === "text" && typed && $("newline").checked ? `${typed}\n` : typed;
  const target = { url, kind: stream.kind, contentType, message, offset: chosenOffset(tail), hasToken: Boolean(token.get()) };
  const text = joined ? [["Joined text", joined]] : [];
  return [["URL", url], ["Next offset", tail], ...text, ...snippets(target)];
}

/** The offset that *From* selects; the last messages have none that is known before they are read. */
function chosenOffset(tail) {
  const chosen = { now: "now", offset: parseOffset($("from-offset").value || "-1", tail) };
  return chosen[$("from").value] ?? "-1";
}

function row(label, text) {
  const item = document.createElement("li");
  const name = document.createElement("span");
  name.textContent = label;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.ariaLabel = `Copy: ${label}`;
  button.dataset.copies = label;
  copyOn(button, () => text);
  const shown = document.createElement("pre");
  shown.textContent = visible(text.length > 2000 ? `${text.slice(0, 2000)}…` : text.trimEnd());
  shown.tabIndex = 0; // long ones scroll
  shown.role = "region";
  shown.ariaLabel = label;
  item.append(name, button, shown);
  return item;
}
