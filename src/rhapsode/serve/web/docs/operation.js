/** Shows one operation of the API: what it takes and what it answers. */

import { button, el } from "../element.js";
import { fieldTable, inline, resolved, table } from "./schema.js";

export function operation(path, method, about, document) {
  const id = `${method}${path}`.replace(/\W+/g, "-");
  return el("details", { class: "card operation", id },
    el("summary", {}, el("b", { class: `method ${method}` }, method.toUpperCase()), el("code", {}, path), el("span", {}, about.summary ?? "")),
    el("div", { class: "stack" },
      paragraphs(about.description),
      parameters(about.parameters, document),
      ...bodies(about.requestBody, document),
      answers(about.responses, document),
      example(path, method, about, document)),
  );
}

/** Plain text with `code` in it, by paragraph. */
function paragraphs(text = "") {
  return text ? el("div", { class: "prose" }, text.split(/\n\s*\n/).map((part) => el("p", {}, inline(part)))) : null;
}

function parameters(list = [], document) {
  if (!list.length) return null;
  return el("section", {}, el("h3", {}, "Parameters"),
    table(["Name", "In", "About"], list.map((one) => [el("code", {}, resolved(one, document).name), one.in, one.description ?? ""])));
}

function bodies(body, document) {
  return Object.entries(body?.content ?? {}).map(([type, { schema }]) =>
    el("section", {}, el("h3", {}, "Body ", el("small", { class: "hint" }, type)),
      fieldTable(schema, document) ?? el("p", { class: "hint" }, "The bytes themselves.")));
}

function answers(responses = {}, document) {
  const rows = Object.entries(responses).map(([status, one]) => {
    const { description, content } = resolved(one, document);
    return [el("code", {}, status), description ?? "", Object.keys(content ?? {}).join(", ")];
  });
  return el("section", {}, el("h3", {}, "Answers"), table(["Status", "Meaning", "Type"], rows));
}

function example(path, method, about, document) {
  const content = about.requestBody?.content?.["application/json"];
  const schema = resolved(content?.schema, document);
  const body = content && JSON.stringify(schema.example ?? schema.examples?.[0] ?? sample(schema));
  const data = body ? ` \\\n  -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'` : "";
  const verb = method === "get" || data ? "" : ` -X ${method.toUpperCase()}`;
  const text = `curl${verb} ${location.origin}${document.servers?.[0]?.url ?? ""}${path}${data}`;
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  }, "quiet small");
  return el("section", {}, el("h3", {}, "Example ", copy), el("pre", { tabindex: "0", "aria-label": "Example" }, el("code", {}, text)));
}

/** A body with the required fields, or the first text field. */
function sample({ properties = {}, required = [] }) {
  const names = required.length ? required : Object.keys(properties).filter((name) => name === "input");
  return Object.fromEntries(names.map((name) => [name, properties[name]?.example ?? (name === "items" ? [{ input: "Hello." }] : "Hello there.")]));
}
