import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { clock, duration, plural, whole } from "./format.js";

export function show(place, known) {
  const streams = el("div");
  const jobs = el("div");
  const list = el("div");
  fill(place, el("h1", { class: "hidden" }, "Sources"), streams, list, jobs);
  let asked = false;

  async function update() {
    if (asked) return;
    asked = true;
    try {
      const [told, followed, ran] = await Promise.all([get("sources"), get("streams"), get("jobs")]);
      fill(streams, followed.streams.length ? el("section", {}, el("h2", {}, "Streams"), el("p", { class: "note" }, "Structured Streaming queries that are followed; each micro-batch is a step."), table(followed.streams)) : null);
      fill(jobs, ran.count ? el("section", {}, el("h2", {}, "Spark jobs"), el("p", { class: "note" }, spoken(ran)), listed(ran.last)) : null);
      fill(list, told.sources.length ? el("div", { class: "grid sources" }, told.sources.map(card)) : el("section", { class: "hint" }, el("h2", {}, "No source yet"), el("p", {}, "A source is there as soon as a view reads it.")));
    } catch (error) {
      fill(list, el("p", { class: "error" }, error.message));
    } finally {
      asked = false;
    }
  }

  update();
  const timer = setInterval(update, 2000); // streams go on between steps
  return { update, close: () => clearInterval(timer) };
}

function spoken({ count, seconds, read }) {
  const rows = Object.entries(read).map(([source, number]) => `${whole(number)} of ${source}`);
  return `${plural(count, "job")} in ${duration(seconds)}${rows.length ? `; Spark counted ${rows.join(", ")} rows read` : ""}. Steps that are small run in the driver and are no job.`;
}

function listed(jobs) {
  const row = (job) => el("tr", {}, el("td", {}, clock(job.ended)), el("td", { class: "number strong" }, duration(job.seconds)), el("td", { class: "number" }, whole(job.passed)), el("td", {}, job.title));
  return el("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Spark jobs" }, el("table", {}, el("thead", {}, el("tr", {}, [["Ended", ""], ["Took", "number"], ["Passed between stages", "number"], ["What", ""]].map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))), el("tbody", {}, [...jobs].reverse().slice(0, 15).map(row))));
}

function card(source) {
  return el("section", { class: "source" },
    el("h2", {}, source.name, source.stream ? el("span", { class: "badge" }, "stream") : null),
    el("p", { class: "note" }, source.filled ? "has had rows" : "never had rows", source.times.length > 1 ? `; two times: ${source.times.join(", ")}` : ""),
    el("dl", { class: "columns" }, source.columns.map((column) => el("div", {}, el("dt", {}, column.name), el("dd", {}, column.type)))),
    source.definition ? el("details", {}, el("summary", {}, "Statement"), el("pre", {}, source.definition)) : null);
}

function table(streams) {
  const titles = [["Stream", ""], ["State", ""], ["Batches", "number"], ["Rows", "number"], ["Late", "number"], ["Last batch", "number"], ["Lag", "number"], ["Frontier", "number"], ["Comes", "number"], ["Is taken", "number"]];
  const rate = (stream, key) => (stream.spark?.[key] == null ? "–" : `${whole(Math.round(stream.spark[key]))}/s`);
  const row = (stream) => [
    el("tr", {},
      el("td", { class: "strong" }, stream.name), el("td", { class: stream.error ? "bad" : stream.active ? "good" : "soft" }, stream.error ? "stopped, with an error" : stream.active ? "followed" : "ended"),
      el("td", { class: "number" }, whole(stream.batches)), el("td", { class: "number" }, whole(stream.rows)), el("td", { class: "number" }, whole(stream.late)),
      el("td", { class: "number" }, stream.batches ? duration(stream.last_seconds) : "–"), el("td", { class: "number" }, whole(stream.lag)), el("td", { class: "number" }, whole(stream.frontier)),
      el("td", { class: "number" }, rate(stream, "inputRowsPerSecond")), el("td", { class: "number" }, rate(stream, "processedRowsPerSecond"))),
    stream.error ? el("tr", {}, el("td", { colSpan: titles.length }, el("pre", { class: "error" }, stream.error))) : null,
  ];
  return el("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": plural(streams.length, "stream") }, el("table", {}, el("thead", {}, el("tr", {}, titles.map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))), el("tbody", {}, streams.map(row))));
}
