/** Words with the times at which they are spoken, where the served model announces them. */

/** Whether the server can time the words of this language, as far as is known before the text is read. */
export function announcesWords(model, language) {
  const languages = model.text.word_timestamps ?? [];
  return language ? languages.includes(language) : languages.length > 0;
}

export class Words {
  constructor() {
    this.list = [];
  }

  /** Adds words as the server sends them: `{word, start, end, from, to}`, in order. */
  push(words) {
    this.list.push(...words);
  }

  /** Returns the last word that has begun at this time, or null. */
  at(seconds) {
    let [low, high] = [0, this.list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.list[middle].start <= seconds) low = middle + 1;
      else high = middle;
    }
    return this.list[low - 1] ?? null;
  }
}
