/** The API reference: every operation of /openapi.json, by topic. */

import { el } from "../element.js";
import { mountTheme } from "../theme.js";
import { operation } from "./operation.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

function topics(document) {
  const found = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((name) => name in methods)) {
      const about = methods[method];
      const topic = about.tags?.[0] ?? "other";
      found.set(topic, [...(found.get(topic) ?? []), operation(path, method, about, document)]);
    }
  }
  return found;
}

function show(document_) {
  const { info } = document_;
  document.getElementById("version").textContent = info.version;
  const place = document.getElementById("reference");
  place.replaceChildren(
    el("div", { class: "intro" }, el("h2", {}, `${info.title} API`), el("p", { class: "hint" }, info.summary ?? "")),
    ...[...topics(document_)].map(([topic, operations]) =>
      el("section", { class: "topic", "aria-label": topic }, el("h2", {}, topic.charAt(0).toUpperCase() + topic.slice(1)), operations)),
  );
  const named = document.getElementById(location.hash.slice(1));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
}

async function start() {
  mountTheme(document.getElementById("theme"));
  const answer = await fetch("/openapi.json").catch(() => null);
  if (answer?.ok) show(await answer.json());
  else document.querySelector("#reference .status").textContent = "The description of the API cannot be read.";
}

start();
