/** A request as something to paste: for the shell, for Python, for JavaScript. */

const OPENAI = new Set(["input", "model", "voice", "instructions", "response_format", "speed"]);

export const LANGUAGES = { curl, Python: python, JavaScript: javascript };

function curl(request, origin, hasKey) {
  const body = JSON.stringify(request).replaceAll("'", "'\\''");
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $RHAPSODE_KEY"` : "";
  return `curl -sN ${origin}/v1/audio/speech -H 'Content-Type: application/json'${key} \\\n  -d '${body}' \\\n  -o speech.${formatOf(request)}`;
}

function python(request, origin, hasKey) {
  const known = { model: "tts-1", voice: "default", ...request };
  if (!("input" in request)) known.input = undefined;
  const lines = Object.entries(known).filter(([name]) => OPENAI.has(name)).map(([name, value]) => `    ${name}=${literal(value)},`);
  const extra = Object.entries(known).filter(([name]) => !OPENAI.has(name));
  if (extra.length) lines.push(`    extra_body=${literal(Object.fromEntries(extra))},`);
  return [
    ...(hasKey ? ["import os", ""] : []),
    "import openai",
    "",
    `client = openai.OpenAI(base_url=${literal(`${origin}/v1`)}, api_key=${hasKey ? 'os.environ["RHAPSODE_KEY"]' : '"none"'})`,
    "with client.audio.speech.with_streaming_response.create(",
    ...lines,
    ") as speech:",
    `    speech.stream_to_file("speech.${formatOf(request)}")`,
  ].join("\n");
}

function javascript(request, origin, hasKey) {
  const headers = { "Content-Type": "application/json" };
  const key = hasKey ? ", Authorization: `Bearer ${key}`" : "";
  return [
    `const answer = await fetch(${JSON.stringify(`${origin}/v1/audio/speech`)}, {`,
    '  method: "POST",',
    `  headers: { ${JSON.stringify(headers).slice(1, -1).replace(":", ": ")}${key} },`,
    `  body: JSON.stringify(${JSON.stringify(request, null, 2).replaceAll("\n", "\n  ")}),`,
    "});",
    "for await (const bytes of answer.body) {",
    "  // audio, from the first frame on",
    "}",
  ].join("\n");
}

function formatOf(request) {
  return request.response_format ?? "mp3";
}

/** A value as Python writes it. */
function literal(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, inner]) => `${literal(name)}: ${literal(inner)}`).join(", ")}}`;
  }
  if (value === undefined) return "openai.NOT_GIVEN";
  return JSON.stringify(value); // a string of JSON is one of Python
}
