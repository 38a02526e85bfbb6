/** The options a family declares, as fields: from the JSON schema that /v1/models shows. */

import { el } from "./element.js";
import { Field, numberInput, select } from "./field.js";

export class OptionField {
  constructor(name, schema) {
    this.name = name;
    this.kind = kindOf(schema);
    this.field = new Field(words(name), this.control(schema), { hint: schema.description ?? "" });
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

/** What may be given, of a schema that may also allow nothing. */
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

function words(name) {
  const text = name.replace(/_(m?s)$/, " ($1)").replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
