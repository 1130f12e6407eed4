import { post } from "./api.js";
import { el, fill } from "./dom.js";
import { duration, plural, whole } from "./format.js";
import { table } from "./table.js";

let written = ""; // what was written stays when one goes elsewhere and comes back

export function show(place, known) {
  const { session } = known;
  const first = session.views[0]?.name;
  const quoted = first && (/^[a-z_]\w*$/i.test(first) ? first : `\`${first.replaceAll("`", "``")}\``);
  const examples = ["SHOW MATERIALIZED VIEWS", ...(first ? [`SELECT * FROM ${quoted} LIMIT 20`, `SELECT count(*) FROM ${quoted}`, `EXPLAIN SELECT count(*) FROM ${quoted}`] : [])];
  const box = el("textarea", { id: "statement", rows: 6, spellcheck: false, autocapitalize: "off", "aria-label": "Statement", placeholder: "SELECT …", value: written, oninput: () => (written = box.value), onkeydown: keyed });
  const run = el("button", { type: "submit", class: "main" }, "Run");
  const told = el("span", { class: "told", role: "status" });
  const result = el("div", { class: "result" });
  const form = el("form", { onsubmit: (event) => (event.preventDefault(), ask()) },
    box, el("div", { class: "tools" }, run, el("span", { class: "note" }, "Ctrl+Enter"), el("span", { class: "space" }), told));
  const note = session.allow_writes ? "This page may write: statements change the session." : "SELECT, EXPLAIN and SHOW; they read the last closed time, take no step and change nothing.";
  fill(place, el("h1", { class: "hidden" }, "Query"), el("section", {}, el("p", { class: "note" }, note), form, el("div", { class: "examples" }, examples.map((text) => el("button", { type: "button", class: "chip", onclick: () => ((written = box.value = text), box.focus()) }, text)))), result);
  let controller = null;
  let timer = null;

  function keyed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      ask();
    }
  }

  async function ask() {
    if (controller) return controller.abort();
    controller = new AbortController();
    const began = performance.now();
    const waiting = () => (told.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s …`);
    timer = setInterval(waiting, 100);
    run.textContent = "Stop waiting";
    try {
      answered(await post("sql", { text: box.value }, controller.signal));
    } catch (error) {
      told.textContent = error.name === "AbortError" ? "not waited for; the session still computes it" : "";
      if (error.name !== "AbortError") fill(result, el("section", { class: "error", role: "alert" }, el("h2", {}, error.kind ?? "Error"), el("pre", {}, error.message)));
    } finally {
      clearInterval(timer);
      controller = null;
      run.textContent = "Run";
    }
  }

  function answered(found) {
    if (found.message !== undefined) {
      told.textContent = duration(found.seconds);
      fill(result, el("section", {}, el("p", { class: "good" }, found.message)));
      return;
    }
    told.textContent = `${plural(found.total, "row")} in ${duration(found.seconds)}`;
    const cut = found.rows.length < found.total ? el("p", { class: "note", id: "cut" }, `The first ${whole(found.rows.length)} of ${whole(found.total)} rows are shown. LIMIT, WHERE or an aggregate makes it fewer.`) : null;
    const text = found.plan && found.columns.length === 1;
    fill(result, el("section", {}, cut, text ? el("pre", { class: "plan" }, found.rows.map(([line]) => line).join("\n")) : found.total ? table(found.columns, found.rows, { caption: "Result" }) : el("p", { class: "nothing" }, "No rows.")));
  }

  return { close: () => (controller?.abort(), clearInterval(timer)) };
}
