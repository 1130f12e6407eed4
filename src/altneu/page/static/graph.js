import { get } from "./api.js";
import { asking } from "./asking.js";
import { el, fill } from "./dom.js";
import { whole } from "./format.js";

const KEPT = /^[\d,]+ updates/;

export function show(place, known, [chosen]) {
  const view = chosen && known.session.views.some((found) => found.name === chosen) ? chosen : "";
  let plan = null;
  let picture = null;
  let zoom = 1;
  let before = new Map(); // rows that came out of each operator, as they were last seen
  let told = new Map();
  let selected = null;

  const choose = el("select", { "aria-label": "Views shown", onchange: () => (location.hash = choose.value ? `#/graph/${encodeURIComponent(choose.value)}` : "#/graph") },
    el("option", { value: "" }, "All views"), known.session.views.map((found) => el("option", { value: found.name, selected: found.name === view }, found.name)));
  const button = (label, name, act) => el("button", { type: "button", class: "plain", title: name, "aria-label": name, onclick: act }, label);
  const stage = el("div", { class: "stage", tabIndex: 0, role: "region", "aria-label": "Graph of operators" }, el("p", { class: "soft" }, "drawing …"));
  const panel = el("aside", { class: "panel", "aria-live": "polite" });
  fill(place, el("h1", { class: "hidden" }, "Graph"),
    el("section", {},
      el("div", { class: "tools" }, choose, button("−", "Smaller", () => scale(zoom / 1.25)), button("+", "Larger", () => scale(zoom * 1.25)), button("Fit", "Fit into the page", fit), el("span", { class: "note" }, "Choose an operator to see what it keeps and did."), el("span", { class: "space" }),
        el("span", { class: "note legend" }, el("i", { class: "incremental" }, "incremental"), el("i", { class: "bounded" }, "bounded"), el("i", { class: "full" }, "full"))),
      el("div", { class: "drawn" }, stage, panel)));
  dragged(stage);
  stage.addEventListener("click", (event) => pick(event.target));
  stage.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") pick(event.target) && event.preventDefault();
    if (event.key === "Escape") select(null);
  });
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scale(zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15), event);
  }, { passive: false });
  select(null);

  /** Draw it larger or smaller; what is at a point, or else in the middle, stays where it is. */
  function scale(next, point = null) {
    if (!picture) return;
    const place = stage.getBoundingClientRect();
    const [x, y] = point ? [point.clientX - place.left, point.clientY - place.top] : [stage.clientWidth / 2, stage.clientHeight / 2];
    const before = zoom;
    zoom = Math.min(3, Math.max(0.1, next));
    const { width, height } = picture.viewBox.baseVal;
    picture.setAttribute("width", width * zoom);
    picture.setAttribute("height", height * zoom);
    stage.scrollLeft = (stage.scrollLeft + x) * (zoom / before) - x;
    stage.scrollTop = (stage.scrollTop + y) * (zoom / before) - y;
  }

  function fit() {
    if (!picture) return;
    const { width, height } = picture.viewBox.baseVal;
    scale(Math.min(1, Math.max((stage.clientWidth - 4) / width, 0.35), Math.max((stage.clientHeight - 4) / height, (stage.clientWidth - 4) / width)));
  }

  function draw(text) {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    for (const style of parsed.querySelectorAll("style, script")) style.remove(); // the style is picture.css
    picture = document.importNode(parsed, true);
    fill(stage, picture);
    for (const group of groups("view")) {
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "link");
      group.setAttribute("aria-label", `View ${group.dataset.view}: its rows`);
    }
    fit();
    select(selected);
  }

  function groups(kind) {
    return picture ? [...picture.querySelectorAll(`[data-${kind}]`)] : [];
  }

  function update(found) {
    told = new Map(found.operators.map((operator) => [operator.id, operator]));
    const rowsOf = (operator) => operator.total?.rows_out ?? 0;
    const moved = found.operators.some((operator) => rowsOf(operator) !== (before.get(operator.id) ?? rowsOf(operator)));
    const flowing = new Set();
    for (const group of groups("operator")) {
      const operator = told.get(group.dataset.operator);
      if (!operator) continue;
      for (const text of group.querySelectorAll("text")) {
        if (operator.retained && KEPT.test(text.textContent)) text.textContent = operator.retained;
        else if (operator.did && text.classList.contains("measured")) text.textContent = operator.did;
        else continue;
        fitted(text, group);
      }
      const more = rowsOf(operator) - (before.get(operator.id) ?? rowsOf(operator));
      if (more > 0) flowing.add(operator.id);
      if (moved) badge(group, more);
    }
    if (moved) for (const edge of groups("from")) edge.classList.toggle("flows", flowing.has(edge.dataset.from));
    before = new Map(found.operators.map((operator) => [operator.id, rowsOf(operator)]));
    if (selected) select(selected);
  }

  function pick(target) {
    const view = target.closest?.("[data-view]");
    if (view) return (location.hash = `#/views/${encodeURIComponent(view.dataset.view)}/rows`);
    const group = target.closest?.("[data-operator]");
    if (!group) return false;
    select(group.dataset.operator);
    return true;
  }

  function select(id) {
    selected = told.has(id) ? id : null;
    for (const group of groups("operator")) group.classList.toggle("chosen", group.dataset.operator === selected);
    for (const edge of groups("from")) edge.classList.toggle("chosen", edge.dataset.from === selected || edge.dataset.to === selected);
    panel.classList.toggle("open", Boolean(selected));
    const operator = told.get(selected);
    fill(panel, operator
      ? [el("div", { class: "title" }, el("h2", {}, operator.label), el("span", { class: "space" }), button("×", "Close", () => select(null))),
         el("dl", { class: "details" }, operator.details.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))]
      : null);
  }

  const asked = asking(async (signal) => {
    const found = await get("graph", { view, picture: picture ? 0 : 1 }, signal);
    if (picture && found.plan !== plan) {
      picture = null;
      return asked.run();
    }
    plan = found.plan;
    if (found.picture) draw(found.picture);
    update(found);
  }, (error) => (error.silent && picture) || fill(stage, el("p", { class: "error" }, error.message)));
  asked.run();
  return { update: asked.run, close: asked.close };
}

/** Squeeze a text that has become longer than its box. */
function fitted(text, group) {
  text.removeAttribute("textLength");
  const room = group.querySelector(".box").getBBox().width - 20;
  if (room <= 0 || text.getComputedTextLength() <= room) return; // nothing has a width while the tab is hidden
  text.setAttribute("textLength", room);
  text.setAttribute("lengthAdjust", "spacingAndGlyphs");
}

/** Say beside an operator how many rows came out of it just now. */
function badge(group, rows) {
  let text = group.querySelector(".flow");
  if (!rows) {
    text?.remove();
    return;
  }
  if (!text) {
    const box = group.querySelector(".box").getBBox();
    text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("class", "flow");
    text.setAttribute("x", box.x + box.width / 2 + 10);
    text.setAttribute("y", box.y + box.height + 15);
    group.append(text);
  }
  text.textContent = `↓ ${whole(rows)}`;
}

/** Move what is larger than its place by dragging it; a click stays a click. */
function dragged(stage) {
  let from = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) from = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop };
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    stage.scrollLeft = from.left - (event.clientX - from.x);
    stage.scrollTop = from.top - (event.clientY - from.y);
  });
  addEventListener("pointerup", () => (from = null));
}
