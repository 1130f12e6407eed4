import { el, fill } from "./dom.js";

export function show(place) {
  fill(place, el("section", { class: "hint" }, el("h2", {}, "Graph"), el("p", {}, "…")));
  return {};
}
