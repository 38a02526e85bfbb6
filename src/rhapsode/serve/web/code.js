/** What is on the page now, as code to copy. */

import { address } from "./api.js";
import { button, el, icon } from "./element.js";
import { givenKey } from "./key.js";
import { LANGUAGES } from "./snippets.js";

export class CodePanel {
  /** `request` tells what would be sent now. */
  constructor(request) {
    this.request = request;
    [this.language] = Object.keys(LANGUAGES);
    this.choices = Object.keys(LANGUAGES).map((name) =>
      button(name, () => this.choose(name), "quiet", { "aria-pressed": String(name === this.language) }),
    );
    this.text = el("code", {});
    this.copied = el("span", { class: "status", role: "status" });
    this.root = el(
      "div",
      { class: "code" },
      el("div", { class: "actions", role: "group", "aria-label": "Language of the snippet" },
        this.choices, button([icon("copy"), "Copy"], () => this.copy(), "quiet"), this.copied),
      el("pre", { tabindex: "0", "aria-label": "Snippet" }, this.text),
    );
    this.update();
  }

  choose(name) {
    this.language = name;
    for (const choice of this.choices) choice.setAttribute("aria-pressed", String(choice.textContent === name));
    this.update();
  }

  update() {
    this.text.textContent = LANGUAGES[this.language](this.request(), address(), Boolean(givenKey()));
    this.copied.textContent = "";
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.text.textContent);
      this.copied.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(this.text);
      this.copied.textContent = "Selected: press Ctrl+C.";
    }
  }
}
