/** Shows a JSON schema as a table of its fields. */

import { el } from "../element.js";

/** Follows references into the document's components. */
export function resolved(schema, document) {
  const path = schema?.$ref;
  if (!path) return schema ?? {};
  return path.slice(2).split("/").reduce((at, name) => at?.[name], document) ?? {};
}

/** Returns the type of a schema in a few words. */
export function typeOf(schema, document) {
  const meant = resolved(schema, document);
  const choices = meant.anyOf ?? meant.oneOf ?? meant.allOf;
  if (choices) return [...new Set(choices.map((choice) => typeOf(choice, document)))].filter((name) => name !== "null").join(" or ");
  if (meant.enum) return meant.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (meant.const !== undefined) return JSON.stringify(meant.const);
  if (meant.type === "array") return `list of ${typeOf(meant.items ?? {}, document) || "values"}`;
  return meant.format === "binary" ? "file" : (meant.type ?? "");
}

/** A table of the fields of an object; null where it has none. */
export function fieldTable(schema, document) {
  const { properties, required = [] } = resolved(schema, document);
  if (!properties) return null;
  const names = Object.keys(properties).sort((a, b) => required.includes(b) - required.includes(a));
  return table(["Field", "Type", "About"], names.map((name) => {
    const field = resolved(properties[name], document);
    return [
      [el("code", {}, name), required.includes(name) ? el("small", { class: "required" }, "required") : null],
      typeOf(field, document),
      [...inline(field.description ?? ""), bounds(field), field.default === undefined || field.default === null ? "" : ` Default: ${JSON.stringify(field.default)}.`],
    ];
  }));
}

/** Text with `code` in it. */
export function inline(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

/** A table that scrolls on its own where it is wide. */
export function table(titles, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": titles.join(", ") }, el("table", {},
    el("thead", {}, el("tr", {}, titles.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)))))));
}

/** The limits of a number, a text or a list, in words. */
function bounds(field) {
  const parts = [field, ...(field.anyOf ?? [])];
  const find = (name) => parts.map((part) => part[name]).find((value) => value !== undefined);
  const [least, most] = [find("minimum"), find("maximum")];
  if (least !== undefined && most !== undefined) return ` ${least} to ${most}.`;
  if (least !== undefined) return ` ${least} or more.`;
  if (find("maxLength") !== undefined) return ` At most ${find("maxLength")} characters.`;
  return find("maxItems") === undefined ? "" : ` At most ${find("maxItems")} items.`;
}
