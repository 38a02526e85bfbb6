/** Samples of voices: made when somebody first asks for one, then played from memory. */

import { Hearing } from "./hearing.js";
import { Utterance } from "./utterance.js";

const GREETING = "Hello. This is how I sound.";
const MOST = 32;

const kept = new Map();
let hearing = null;

/** Plays a voice's sample, made with its default settings; `changed` is called with its Hearing. */
export async function hearSample(model, voice, changed = () => {}) {
  stopSample();
  const utterance = kept.get(voice) ?? new Utterance({ input: GREETING, ...(voice && { voice }) }, model);
  hearing = new Hearing(utterance, changed);
  await hearing.run();
  if (utterance.recording?.ended) keep(voice, utterance);
}

export function stopSample() {
  hearing?.stop();
}

function keep(voice, utterance) {
  kept.delete(voice);
  kept.set(voice, utterance);
  if (kept.size > MOST) kept.delete(kept.keys().next().value);
}
