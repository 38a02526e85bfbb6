/** The voices there are, known once and shared by every view. */

import { voices } from "./api.js";

const news = new EventTarget();
let known = [];

export function knownVoices() {
  return known;
}

export function onVoices(listener) {
  news.addEventListener("change", listener);
}

export async function refreshVoices() {
  known = await voices();
  news.dispatchEvent(new Event("change"));
}
