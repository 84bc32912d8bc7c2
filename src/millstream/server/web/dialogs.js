// Dialogs: a question, an answer that is tried, and the refusal in words if it is refused.

import { Problem } from "./server.js";

/** Open a dialog; `values` fill its fields by name, `of` names what it is about. */
export function openDialog(id, values = {}, of = "") {
  const dialog = document.getElementById(id);
  const form = dialog.querySelector("form");
  form.reset();
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  for (const code of dialog.querySelectorAll(".of")) code.textContent = of;
  tell(form, null);
  dialog.showModal();
}

/** Let `act(values)` do what a dialog is for; it closes when that has succeeded. */
export function onAnswer(id, act) {
  const dialog = document.getElementById(id);
  const form = dialog.querySelector("form");
  dialog.querySelector('button[value="cancel"]').addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector(".answers button:last-child");
    if (button.disabled) return;
    button.disabled = true;
    tell(form, null);
    try {
      await act(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (error) {
      tell(form, error);
    } finally {
      button.disabled = false;
    }
  });
}

export function tell(form, error) {
  const line = form.querySelector(".problem");
  line.hidden = !error;
  line.textContent = error ? error.message : "";
  if (error && !(error instanceof Problem)) throw error;
}
