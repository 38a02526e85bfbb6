/** Keyboard shortcuts: what they do, and a line that shows them. */

import { el } from "./element.js";

const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const CONTROL = IS_MAC ? "⌘" : "Ctrl";
const ALT = IS_MAC ? "⌥" : "Alt";

/** `actions` has speak, stop, pause and skip(steps). Returns a listener for keydown. */
export function shortcuts(actions) {
  return (event) => {
    const act = actionOf(event, actions);
    if (!act) return;
    event.preventDefault();
    act();
  };
}

function actionOf(event, { speak, stop, pause, skip }) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return speak;
  if (event.key === "Escape") return stop;
  if (!event.altKey || event.ctrlKey || event.metaKey) return null;
  return { KeyK: pause, KeyJ: () => skip(-1), KeyL: () => skip(1) }[event.code] ?? null;
}

export function shortcutLine() {
  const keys = [
    [[CONTROL, "Enter"], "speak"],
    [[ALT, "K"], "pause"],
    [[ALT, "J"], "5 s back"],
    [[ALT, "L"], "5 s on"],
    [["Esc"], "stop"],
  ];
  return el(
    "p",
    { class: "shortcuts", role: "note", "aria-label": "Keyboard shortcuts" },
    keys.map(([names, action]) => el("span", {}, names.map((name) => el("kbd", {}, name)), ` ${action}`)),
  );
}
