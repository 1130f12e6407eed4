import { get } from "./api.js";
import { asking } from "./asking.js";
import { el, fill, later } from "./dom.js";
import { bytes, clock, plural, shown, times, whole } from "./format.js";
import { head, lines, pager, scrolled, table } from "./table.js";
import { why } from "./why.js";

const PARTS = [["rows", "Rows"], ["changes", "Changes"], ["errors", "Errors"], ["about", "About"]];
const address = (name, part) => `#/views/${encodeURIComponent(name)}/${part}`;

export function show(place, known, [chosen, part]) {
  const { views } = known.session;
  if (!views.length) {
    fill(place, el("section", { class: "hint" }, el("h2", {}, "No view yet"), el("p", {}, "session.maintain(name, collection) keeps one, and so does CREATE MATERIALIZED VIEW.")));
    return { update: () => known.session.views.length && dispatchEvent(new HashChangeEvent("hashchange")) };
  }
  const name = chosen ?? views[0].name;
  const list = el("nav", { class: "list", "aria-label": "Views" });
  const pane = el("div", { class: "pane" });
  fill(place, el("h1", { class: "hidden" }, "Views"), el("div", { class: "split" }, list, pane));
  const title = el("div", { class: "title" });
  const tabs = el("nav", { class: "subtabs", "aria-label": `Parts of ${name}` });
  const body = el("div");
  const parts = views.find((view) => view.name === name)?.contents === false ? PARTS.slice(1) : PARTS; // without contents there are no rows
  const found = parts.find(([key]) => key === part)?.[0] ?? parts[0][0];
  let inner = null;

  function listed(fresh = []) {
    const changed = {};
    for (const step of fresh) for (const [view, rows] of Object.entries(step.changes_out)) changed[view] = (changed[view] ?? 0) + rows;
    fill(list, known.session.views.map((view) => el("a", { href: address(view.name, found), "aria-current": view.name === name ? "page" : undefined, class: changed[view.name] ? "fresh" : "" },
      el("span", { class: "name" }, view.name),
      view.errors ? el("span", { class: "badge bad", title: plural(view.errors, "error") }, `${whole(view.errors)} !`) : null,
      el("span", { class: "soft" }, whole(view.updates)))));
    const mine = known.session.views.find((view) => view.name === name);
    fill(title, el("h2", {}, name), el("span", { class: "soft" }, mine ? `keeps ${plural(mine.updates, "update")}, ${bytes(mine.bytes)}` : "is not maintained any more"));
    fill(tabs, parts.map(([key, label]) => el("a", { href: address(name, key), "aria-current": key === found ? "page" : undefined }, label, key === "errors" && mine?.errors ? el("span", { class: "badge bad" }, whole(mine.errors)) : null)));
  }

  listed();
  fill(pane, el("section", {}, title, tabs, body));
  inner = { rows, changes, errors, about }[found](body, name);
  list.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return {
    update(fresh) {
      listed(fresh);
      if (!fresh.length || inner.always || fresh.some((step) => step.changes_out[name])) inner.update?.(fresh);
    },
    close: () => inner.close?.(),
  };
}

/** Say what went wrong; what is shown already stays where only the session is gone, which the head of the page says. */
const failed = (place) => (error) => (error.silent && place.querySelector("table")) || fill(place, el("p", { class: "error" }, error.message));

function rows(place, name) {
  const state = { offset: 0, limit: 50, sort: null, descending: false, filter: "" };
  let before = null;
  let live = true;
  const content = el("div", { class: "content", "aria-busy": "true" }, el("p", { class: "soft" }, "reading …"));
  const told = el("span", { class: "told", role: "status" });
  const pages = el("div");
  const filter = el("input", { type: "search", placeholder: "Filter: text in any column", "aria-label": "Filter rows by a text in any column", spellcheck: false, oninput: later(250, () => change({ filter: filter.value, offset: 0 })) });
  const size = el("select", { "aria-label": "Rows a page", onchange: () => change({ limit: Number(size.value), offset: 0 }) }, [20, 50, 100, 500].map((n) => el("option", { value: n, selected: n === 50 }, `${n} rows`)));
  const follow = el("label", { class: "check" }, el("input", { type: "checkbox", checked: true, onchange: (event) => (live = event.target.checked) && asked.run() }), "live");
  fill(place, el("div", { class: "tools" }, filter, follow, el("span", { class: "space" }), told, size, pages), content);

  function change(more) {
    Object.assign(state, more);
    before = null;
    asked.run();
  }

  function sorted(column) {
    if (state.sort !== column) change({ sort: column, descending: false, offset: 0 });
    else if (!state.descending) change({ descending: true, offset: 0 });
    else change({ sort: null, descending: false, offset: 0 });
  }

  const asked = asking(async (signal) => {
    content.setAttribute("aria-busy", "true");
    const { offset, limit, sort, filter: text } = state;
    const found = await get("rows", { view: name, offset, limit, sort, descending: state.descending ? 1 : 0, filter: text }, signal);
    if (found.offset && found.offset >= found.selected) return change({ offset: Math.max(0, Math.floor((found.selected - 1) / limit) * limit) });
    const fresh = before && new Set(found.ids.filter((id) => !before.has(id)));
    before = new Set(found.ids);
    const counted = found.counts.some((count) => count !== 1);
    const focused = content.contains(document.activeElement) && document.activeElement.dataset.column;
    fill(content,
      found.whole ? null : el("p", { class: "note" }, `This view is large: these are the first ${whole(found.distinct)} rows of it, as they are kept. SELECT … WHERE in the Query tab finds others.`),
      found.rows.length
        ? table(found.columns, found.rows, {
            caption: `Rows of ${name}`,
            lead: counted ? [{ title: "count", class: "number soft", cell: (at) => `×${whole(found.counts[at])}` }] : [],
            tail: [{ title: el("span", { class: "hidden" }, "why"), class: "act", cell: (at) => whyButton(name, found, at) }],
            sorted: { column: state.sort, descending: state.descending, onSort: sorted },
            fresh: (at) => fresh?.has(found.ids[at]) && fresh.size < found.ids.length,
          })
        : el("p", { class: "nothing" }, text ? `No row has “${text}”.` : "The view has no rows."));
    if (focused) content.querySelector(`[data-column="${CSS.escape(focused)}"]`)?.focus();
    content.setAttribute("aria-busy", "false");
    const end = Math.min(found.offset + found.rows.length, found.selected);
    told.textContent = found.selected ? `${whole(found.offset + 1)}–${whole(end)} of ${whole(found.selected)}${text ? ` found in ${whole(found.distinct)}` : ""}` : "";
    fill(pages, pager(found.offset, limit, found.selected, (to) => change({ offset: to })));
  }, failed(content));
  asked.run();
  return { update: () => live && asked.run(), close: asked.close };
}

function whyButton(name, found, at) {
  const told = found.columns.map((column, i) => `${column.name}: ${shown(found.rows[at][i])}`).join(", ");
  return el("button", { type: "button", class: "chip", title: "Why is this row here?", "aria-label": `Why is this row here? ${told}`, onclick: () => why(name, found.ids[at], told) }, "why?");
}

function changes(place, name) {
  const KEPT = 30; // steps
  const SHOWN = 40; // rows of one
  let after = 0;
  let live = true;
  const told = el("span", { class: "told", role: "status" });
  const follow = el("label", { class: "check" }, el("input", { type: "checkbox", checked: true, onchange: (event) => (live = event.target.checked) && asked.run() }), "live");
  const content = el("div", { class: "feed" }, el("p", { class: "soft" }, "reading …"));
  fill(place, el("div", { class: "tools" }, el("span", { class: "note" }, "What each step changed: − goes, + comes."), el("span", { class: "space" }), told, follow), content);

  let body = null;

  const asked = asking(async (signal) => {
    const found = await get("changes", { view: name, after, limit: KEPT, rows: SHOWN }, signal);
    if (!found.changes.length) {
      if (!body) fill(content, el("p", { class: "nothing" }, "No change since this page is served."));
      return;
    }
    const blocks = found.changes.map((change) => block(found, change, after > 0));
    if (!body) {
      body = el("table", {}, el("caption", { class: "hidden" }, `Changes of ${name}`), head(found.columns, { lead: lead(found, null) }));
      fill(content, scrolled(`Changes of ${name}`, body));
    }
    body.tHead.after(...blocks);
    while (body.tBodies.length > KEPT) body.tBodies[KEPT].remove();
    after = Math.max(after, ...found.changes.map((change) => change.number));
    told.textContent = `last change in step ${whole(after)}`;
  }, failed(content));
  asked.run();
  return { update: () => live && asked.run(), close: asked.close };
}

/** What stands before a changed row: its sign, and its times. */
const lead = (found, change) => [
  { title: el("span", { class: "hidden" }, "change"), class: "diff", cell: (at) => sign(change.diffs[at]) },
  ...found.times.map((title, i) => ({ title, class: "number soft", cell: (at) => whole(change.times[at][i]) })),
];

function block(found, change, fresh) {
  const more = change.total - change.rows.length;
  const wide = found.columns.length + found.times.length + 1;
  return el("tbody", {},
    el("tr", {}, el("th", { colSpan: wide, scope: "rowgroup" }, `Step ${whole(change.number)} `, el("span", { class: "soft" }, `closed ${times(change)} at ${clock(change.ended)}, ${plural(change.total, "change")}`))),
    lines(found.columns, change.rows, { lead: lead(found, change), fresh: () => fresh, mark: (at) => (change.diffs[at] > 0 ? "comes" : "goes") }),
    more > 0 ? el("tr", {}, el("td", { colSpan: wide, class: "soft" }, `and ${whole(more)} more`)) : null);
}

const sign = (diff) => (diff > 0 ? "+" : "−") + (Math.abs(diff) === 1 ? "" : whole(Math.abs(diff)));

function errors(place, name) {
  const limit = 50;
  let offset = 0;
  const content = el("div", {}, el("p", { class: "soft" }, "reading …"));
  const pages = el("div");
  fill(place, el("div", { class: "tools" }, el("span", { class: "note" }, "Rows and groups that failed. An error goes when the row that causes it goes."), el("span", { class: "space" }), pages), content);
  const asked = asking(async (signal) => {
    const found = await get("errors", { view: name, offset, limit }, signal);
    fill(content, found.total ? el("div", { class: "wrap" }, table(found.columns, found.rows, { caption: `Errors of ${name}` })) : el("p", { class: "nothing good" }, "No errors."));
    fill(pages, found.total > limit ? pager(offset, limit, found.total, (to) => ((offset = to), asked.run())) : null);
  }, failed(content));
  asked.run();
  return { update: asked.run, always: true, close: asked.close }; // errors come and go without a change of the rows
}

function about(place, name) {
  fill(place, el("p", { class: "soft" }, "reading …"));
  const asked = asking(async (signal) => {
    const view = await get("view", { view: name }, signal);
    const columns = [{ name: "column" }, { name: "type" }, { name: "key" }];
    fill(place,
      el("dl", { class: "facts" }, fact("Can be read at", view.lower ? `${whole(view.since)} to ${whole(view.lower - 1)}` : "nothing is closed yet"), fact("Times", view.times.join(", ")), fact("Keeps", `${plural(view.updates, "update")}, ${bytes(view.bytes)}`)),
      el("h3", {}, "Columns"), table(columns, view.columns.map((column) => [column.name, column.type, view.key.includes(column.name) ? "yes" : ""]), { caption: `Columns of ${name}` }),
      view.definition ? [el("h3", {}, "Statement"), el("pre", {}, view.definition)] : null);
  }, failed(place));
  asked.run();
  return { close: asked.close };
}

const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
