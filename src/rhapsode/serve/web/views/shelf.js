/** The voices that were uploaded: heard, and deleted. */

import { deleteVoice } from "../api.js";
import { button, el, icon } from "../element.js";
import { knownVoices, onVoices, refreshVoices } from "../voices.js";
import { hearSample } from "../voicesamples.js";

export class VoicesCard {
  constructor(model) {
    this.model = model;
    this.list = el("ul", { class: "shelf" });
    this.error = el("p", { class: "error", role: "alert" });
    this.status = el("p", { class: "status", role: "status" });
    this.root = el("section", { class: "card", "aria-label": "Uploaded voices" }, el("h2", {}, "Uploaded voices"), this.list, this.status, this.error);
    onVoices(() => this.draw());
    this.draw();
  }

  draw() {
    const uploaded = knownVoices().filter(({ kind }) => kind === "uploaded");
    this.list.replaceChildren(...(uploaded.length ? uploaded.map((voice) => this.line(voice)) : [el("li", { class: "hint" }, "None yet.")]));
  }

  line(voice) {
    const about = voice.embedding_size ? `an embedding of ${voice.embedding_size}` : `${voice.duration_s.toFixed(1)} s${voice.text ? ", with its text" : ""}`;
    return el(
      "li",
      {},
      el("span", { class: "name" }, voice.name, el("small", { class: "hint" }, about)),
      button(icon("play"), () => this.try(() => hearSample(this.model, voice.id)), "quiet", { "aria-label": `Hear ${voice.name}` }),
      this.removal(voice),
    );
  }

  /** Asked twice, since it is gone for good. */
  removal(voice) {
    let sure = false;
    const remove = button(icon("remove"), () => {
      if (!sure) {
        sure = true;
        remove.replaceChildren("Delete for good");
        remove.setAttribute("aria-label", `Delete ${voice.name} for good`);
        return;
      }
      this.try(async () => {
        await deleteVoice(voice.id);
        await refreshVoices();
        this.status.textContent = `${voice.name} is deleted.`;
      });
    }, "quiet", { "aria-label": `Delete ${voice.name}` });
    return remove;
  }

  async try(work) {
    this.error.textContent = this.status.textContent = "";
    try {
      await work();
    } catch (error) {
      this.error.textContent = error.message;
    }
  }
}
