/** The text to speak: written, chosen from examples or opened from a file, with its length. */

import { button, el, icon } from "./element.js";
import { estimate } from "./estimate.js";
import { EXAMPLES } from "./examples.js";
import { Field, select } from "./field.js";
import { clock } from "./figures.js";
import { Highlight } from "./highlight.js";
import { OPENS, readFile } from "./textfile.js";

export class Script {
  /** `most` is the number of characters that the server takes; `speed` returns the chosen speed; `opened` gets the input type of another text. */
  constructor({ value, most, speed, opened, rows = 6 }) {
    Object.assign(this, { most, speed, opened });
    this.parts = [];
    this.changed = () => {};
    this.area = el("textarea", { rows, class: "script", value, "aria-keyshortcuts": "Control+Enter", input: () => this.update() });
    this.field = new Field("Text", this.area);
    this.highlight = new Highlight(this.area);
    this.field.label.after(this.highlight.root);
    this.chooser = el("input", { type: "file", accept: OPENS, hidden: true, change: () => this.open(this.chooser.files[0]) });
    this.part = new Field("Part", select([]));
    this.part.control.addEventListener("change", () => this.replace(this.parts[this.part.control.value].text));
    this.part.root.hidden = true;
    this.length = el("span", { class: "status length" });
    const examples = Object.entries(EXAMPLES).map(([name, text]) => button(name, () => this.take("text", [{ title: name, text }]), "chip"));
    this.root = el(
      "div",
      { class: "field-group", dragover: (event) => event.preventDefault(), drop: (event) => this.dropped(event) },
      this.part.root,
      this.field.root,
      el("div", { class: "under" }, this.length, button([icon("open"), "Open a file"], () => this.chooser.click(), "quiet small", { title: "Text, Markdown, HTML or EPUB" }), this.chooser),
      el("div", { class: "chips", role: "group", "aria-label": "Example texts" }, el("span", { class: "hint" }, "Try"), examples),
    );
    this.update();
  }

  get value() {
    return this.area.value;
  }

  /** Shows the first of these parts, and offers the others. */
  take(inputType, parts) {
    this.parts = parts;
    this.part.control.replaceChildren(...parts.map(({ title }, i) => el("option", { value: String(i) }, title)));
    this.part.root.hidden = parts.length < 2;
    this.opened(inputType);
    this.replace(parts[0].text);
  }

  replace(text) {
    this.area.value = text;
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
    this.area.focus();
  }

  async open(file) {
    if (!file) return;
    try {
      const { inputType, parts } = await readFile(file, this.most);
      if (!parts.length) throw new Error(`${file.name} holds no text.`);
      this.take(inputType, parts);
    } catch (error) {
      this.field.show(error.message);
    } finally {
      this.chooser.value = "";
    }
  }

  dropped(event) {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    this.open(event.dataTransfer.files[0]);
  }

  /** Shows how long the text is, and how long the speech will be. */
  update() {
    const count = this.value.length;
    const isTooLong = count > this.most;
    const characters = `${count.toLocaleString("en")}${count > this.most / 2 ? ` of ${this.most.toLocaleString("en")}` : ""} characters`;
    this.length.textContent = count ? `${characters} · about ${clock(estimate.secondsFor(this.value, this.speed()))}` : "";
    this.length.classList.toggle("wrong", isTooLong);
    this.changed();
  }

  /** Lights up a word of the text that is being spoken, unless the text was changed since. */
  light(word, spoken) {
    if (word && this.value === spoken) this.highlight.show(word.from, word.to);
    else this.highlight.clear();
  }
}
