import { el } from "./dom.js";
import { shown } from "./format.js";

/**
 * A table of values. `columns` have name, type and number; `lead` cells come before a row's own, `tail` after them;
 * `sorted` is {column, descending, onSort}; `fresh` says which rows are shown as new.
 */
export function table(columns, rows, { lead = [], tail = [], sorted = null, fresh = () => false, caption = "", mark = () => "" } = {}) {
  const body = lines(columns, rows, { lead, tail, fresh, mark });
  return scrolled(caption, el("table", {}, caption ? el("caption", { class: "hidden" }, caption) : null, head(columns, { lead, tail, sorted }), el("tbody", {}, body)));
}

/** What is wider than the screen is moved by itself, also by the keyboard. */
export const scrolled = (name, content) => el("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": name || "Table" }, content);

export function head(columns, { lead = [], tail = [], sorted = null } = {}) {
  const extra = (parts) => parts.map((part) => el("th", { scope: "col", class: part.class ?? "" }, part.title));
  const own = columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : "", title: column.type, "aria-sort": direction(column, sorted) }, sorted ? sorter(column, sorted) : column.name));
  return el("thead", {}, el("tr", {}, extra(lead), own, extra(tail)));
}

export function lines(columns, rows, { lead = [], tail = [], fresh = () => false, mark = () => "" } = {}) {
  return rows.map((row, at) =>
    el("tr", { class: [fresh(at) ? "fresh" : "", mark(at)].join(" ").trim() },
      lead.map((part) => el("td", { class: part.class ?? "" }, part.cell(at))),
      row.map((value, i) => cell(value, columns[i])),
      tail.map((part) => el("td", { class: part.class ?? "" }, part.cell(at)))));
}

function cell(value, column) {
  const kind = value === null ? "null" : column.number ? "number" : typeof value === "object" ? "nested" : "";
  const told = shown(value);
  const long = told.length > 300;
  return el("td", { class: kind, title: long ? told.slice(0, 4000) : undefined }, long ? told.slice(0, 300) + " …" : told);
}

function direction(column, sorted) {
  if (!sorted || sorted.column !== column.name) return undefined;
  return sorted.descending ? "descending" : "ascending";
}

function sorter(column, sorted) {
  const arrow = el("span", { "aria-hidden": "true", class: "arrow" }, sorted.column === column.name ? (sorted.descending ? "▼" : "▲") : "");
  return el("button", { class: "sorter", type: "button", "data-column": column.name, title: `${column.type}: put in order`, onclick: () => sorted.onSort(column.name) },
    column.number ? [arrow, column.name] : [column.name, arrow]);
}

/** First, previous, next and last page; `onOffset` is called with where the window begins. */
export function pager(offset, limit, total, onOffset) {
  const last = Math.max(0, Math.floor((total - 1) / limit) * limit);
  const button = (label, name, to, able) => el("button", { type: "button", class: "plain", "aria-label": name, title: name, disabled: !able, onclick: () => onOffset(to) }, label);
  return el("div", { class: "pager" },
    button("«", "First page", 0, offset > 0), button("‹", "Previous page", Math.max(0, offset - limit), offset > 0),
    button("›", "Next page", offset + limit, offset + limit < total), button("»", "Last page", last, offset < last));
}
