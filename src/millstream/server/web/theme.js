// Theme: light, dark, or the system's setting.

const KEY = "millstream-theme";
const THEMES = { auto: "light dark", light: "light", dark: "dark" };

export function startTheme(button) {
  const names = Object.keys(THEMES);
  let chosen = localStorage.getItem(KEY);
  const use = (name) => {
    chosen = name in THEMES ? name : "auto";
    localStorage.setItem(KEY, chosen);
    document.documentElement.style.colorScheme = THEMES[chosen];
    button.textContent = `Theme: ${chosen}`;
  };
  button.addEventListener("click", () => use(names[(names.indexOf(chosen) + 1) % names.length]));
  use(chosen ?? "auto");
}
