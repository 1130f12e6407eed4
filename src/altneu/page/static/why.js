import { post } from "./api.js";
import { el, fill } from "./dom.js";
import { plural, shown, whole } from "./format.js";
import { table } from "./table.js";

/** Ask why a row is in a view, and show what it rests on. */
export function why(view, row, told) {
  const content = el("div", {}, el("p", { class: "soft" }, "following the plan back …"));
  const close = el("button", { type: "button", class: "plain", "aria-label": "Close", title: "Close", onclick: () => dialog.close() }, "×");
  const dialog = el("dialog", { class: "why", "aria-labelledby": "why-title" },
    el("div", { class: "title" }, el("h2", { id: "why-title" }, `Why is this row in ${view}?`), el("span", { class: "space" }), close), el("p", { class: "row" }, told), content);
  const controller = new AbortController();
  dialog.addEventListener("close", () => (controller.abort(), dialog.remove()));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  post("why", { view, row }, controller.signal).then(
    (found) => fill(content, explained(found)),
    (error) => error.name !== "AbortError" && fill(content, el("p", { class: "error", role: "alert" }, error.message)),
  );
}

function explained(found) {
  const often = found.count === 1 ? "" : `, ${whole(found.count)} times`;
  const sure = { true: ["good", "The query over these rows alone has the row: nothing else is needed for it."], false: ["bad", "These rows alone do not give the row."], null: ["soft", "Not all of the rows that it rests on are kept, so that this could not be computed again."] };
  const [kind, text] = sure[String(found.sufficient)];
  return [
    el("p", {}, `It is there at time ${found.at.map(whole).join(", ")}${often}, because of:`),
    found.inputs.map((input) => [
      el("h3", {}, `source ${input.source}`, el("span", { class: "soft" }, ` ${plural(input.total, "row")}${input.kept ? "" : ": these rows are not stored, and only this is known of them"}`)),
      input.total ? table(input.columns, input.rows, { caption: `Rows of ${input.source}` }) : el("p", { class: "soft" }, "no rows"),
      input.rows.length < input.total ? el("p", { class: "note" }, `and ${whole(input.total - input.rows.length)} more`) : null,
    ]),
    el("p", { class: kind }, text),
    found.notes.map((note) => el("p", { class: "note" }, note)),
    el("h3", {}, "By way of"),
    way(found.operators),
  ];
}

/** The operators from the row down to the sources, each under the one that reads it. */
function way(operators) {
  const numbered = new Map(operators.map((operator) => [operator.number, operator]));
  const read = new Set(operators.flatMap((operator) => operator.inputs));
  const seen = new Set();
  const item = (number) => {
    const operator = numbered.get(number);
    const again = seen.has(number);
    seen.add(number);
    const rows = operator.rows.slice(0, 3).map((row) => row.map(shown).join(", ")).join(" · ");
    const rounds = operator.rounds.length ? ` in round ${operator.rounds.join(", ")}` : "";
    const when = operator.when ? ` at ${operator.when}` : "";
    return el("li", {}, el("span", { class: "strong" }, operator.label), rounds, when, el("span", { class: "soft" }, ` ${plural(operator.total, "row")}${rows ? `: ${rows}${operator.total > 3 ? " …" : ""}` : ""}`),
      !again && operator.inputs.length ? el("ul", {}, operator.inputs.map(item)) : null);
  };
  return el("ul", { class: "way" }, operators.filter((operator) => !read.has(operator.number)).map((operator) => item(operator.number)));
}
