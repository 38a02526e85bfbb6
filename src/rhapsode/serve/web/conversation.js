/** Sends text as it is written and receives its audio: one WebSocket, opened with the first text. */

import { ApiError, OWN, sentence } from "./api.js";
import { givenKey } from "./key.js";

const KEY_PROTOCOL = "openai-insecure-api-key."; // a browser cannot set headers on a WebSocket
const WENT_IDLE = 1008;

export class Conversation {
  /** `listener` has audio(bytes), started(message, start), words(words), ended(message) and failed(error). */
  constructor(fields, listener) {
    this.fields = fields;
    this.listener = listener;
    this.socket = null;
    this.waiting = [];
    this.isDeaf = false;
    this.isOpen = false; // an utterance has begun and is not done
    this.starts = []; // of the utterances of this connection, in the text that is written
  }

  /** Sends text; `start` is where it is in the text that is written. */
  say(text, start) {
    if (!this.isOpen) this.starts.push(start);
    this.isOpen = true;
    this.send({ type: "input.text", text });
  }

  /** Ends this utterance; the rest of it is spoken. */
  done() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.send({ type: "input.done" });
  }

  /** Ends the utterance at once; audio that is still on its way is not heard. */
  cancel() {
    this.isOpen = false;
    if (this.socket?.readyState !== WebSocket.OPEN) return this.close();
    this.isDeaf = true;
    this.send({ type: "input.cancel" });
  }

  close() {
    this.isOpen = false;
    this.waiting = [];
    const { socket } = this;
    this.socket = null;
    socket?.close();
  }

  // --- the wire ---

  send(message) {
    if (!this.socket || this.socket.readyState > WebSocket.OPEN) this.connect();
    const text = JSON.stringify(message);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.push(text);
  }

  connect() {
    const url = new URL(`${OWN}/v1/audio/speech/stream`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const key = givenKey();
    this.isDeaf = false;
    this.starts = this.starts.slice(-1);
    try {
      this.socket = new WebSocket(url, key ? ["rhapsode", KEY_PROTOCOL + key] : []);
    } catch {
      this.listener.failed(new ApiError("This key has characters that a WebSocket cannot carry."));
      return;
    }
    const { socket } = this;
    socket.binaryType = "arraybuffer";
    this.waiting.unshift(JSON.stringify({ type: "session.config", ...this.fields }));
    socket.onopen = () => this.waiting.splice(0).forEach((text) => socket.send(text));
    socket.onmessage = ({ data }) => socket === this.socket && this.hear(data);
    socket.onclose = ({ code, reason }) => socket === this.socket && this.closed(code, reason);
  }

  hear(data) {
    if (typeof data !== "string") {
      if (!this.isDeaf) this.listener.audio(new Uint8Array(data));
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "session.cancelled") this.isDeaf = false;
    else if (this.isDeaf) return;
    else if (message.type === "audio.start") this.listener.started(message, this.starts[message.utterance_index] ?? 0);
    else if (message.type === "audio.words") this.listener.words(message.words);
    else if (message.type === "audio.done") this.listener.ended(message);
    else if (message.type === "error") this.fail(message.error, message.utterance_index);
  }

  fail({ message, param, code }, utterance) {
    if (code === "timeout" && !this.isOpen) return; // nobody said anything for a while, and nobody has to
    // Of a session that was refused nothing more is wanted: it would speak as nobody asked it to.
    if (utterance === undefined) this.close();
    this.listener.failed(new ApiError(sentence(message), { param, code }));
  }

  closed(code, reason) {
    this.socket = null;
    const wasOpen = this.isOpen || this.waiting.length > 0;
    this.isOpen = false;
    this.waiting = [];
    if (wasOpen && code !== WENT_IDLE) {
      this.listener.failed(new ApiError(reason ? sentence(reason) : "The connection was refused or broke off."));
    }
  }
}
