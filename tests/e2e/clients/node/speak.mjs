// Speaks through one client and writes the audio to standard output: node speak.mjs CLIENT URL
import { createOpenAI } from "@ai-sdk/openai";
import { experimental_generateSpeech as generateSpeech } from "ai";
import OpenAI from "openai";

const [client, url] = process.argv.slice(2);
const text = "Hello there.";
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

const speakers = {
  async whole() {
    const answer = await openai.audio.speech.create({ model: "tts-1", voice: "low", input: text, response_format: "wav" });
    process.stdout.write(Buffer.from(await answer.arrayBuffer()));
  },
  async streamed() {
    const answer = await openai.audio.speech.create({ model: "tts-1", voice: "low", input: text, response_format: "wav" });
    for await (const bytes of answer.body) process.stdout.write(bytes);
  },
  async error() {
    try {
      await openai.audio.speech.create({ model: "tts-1", voice: "nobody", input: text });
    } catch (error) {
      process.stdout.write(JSON.stringify({ type: error.constructor.name, status: error.status, param: error.param }));
    }
  },
  async vercel() {
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).speech("tts-1");
    const { audio } = await generateSpeech({ model, text, voice: "low", outputFormat: "wav", maxRetries: 0 });
    process.stdout.write(Buffer.from(audio.uint8Array));
  },
};

await speakers[client]();
