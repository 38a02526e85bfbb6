/** Light, dark, or as the system is. */

const PLACE = "rhapsode-theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

export function mountTheme(toggle) {
  const use = (theme) => {
    document.documentElement.dataset.theme = theme;
    toggle.textContent = { system: "◐", light: "○", dark: "●" }[theme];
    toggle.setAttribute("aria-label", `Colours: ${theme}. Press to change.`);
    toggle.title = `Colours: ${theme}`;
    dispatchEvent(new Event("theme")); // what is drawn by hand is drawn anew
  };
  use(localStorage.getItem(PLACE) ?? "system");
  toggle.addEventListener("click", () => {
    const theme = NEXT[document.documentElement.dataset.theme];
    localStorage.setItem(PLACE, theme);
    use(theme);
  });
}
