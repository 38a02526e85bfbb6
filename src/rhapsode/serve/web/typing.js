/** Decides which part of a text can be sent while it is written: whole words, and the last one after a pause. */

export class Typing {
  constructor() {
    this.sent = "";
  }

  /** The text to send now, or an empty string; `all` also takes a word that may still grow. */
  next(text, all = false) {
    if (!text.startsWith(this.sent)) {
      // What was sent cannot be taken back: only what is added from here on is spoken.
      this.sent = text;
      return "";
    }
    const rest = text.slice(this.sent.length);
    const ready = all ? rest : rest.slice(0, rest.search(/\S*$/));
    this.sent += ready;
    return ready;
  }

  reset() {
    this.sent = "";
  }
}
