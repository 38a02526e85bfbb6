/** Shows the model's loading until it is ready. */

import { health } from "./api.js";

const EVERY_MS = 1000;

/** Writes into `place` while the model is loading, or why it cannot be loaded. */
export async function showLoading(place, model) {
  const { status, error } = await health();
  const isReady = status === "ready" || status === "idle";
  const wasLoading = place.classList.contains("loading");
  place.classList.toggle("loading", status === "loading");
  place.classList.toggle("unseen", isReady); // only announced
  place.textContent = {
    loading: `${model} is loading. You can write already; speech starts as soon as it is ready.`,
    failed: `${model} cannot be loaded: ${error}`,
    draining: "The server is shutting down.",
  }[status] ?? (isReady && wasLoading ? `${model} is ready.` : "");
  if (!isReady) setTimeout(() => showLoading(place, model), EVERY_MS);
}
