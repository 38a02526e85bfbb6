/** A voice between two others: along the arc from one direction to the other, and from one length to the other. */

export function between(first, second, share) {
  const lengths = [Math.hypot(...first), Math.hypot(...second)];
  const dot = first.reduce((sum, value, i) => sum + value * second[i], 0);
  const angle = Math.acos(Math.max(-1, Math.min(1, dot / (lengths[0] * lengths[1]))));
  const weights =
    angle < 1e-6 ? [1 - share, share] : [Math.sin((1 - share) * angle) / Math.sin(angle), Math.sin(share * angle) / Math.sin(angle)];
  const length = (1 - share) * lengths[0] + share * lengths[1];
  return first.map((value, i) => length * ((weights[0] * value) / lengths[0] + (weights[1] * second[i]) / lengths[1]));
}
