export const whole = (value) => (value == null ? "–" : Number(value).toLocaleString("en"));
export const short = (value) => Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const plural = (count, word, more = word + "s") => `${whole(count)} ${count === 1 ? word : more}`;

export function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds >= 100) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds >= 1) return `${+seconds.toPrecision(3)} s`;
  if (seconds >= 1e-3) return `${+(seconds * 1e3).toPrecision(3)} ms`;
  return `${+(seconds * 1e6).toPrecision(2)} µs`;
}

export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; count >= 1000 && at < units.length - 1; at++) count /= 1000;
  return `${at ? +count.toPrecision(3) : count} ${units[at]}`;
}

/** The times that a step closed: half-open bounds as they are spoken of. */
export function times({ lower, upper }) {
  if (upper === lower) return "none";
  return upper === lower + 1 ? whole(lower) : `${whole(lower)} to ${whole(upper - 1)}`;
}

/** The least value that at least a share of the values do not exceed. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.ceil(share * sorted.length) - 1] : null;
}

/** A cell as it is shown; null is told apart from a text. */
export function shown(value) {
  if (value === null) return "null";
  if (typeof value === "number") return String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
