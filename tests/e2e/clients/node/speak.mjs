// Speaks through one client and writes the audio to standard output: node speak.mjs CLIENT URL
import net from "node:net";
import { createOpenAI } from "@ai-sdk/openai";
import { ElevenLabsClient } from "@elevenlabs/elevenlabs-js";
import { experimental_generateSpeech as generateSpeech } from "ai";
import OpenAI from "openai";

const [client, url] = process.argv.slice(2);
const text = "Hello there.";
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

// A connection that has had an answer, and waits.
async function idle(port) {
  const connection = net.connect(port, "127.0.0.1");
  connection.on("error", () => {});
  await answers(connection);
  return connection;
}

function answers(connection) {
  return new Promise((tell) => {
    connection.once("data", (bytes) => tell(bytes.toString().startsWith("HTTP/1.1 200")));
    connection.once("close", () => tell(false));
    connection.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  });
}

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
  // Writes how many bytes each of twenty answers has, and whether the connection beside them is still open and answers.
  async elevenlabs() {
    const beside = await idle(new URL(url).port);
    const client = new ElevenLabsClient({ baseUrl: url, apiKey: "none", maxRetries: 0 });
    const sizes = [];
    for (let turn = 0; turn < 20; turn++) {
      const audio = await client.textToSpeech.convert("JBFqnCBsd6RMkjVDRZzb", {
        text,
        modelId: "eleven_multilingual_v2",
        outputFormat: "pcm_16000",
      }, { maxRetries: 0 });
      let size = 0;
      for await (const bytes of audio) size += bytes.length;
      sizes.push(size);
      if (turn === 9) await new Promise((go) => setTimeout(go, 6000));
    }
    process.stdout.write(JSON.stringify({ sizes, beside: await answers(beside) }));
    beside.destroy();
  },
};

await speakers[client]();
