/** Elements from data. Whatever comes from outside goes in as text, never as markup. */

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "className"]);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

let last = 0;

/** An id no other element has. */
export function newId(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** A button; `kind` is how it looks. */
export function button(label, click, kind = "", attributes = {}) {
  return el("button", { type: "button", class: `button ${kind}`.trim(), click, ...attributes }, label);
}

/** Tells this in a live region, once: a text that is set again would be read again. */
export function announce(region, text) {
  if (region.textContent !== text) region.textContent = text;
}

/** A picture from the page's own sprite of lines, of no meaning to a screen reader. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", SOLID.has(name) ? "icon solid" : "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

const SOLID = new Set(["play", "pause", "stop", "record"]);
const ICONS = {
  play: "M8.5 6v12l9.5-6z",
  stop: "M7 7h10v10H7z",
  pause: "M8 6.5h2.6v11H8zM13.4 6.5H16v11h-2.6z",
  open: "M4 19V6h5l2 2.5h9V19z",
  save: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M5 19.5h14",
  record: "M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
  remove: "M6 7h12M10 7V5h4v2m-6.5 0l.7 12h7.6l.7-12",
  subtitles: "M4 6h16v12H4zM7 14h6m2.5 0H17M7 11h3m2.5 0H17",
  copy: "M9 9h10v10H9zM5 15V5h10",
};
