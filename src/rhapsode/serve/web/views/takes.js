/** The takes of this visit: each can be heard again, downloaded and removed. */

import { button, el, icon } from "../element.js";
import { clock } from "../figures.js";
import { download } from "../recording.js";
import { subtitles } from "../subtitles.js";

const MOST_TAKES = 20;
const MOST_BYTES = 128 * 2 ** 20;

export class TakesCard {
  /** `play(utterance)` plays one, `failed(error)` shows why a download failed, `format()` and `subtitles()` return the chosen formats. */
  constructor({ play, failed, format, subtitles }) {
    Object.assign(this, { play, failed, format, subtitles });
    this.takes = [];
    this.seen = new WeakSet();
    this.list = el("ol", { class: "takes" });
    this.root = el("section", { class: "card", "aria-label": "Takes", hidden: true }, el("h2", {}, "Takes"), this.list);
  }

  /** Adds an utterance as the newest take, once; the oldest go when there are too many or they are too large. */
  add(utterance) {
    if (this.seen.has(utterance)) return;
    this.seen.add(utterance);
    this.takes.unshift(new Take(utterance, this));
    const bytes = () => this.takes.reduce((sum, take) => sum + take.utterance.recording.bytes, 0);
    while (this.takes.length > MOST_TAKES || (this.takes.length > 1 && bytes() > MOST_BYTES)) this.takes.pop();
    this.list.replaceChildren(...this.takes.map(({ root }) => root));
    this.update(utterance);
  }

  update(current) {
    this.root.hidden = !this.takes.length;
    this.takes.forEach((take) => take.update(current));
  }

  remove(take) {
    this.takes = this.takes.filter((other) => other !== take);
    take.root.remove();
    this.root.hidden = !this.takes.length;
  }
}

/** One line of the list. */
class Take {
  constructor(utterance, card) {
    this.utterance = utterance;
    this.card = card;
    const named = (label) => ({ "aria-label": `${label} this take`, title: label });
    this.play = button(icon("play"), () => card.play(utterance), "quiet", named("Play"));
    this.save = button(icon("save"), () => this.download(), "quiet", named("Download"));
    this.subtitles = button(icon("subtitles"), () => this.subtitle(), "quiet", { ...named("Subtitles of"), hidden: true });
    this.about = el("small", { class: "hint" });
    this.root = el(
      "li",
      {},
      this.play,
      el("span", { class: "name" }, el("span", { class: "words" }, utterance.text), this.about),
      this.subtitles,
      this.save,
      button(icon("remove"), () => card.remove(this), "quiet", named("Remove")),
    );
  }

  update(current) {
    const { fields, recording, isKept } = this.utterance;
    const about = [clock(recording.durationS), fields.voice, fields.speed && `${fields.speed}×`, `seed ${fields.seed}`];
    this.about.textContent = about.filter(Boolean).join(" · ");
    this.play.disabled = !isKept;
    this.subtitles.hidden = !recording.ended || !this.utterance.words.list.length;
    this.root.classList.toggle("current", this.utterance === current);
  }

  subtitle() {
    const { text, words, fields } = this.utterance;
    const kind = this.card.subtitles();
    download(new Blob([subtitles(text, words.list, kind, Boolean(fields.input_type))], { type: "text/plain" }), `speech.${kind}`);
  }

  async download() {
    const format = this.card.format();
    this.save.disabled = true;
    try {
      download(await this.utterance.file(format), `speech.${format}`);
    } catch (error) {
      this.card.failed(error);
    } finally {
      this.save.disabled = false;
    }
  }
}
