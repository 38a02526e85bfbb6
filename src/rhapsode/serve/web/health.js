/** Shows the model's loading until it is ready. */

import { health } from "./api.js";

const EVERY_MS = 1000;

/** Writes into `place` while the model is loading, or why it cannot be loaded. */
export async function showLoading(place, model) {
  const { status, error } = await health();
  place.classList.toggle("loading", status === "loading");
  place.textContent = {
    loading: `${model} is loading. You can write already; speech starts as soon as it is ready.`,
    failed: `${model} cannot be loaded: ${error}`,
    draining: "The server is shutting down.",
  }[status] ?? "";
  if (status !== "ready" && status !== "idle") setTimeout(() => showLoading(place, model), EVERY_MS);
}
