import { chart, kinds } from "./charts.js";
import { el, fill } from "./dom.js";
import { bytes, clock, duration, percentile, plural, times, whole } from "./format.js";

const SHOWN = 300; // steps in a chart
const LISTED = 25;

const out = (step) => Object.values(step.changes_out).reduce((sum, rows) => sum + rows, 0);

export function show(place, known) {
  const tiles = el("dl", { class: "tiles" });
  const plots = { latency: el("div", { class: "chart", id: "latency" }), rows: el("div", { class: "chart", id: "rows" }), state: el("div", { class: "chart", id: "state" }) };
  const list = el("div");
  const empty = el("section", { class: "hint" }, el("h2", {}, "No step yet"), el("p", {}, "A step closes times: session.advance() takes one, and so does every micro-batch of a stream that is followed."));
  const charts = el("div", { class: "grid" },
    card("Time per step", "With the median and the slowest in a hundred of the steps that are kept; on a logarithmic scale.", plots.latency),
    card("Rows in and out", "Updates that each step took up, and that it made to all views together.", plots.rows),
    card("State", "Updates kept in all arrangements, the contents of the views among them.", plots.state));
  const listed = el("section", {}, el("h2", {}, "Last steps"), list);
  fill(place, el("h1", { class: "hidden" }, "Steps"), tiles, empty, charts, listed);
  let drawn = null;

  const recent = () => known.steps.slice(-SHOWN);
  const seconds = () => known.steps.map((step) => step.seconds);
  const series = {
    latency: () => [recent().map((s) => s.number), recent().map((s) => s.seconds)],
    rows: () => [recent().map((s) => s.number), recent().map((s) => s.changes_in), recent().map(out)],
    state: () => [recent().map((s) => s.number), recent().map((s) => s.state_rows)],
  };

  function draw() {
    drawn?.forEach(([, shown]) => shown.close());
    const lines = () => [["p99", percentile(seconds(), 0.99)], ["p50", percentile(seconds(), 0.5)]];
    drawn = Object.entries(plots).map(([kind, where]) => [kind, chart(where, kinds[kind](recent().length > 120, lines), series[kind]())]);
  }

  function update(fresh) {
    const some = known.steps.length > 0;
    empty.hidden = some;
    charts.hidden = listed.hidden = !some;
    const { session } = known;
    const last = known.steps.at(-1);
    const errors = session.views.reduce((sum, view) => sum + view.errors, 0);
    fill(tiles,
      tile("Steps", whole(session.steps), last ? `last at ${clock(last.ended)}` : "none yet"),
      tile("Median step", duration(percentile(seconds(), 0.5)), `p99 ${duration(percentile(seconds(), 0.99))}`),
      tile("Last step", duration(last?.seconds), last ? `${whole(last.changes_in)} in, ${whole(out(last))} out, ${last.placement || "nothing to do"}` : ""),
      tile("State", `${whole(session.retained.updates)}`, `updates kept, ${bytes(session.retained.bytes)}`),
      tile("Views", whole(session.views.length), errors ? `${plural(errors, "error")} in them` : "no errors", errors > 0));
    if (!some) return;
    if (!drawn) draw();
    else if (fresh.length) drawn.forEach(([kind, shown]) => shown.set(series[kind]()));
    fill(list, steps(known.steps.slice(-LISTED).reverse(), new Set(fresh.map((step) => step.number))));
  }

  update([]);
  return {
    update,
    redraw: () => drawn && draw(),
    close: () => drawn?.forEach(([, shown]) => shown.close()),
  };
}

function card(title, note, content) {
  return el("section", {}, el("h2", {}, title), el("p", { class: "note" }, note), content);
}

function tile(name, value, note, bad = false) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: bad ? "note bad" : "note" }, note));
}

function steps(shown, fresh) {
  const titles = [["Step", "number"], ["Ended", ""], ["Times closed", "number"], ["Took", "number"], ["In", "number"], ["Out", "number"], ["Changed views", ""], ["Ran in", ""], ["State", "number"]];
  const row = (step) => {
    const changed = Object.entries(step.changes_out).filter(([, rows]) => rows);
    return el("tr", { class: fresh.has(step.number) ? "fresh" : "" },
      el("td", { class: "number" }, whole(step.number)), el("td", {}, clock(step.ended)), el("td", { class: "number" }, times(step)),
      el("td", { class: "number strong" }, duration(step.seconds)), el("td", { class: "number" }, whole(step.changes_in)), el("td", { class: "number" }, whole(out(step))),
      el("td", { class: "views" }, changed.slice(0, 4).map(([name, rows]) => el("a", { class: "chip", href: `#/views/${encodeURIComponent(name)}/changes` }, name, " ", el("b", {}, whole(rows)))), changed.length > 4 ? ` and ${changed.length - 4} more` : null),
      el("td", {}, step.placement || "–"), el("td", { class: "number" }, whole(step.state_rows)));
  };
  return el("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Last steps" }, el("table", { id: "last-steps" }, el("thead", {}, el("tr", {}, titles.map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))), el("tbody", {}, shown.map(row))));
}
