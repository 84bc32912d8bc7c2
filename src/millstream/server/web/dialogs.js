// Dialogs: a form, the action it submits, and the error message if the action fails.

import { Problem } from "./server.js";

/** Input that cannot be sent: words for each field, which are shown beside it. */
export class WrongInput extends Problem {
  /** `fields` are pairs of an element and words; its note is the element that it is described by. */
  constructor(fields) {
    super(400, fields[0][1]);
    this.fields = fields;
  }
}

/** Open a dialog; `values` fill its fields by name, `of` is the name of the stream it is about. */
export function openDialog(id, values = {}, of = "") {
  const dialog = document.getElementById(id);
  const form = dialog.querySelector("form");
  form.reset();
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  for (const code of dialog.querySelectorAll(".of")) code.textContent = of;
  showError(form, null);
  dialog.showModal();
}

/** Run `act(values)` when the form of a dialog is submitted; the dialog closes when that succeeds. */
export function onAnswer(id, act) {
  const dialog = document.getElementById(id);
  const form = dialog.querySelector("form");
  dialog.querySelector('button[value="cancel"]').addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector(".answers button:last-child");
    if (button.disabled) return;
    button.disabled = true;
    showError(form, null);
    try {
      await act(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (error) {
      showError(form, error);
    } finally {
      button.disabled = false;
    }
  });
}

export function showError(form, error, { focuses = true } = {}) {
  const line = form.querySelector(".problem");
  const isOfFields = error instanceof WrongInput;
  line.hidden = !error || isOfFields;
  line.textContent = line.hidden ? "" : error.message;
  showWrong(form, isOfFields ? error.fields : []);
  if (isOfFields && focuses) error.fields[0][0].focus();
  if (error && !(error instanceof Problem)) throw error;
}

/** Show what is wrong beside each field. */
function showWrong(form, fields) {
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const note of form.querySelectorAll(".wrong")) note.hidden = true;
  for (const [field, words] of fields) {
    field.ariaInvalid = "true";
    const note = document.getElementById(field.getAttribute("aria-describedby"));
    note.textContent = words;
    note.hidden = false;
  }
}
