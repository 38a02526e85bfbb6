/** The options that a family declares and the sampling parameters, as fields: labels and hints are what their descriptions say. */

import { el } from "./element.js";
import { Field, numberInput, select } from "./field.js";

export class OptionField {
  constructor(name, schema) {
    this.name = name;
    this.kind = kindOf(schema);
    const { label, rest } = inWords(name, schema.description ?? "");
    this.field = new Field(label, this.control(schema), { hint: [rest && `${rest} `, range(schema), el("code", {}, name)] });
  }

  control(schema) {
    const { default: usual } = schema;
    if (this.kind.choices) {
      return select([["", `default${usual === undefined || usual === null ? "" : ` (${shown(usual)})`}`], ...this.kind.choices]);
    }
    if (this.kind.isNumber) {
      return numberInput({ step: this.kind.type === "integer" ? "1" : "any", placeholder: shown(usual ?? "default") });
    }
    return el("input", { type: "text", placeholder: shown(usual ?? "default") });
  }

  /** What the person set, or undefined. */
  get value() {
    const { value } = this.field;
    if (value === "") return undefined;
    if (this.kind.type === "boolean") return value === "true";
    return this.kind.isNumber ? Number(value) : value;
  }
}

/** Splits a description: its first clause is the label, the rest the hint. */
export function inWords(name, description) {
  const [, unit] = /_(m?s)$/.exec(name) ?? [];
  const text = description.replace(/\s+/g, " ").trim();
  const end = text.search(/[,:;.](\s|$)/);
  const clause = end < 0 ? text : text.slice(0, end);
  const rest = end < 0 ? "" : text.slice(end + 1).trim();
  const label = clause || capital(name.replace(/_(m?s)$/, "").replaceAll("_", " "));
  return { label: unit ? `${label} (${unit})` : label, rest: capital(rest) };
}

/** Says which numbers are allowed. */
function range(schema) {
  const { minimum, maximum } = { ...schema.anyOf?.find((part) => part.type !== "null"), ...schema };
  if (minimum === undefined && maximum === undefined) return "";
  if (minimum === undefined) return `Up to ${maximum}. `;
  return maximum === undefined || maximum >= 2 ** 31 - 1 ? `${minimum} or more. ` : `${minimum} to ${maximum}. `;
}

/** Returns the type of value that may be given; a schema may also allow null. */
function kindOf(schema) {
  const meant = schema.anyOf?.find((part) => part.type !== "null") ?? schema;
  const { type } = meant;
  if (meant.enum) return { type, choices: meant.enum.map((choice) => [String(choice), String(choice)]) };
  if (type === "boolean") return { type, choices: [["true", "yes"], ["false", "no"]] };
  return { type, isNumber: type === "number" || type === "integer" };
}

function shown(value) {
  return { true: "yes", false: "no" }[String(value)] ?? String(value);
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
