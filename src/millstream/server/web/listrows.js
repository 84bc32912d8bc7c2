// A row of the list: a stream by its whole name, or a folder or stream of the tree, indented by its level.

import { visible } from "./visible.js";
import { ago, bytes, many } from "./words.js";

const INDENT_PX = 16;
const DEEPEST = 8; // levels below this are indented no further

/** Fill the element of a row; `shown` is a stream, or a row of the tree. */
export function fillRow(row, shown) {
  const isTree = "level" in shown;
  const item = isTree ? shown.item : shown;
  const { twist, path, details, when } = (row.parts ??= partsOf(row));
  row.role = isTree ? "treeitem" : "option";
  row.ariaLevel = isTree ? shown.level : null;
  row.ariaExpanded = isTree && shown.folder ? shown.isOpen : null;
  if (isTree) [row.ariaPosInSet, row.ariaSetSize] = shown.place;
  row.style.paddingLeft = isTree ? `${12 + Math.min(shown.level - 1, DEEPEST) * INDENT_PX}px` : "";
  row.title = visible(shown.path);
  row.classList.toggle("is-closed", Boolean(item?.closed));
  row.classList.toggle("in-tree", isTree);
  write(twist, shown.folder ? (shown.isOpen ? "▾" : "▸") : "");
  write(path, visible(isTree ? shown.label : shown.path));
  write(details, visible(item ? aboutStream(item) : aboutFolder(shown.folder)));
  const { lastWriteMs } = item ?? shown.folder;
  write(when, lastWriteMs ? ago(lastWriteMs) : "");
}

function partsOf(row) {
  const [line, twist, path, about, details, when] = ["name-line", "twist", "path", "about-item", "details", "when"].map((name) => {
    const part = document.createElement("span");
    part.className = name;
    return part;
  });
  twist.ariaHidden = true;
  line.append(twist, path);
  about.append(details, when);
  row.replaceChildren(line, about);
  return { twist, path, details, when };
}

function write(part, words) {
  if (part.textContent !== words) part.textContent = words;
}

function aboutStream(item) {
  const inherited = item.inheritedBytes ? ` + ${bytes(item.inheritedBytes)} inherited` : "";
  const parts = [`${bytes(item.bytes)}${inherited}`];
  if (item.forkedFrom || item.inheritedBytes) parts.push("fork");
  if (item.closed) parts.push("closed");
  parts.push(item.contentType);
  return parts.join(" · ");
}

function aboutFolder(folder) {
  return `${many(folder.count, "stream")} · ${bytes(folder.bytes)}`;
}
