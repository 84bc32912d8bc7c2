// Dialogs: a form, the action it submits, and the error message if the action fails.

import { Problem } from "./server.js";

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

export function showError(form, error) {
  const line = form.querySelector(".problem");
  line.hidden = !error;
  line.textContent = error ? error.message : "";
  if (error && !(error instanceof Problem)) throw error;
}
