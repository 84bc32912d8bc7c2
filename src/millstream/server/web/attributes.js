// The attributes of a stream in a form: a row for each, with its name and its value. What looks like a number, true or
// false is one; quotes make it text. Only what was changed is sent, so that attributes set by others stay.

import { WrongInput } from "./dialogs.js";

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NOTE = "change-attributes-wrong";

const list = document.getElementById("attributes");
let before = new Map(); // name -> value as shown

export function startAttributes() {
  document.getElementById("attribute-add").addEventListener("click", () => addRow("", "").querySelector("input").focus());
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const row = button.closest("li");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("input") ?? document.getElementById("attribute-add")).focus();
  });
}

export function showAttributes(attributes) {
  before = new Map(Object.entries(attributes).map(([name, value]) => [name, shown(value)]));
  list.replaceChildren();
  for (const [name, value] of before) addRow(name, value);
}

/** The value of `Stream-Attributes` that makes the changes, or null if there are none. */
export function changedAttributes() {
  const now = read();
  const changes = [];
  for (const [name, { text }] of now) {
    if (before.get(name) !== text) changes.push(`${JSON.stringify(name)}:${written(text)}`);
  }
  for (const name of before.keys()) {
    if (!now.has(name)) changes.push(`${JSON.stringify(name)}:null`);
  }
  return changes.length ? ascii(`{${changes.join(",")}}`) : null;
}

/** The rows by name; raises what is wrong with one. */
function read() {
  const found = new Map();
  for (const row of list.children) {
    const [name, value] = row.querySelectorAll("input");
    if (name.value === "" && value.value === "") continue;
    if (name.value === "") throw new WrongInput([[name, "An attribute needs a name."]]);
    if (found.has(name.value)) throw new WrongInput([[name, "There is another attribute of this name."]]);
    found.set(name.value, { text: value.value });
  }
  return found;
}

function addRow(name, value) {
  const row = document.createElement("li");
  const remove = document.createElement("button");
  remove.type = "button";
  remove.textContent = "×";
  remove.title = remove.ariaLabel = "Remove this attribute";
  row.append(field("Name of the attribute", name, "name"), field("Value of the attribute", value, "value"), remove);
  list.append(row);
  return row;
}

function field(label, value, placeholder) {
  const input = document.createElement("input");
  Object.assign(input, { value, placeholder, autocomplete: "off", spellcheck: false, ariaLabel: label });
  input.setAttribute("aria-describedby", NOTE);
  return input;
}

function isLiteral(text) {
  return NUMBER.test(text) || text === "true" || text === "false";
}

function isQuoted(text) {
  if (!text.startsWith('"')) return false;
  try {
    return typeof JSON.parse(text) === "string";
  } catch {
    return false;
  }
}

/** A value as it is edited: text that would be read as something else is quoted. */
function shown(value) {
  if (typeof value !== "string") return String(value);
  return isLiteral(value) || isQuoted(value) ? JSON.stringify(value) : value;
}

function written(text) {
  return isLiteral(text) || isQuoted(text) ? text : JSON.stringify(text);
}

/** JSON that a header can carry. */
function ascii(json) {
  return json.replace(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
