/** Reads the body of a speech response: bytes of audio, or server-sent events with audio and words. */

import { ApiError, outcome } from "./api.js";

/** Yields `{bytes}` and `{words}` as they arrive; a stream that breaks off throws the reason. */
export async function* parts(answer) {
  const isEvents = answer.headers.get("Content-Type").startsWith("text/event-stream");
  const reader = answer.body.getReader();
  try {
    yield* isEvents ? events(reader) : pieces(reader);
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw await brokenOff(answer.headers.get("X-Request-Id"));
  } finally {
    reader.releaseLock();
  }
}

async function* pieces(reader) {
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    yield { bytes: value };
  }
}

async function* events(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const { bytes } of pieces(reader)) {
    text += decoder.decode(bytes, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop();
    for (const event of whole) {
      const part = read(event);
      if (part) yield part;
    }
  }
}

function read(event) {
  const line = event.split("\n").find((one) => one.startsWith("data: "));
  const data = line ? JSON.parse(line.slice("data: ".length)) : {};
  if (data.type === "speech.audio.delta") return { bytes: Uint8Array.from(atob(data.audio), (letter) => letter.charCodeAt(0)) };
  if (data.type === "speech.audio.words") return { words: data.words };
  if (data.type === "error") throw broken(data.error);
  return null;
}

async function brokenOff(requestId) {
  try {
    return broken((await outcome(requestId)).error);
  } catch {
    return new ApiError("The stream broke off.");
  }
}

function broken({ message, param, code }) {
  return new ApiError(`The stream broke off: ${message}`, { param, code });
}
