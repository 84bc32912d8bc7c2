// Streams as a tree of paths. A folder knows the number, the size and the last write of all streams below it.
//
// Folders end with a slash, so that the stream /chat and the folder /chat/ are different. A folder that contains only
// one thing is not a level of its own: /jobs/17/log is one row, until there is a /jobs/18.

export class Tree {
  #root = folderAt("/", null);
  #leaves = new Map(); // path -> {item}

  /** Add a stream; streams come in the order of their names. */
  add(item) {
    let folder = this.#root;
    let from = 1; // after the first slash
    for (let slash = item.path.indexOf("/", from); slash !== -1; slash = item.path.indexOf("/", from)) {
      count(folder, item);
      const path = item.path.slice(0, slash + 1);
      folder = folder.folders.get(path) ?? added(folder, path);
      from = slash + 1;
    }
    count(folder, item);
    const leaf = { item, parent: folder };
    folder.children.push(leaf);
    this.#leaves.set(item.path, leaf);
  }

  /** Show newer properties of a stream. */
  replace(item) {
    const leaf = this.#leaves.get(item.path);
    const grown = item.bytes - leaf.item.bytes;
    leaf.item = item;
    for (let folder = leaf.parent; folder; folder = folder.parent) {
      folder.bytes += grown;
      folder.lastWriteMs = Math.max(folder.lastWriteMs, item.lastWriteMs);
    }
  }

  /** Give the visible rows; `isOpen(folder)` says which folders are open, `order` compares siblings. */
  rows(isOpen, order) {
    const rows = [];
    const visit = (parent, level) => {
      const children = order ? [...parent.children].sort((one, other) => order(of(one), of(other))) : parent.children;
      children.forEach((child, at) => {
        const folder = only(child);
        const item = folder.item ?? null;
        const path = item ? item.path : folder.path;
        const row = { key: item ? path : `folder ${path}`, path, level, item, place: [at + 1, children.length] };
        row.label = path.slice(level === 1 ? 0 : parent.path.length);
        row.folder = item ? null : folder;
        row.isOpen = !item && isOpen(folder, children.length === 1);
        rows.push(row);
        if (row.isOpen) visit(folder, level + 1);
      });
    };
    visit(this.#root, 1);
    return rows;
  }
}

function folderAt(path, parent) {
  return { path, parent, folders: new Map(), children: [], first: null, count: 0, bytes: 0, lastWriteMs: 0 };
}

function added(parent, path) {
  const folder = folderAt(path, parent);
  parent.folders.set(path, folder);
  parent.children.push(folder);
  return folder;
}

function count(folder, item) {
  folder.first ??= item;
  folder.count += 1;
  folder.bytes += item.bytes;
  folder.lastWriteMs = Math.max(folder.lastWriteMs, item.lastWriteMs);
}

const of = (child) => child.item ?? child;

/** Follow folders that contain only one thing. */
function only(child) {
  let found = child;
  while (!found.item && found.children.length === 1) found = found.children[0];
  return found;
}
