// Shows why the server refused something, and offers to enter a token where one is missing or not enough.

import { openDialog } from "./dialogs.js";

/** Add a button to an error message that another token may resolve. */
export function offerToken(line, error) {
  if (error.status !== 401 && !error.isForbidden) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = error.status === 401 ? "Enter a token" : "Enter another token";
  button.addEventListener("click", () => openDialog("token"));
  line.append(" ", button);
}
