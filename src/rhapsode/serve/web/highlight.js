/** Marks a range of a text area: a copy of the text lies behind it, and one part of the copy is coloured. */

import { el } from "./element.js";

export class Highlight {
  constructor(area) {
    this.area = area;
    this.before = document.createTextNode("");
    this.mark = el("mark", {});
    this.after = document.createTextNode("");
    this.copy = el("div", { class: "copy script", "aria-hidden": "true" }, this.before, this.mark, this.after);
    this.root = el("div", { class: "highlighted" }, this.copy, area);
    this.shown = null;
    area.addEventListener("scroll", () => this.follow());
    area.addEventListener("input", () => this.clear());
  }

  show(from, to) {
    if (this.shown === from) return;
    const text = this.area.value;
    this.shown = from;
    this.before.data = text.slice(0, from);
    this.mark.textContent = text.slice(from, to);
    this.after.data = `${text.slice(to)}\n`; // a last line break takes a line, as in the text area
    this.keepInView();
  }

  clear() {
    if (this.shown === null) return;
    this.shown = null;
    this.before.data = this.mark.textContent = this.after.data = "";
  }

  keepInView() {
    const { area, mark } = this;
    const [top, bottom] = [mark.offsetTop, mark.offsetTop + mark.offsetHeight];
    if (top < area.scrollTop || bottom > area.scrollTop + area.clientHeight) area.scrollTop = top - area.clientHeight / 3;
    this.follow();
  }

  follow() {
    this.copy.scrollTop = this.area.scrollTop;
  }
}
