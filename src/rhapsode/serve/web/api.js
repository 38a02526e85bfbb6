/** The server's routes as functions. Every failure is an ApiError that says what is wrong, and with which field. */

import { givenKey } from "./key.js";

/** Where the server's own API is, whatever other server's API its deployment or the key names. */
export const OWN = "/openai";

export class ApiError extends Error {
  constructor(message, { param = null, status = 0, code = null } = {}) {
    super(message);
    this.param = param;
    this.status = status;
    this.code = code;
  }
}

let shortest = "";

/** The address below which programs find the server's own API: the shortest one there is. */
export function address() {
  return location.origin + shortest;
}

export async function models() {
  const { data } = await json(`${OWN}/v1/models`);
  const dialect = data[0]?.deployment?.server?.dialect ?? "openai";
  shortest = dialect === "openai" ? "" : OWN;
  return data;
}

export async function voices() {
  return (await json(`${OWN}/v1/audio/voices`)).data;
}

/** Whether the model is `loading`, `ready`, `idle`, `failed` or `draining`. */
export async function health() {
  try {
    return await (await fetch("/health")).json();
  } catch {
    return { status: "unreachable" };
  }
}

/** The response of a speech request, whose headers came with the first audio. */
export async function speech(body, signal) {
  return ask(`${OWN}/v1/audio/speech`, { ...asJson(body), signal });
}

/** Why a stream broke off, where the server knows. */
export async function outcome(requestId) {
  return json(`${OWN}/v1/audio/speech/${encodeURIComponent(requestId)}`);
}

/** As JSON: browsers change the line breaks of a form's fields, and the transcript's tokens with them. */
export async function uploadVoice({ name, consent, text, audio }) {
  const said = text ? { text } : {};
  return json(`${OWN}/v1/audio/voices`, asJson({ name, consent, audio_sample: audio, ...said }));
}

export async function keepEmbedding({ name, consent, embedding }) {
  return json(`${OWN}/v1/audio/voices`, asJson({ name, consent, speaker_embedding: embedding }));
}

export async function deleteVoice(id) {
  return json(`${OWN}/v1/audio/voices/${encodeURIComponent(id)}`, { method: "DELETE" });
}

export async function embedding(id) {
  return (await json(`${OWN}/v1/audio/voices/${encodeURIComponent(id)}/embedding`)).embedding;
}

export async function metrics(signal) {
  return (await ask("/metrics", { signal })).text();
}

function asJson(body) {
  return { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
}

async function json(path, options) {
  return (await ask(path, options)).json();
}

async function ask(path, options = {}) {
  const key = givenKey();
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.");
  }
  if (answer.ok) return answer;
  throw await explained(answer);
}

async function explained(answer) {
  const { status } = answer;
  try {
    const { message, param, code } = (await answer.json()).error;
    return new ApiError(sentence(message), { param, code, status });
  } catch {
    return new ApiError(`The server answered ${status}.`, { status });
  }
}

export function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
