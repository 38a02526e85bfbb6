/** The views as tabs: by mouse, by arrow keys, by address. */

import { el } from "./element.js";

export class Tabs {
  /** `views`: id -> { label, view }. */
  constructor(list, place, views) {
    this.views = views;
    this.shown = null;
    this.tabs = {};
    this.panels = {};
    for (const [id, { label, view }] of Object.entries(views)) {
      this.tabs[id] = el("button", {
        type: "button", role: "tab", id: `tab-${id}`, "aria-controls": id, "aria-selected": "false", tabindex: "-1",
        click: () => this.go(id),
      }, label);
      this.panels[id] = el("div", { role: "tabpanel", id, "aria-labelledby": `tab-${id}`, hidden: true }, view.root);
    }
    list.replaceChildren(...Object.values(this.tabs));
    place.replaceChildren(...Object.values(this.panels));
    list.addEventListener("keydown", (event) => this.press(event));
    addEventListener("hashchange", () => this.show(this.asked()));
    this.show(this.asked());
  }

  asked() {
    const id = location.hash.slice(1);
    return id in this.views ? id : (this.shown ?? Object.keys(this.views)[0]);
  }

  go(id) {
    history.replaceState(null, "", `#${id}`);
    this.show(id);
  }

  show(id) {
    if (id === this.shown) return;
    const before = this.views[this.shown]?.view;
    this.shown = id;
    before?.leave?.();
    for (const [name, tab] of Object.entries(this.tabs)) {
      tab.setAttribute("aria-selected", String(name === id));
      tab.tabIndex = name === id ? 0 : -1;
      this.panels[name].hidden = name !== id;
    }
    this.views[id].view.enter?.();
  }

  press(event) {
    const names = Object.keys(this.views);
    const at = names.indexOf(this.shown);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const id = names[(to + names.length) % names.length];
    this.go(id);
    this.tabs[id].focus();
  }
}
