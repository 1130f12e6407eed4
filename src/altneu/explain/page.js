"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [stage, sheet, panel, find, found] = ["stage", "sheet", "panel", "find", "found"].map((id) => document.getElementById(id));
  const svg = sheet.querySelector("svg");
  const size = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const LEGIBLE = 0.62;

  // Moving and scaling --------------------------------------------------------------------------------------------

  const pan = Panzoom(sheet, { canvas: true, origin: "0 0", minScale: 0.02, maxScale: 8, step: 0.25, duration: 120, cursor: "" });
  const scaleToFit = () => Math.min(stage.clientWidth / size.width, stage.clientHeight / size.height, 1);

  // Panzoom moves before it scales, so that what it is told is in the picture's own units.
  function show(scale, x, y) {
    pan.zoom(scale, { animate: false });
    pan.pan(stage.clientWidth / 2 / scale - x, y, { animate: false, force: true });
  }

  function fit(least) {
    const scale = Math.max(scaleToFit(), least);
    const room = stage.clientHeight / scale - size.height;
    show(scale, size.width / 2, Math.max(room / 2, 0));
  }

  function centre(group) {
    const box = group.getBoundingClientRect(), around = stage.getBoundingClientRect(), at = pan.getPan(), scale = pan.getScale();
    const dx = around.left + around.width / 2 - (box.left + box.width / 2), dy = around.top + around.height / 2 - (box.top + box.height / 2);
    pan.pan(at.x + dx / scale, at.y + dy / scale, { animate: true, force: true });
  }

  const zoomed = (factor) => {
    const around = stage.getBoundingClientRect();
    const point = { clientX: around.left + around.width / 2, clientY: around.top + around.height / 2 };
    pan.zoomToPoint(pan.getScale() * factor, point, { animate: false });
  };
  stage.addEventListener("wheel", pan.zoomWithWheel, { passive: false });
  document.getElementById("in").addEventListener("click", () => zoomed(1.4));
  document.getElementById("out").addEventListener("click", () => zoomed(1 / 1.4));
  document.getElementById("fit").addEventListener("click", () => fit(0));
  document.getElementById("full").addEventListener("click", () => fit(1));

  // Choosing ------------------------------------------------------------------------------------------------------

  const groups = new Map();
  for (const group of svg.querySelectorAll("[data-operator]")) groups.set(group.dataset.operator, group);
  for (const group of svg.querySelectorAll("[data-view]")) groups.set("view " + group.dataset.view, group);
  const lines = [...svg.querySelectorAll("[data-from]")];

  function made(tag, text, className) {
    const element = document.createElement(tag);
    element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function choose(id, move) {
    svg.querySelectorAll(".chosen").forEach((element) => element.classList.remove("chosen"));
    const told = id && data[id];
    panel.hidden = !told;
    panel.replaceChildren();
    if (!told) return;
    groups.get(id).classList.add("chosen");
    lines.filter((l) => l.dataset.from === id || l.dataset.to === id).forEach((l) => l.classList.add("chosen"));
    const close = made("button", "×", "close");
    close.title = "Close";
    close.addEventListener("click", () => choose(null));
    const list = document.createElement("dl");
    for (const [name, value] of told.details.filter(([name]) => name !== "operator")) list.append(made("dt", name), made("dd", value));
    panel.append(close, made("h2", told.label), list);
    for (const [title, ids] of [["reads", told.inputs], ["is read by", told.readers]]) {
      if (!ids.length) continue;
      list.append(made("dt", title));
      for (const other of ids) {
        const go = made("button", data[other].label, "go");
        go.addEventListener("click", () => choose(other, true));
        list.append(go);
      }
    }
    if (move) centre(groups.get(id));
  }

  let pressed = { x: 0, y: 0 };
  stage.addEventListener("pointerdown", (event) => { pressed = { x: event.clientX, y: event.clientY }; }, true);
  stage.addEventListener("click", (event) => {
    if (Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > 5) return;
    const group = event.target.closest("[data-operator], [data-view]");
    choose(group && (group.dataset.operator ?? "view " + group.dataset.view));
  });
  svg.addEventListener("keydown", (event) => {
    const group = event.target.closest("[data-operator], [data-view]");
    if (group && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(group.dataset.operator ?? "view " + group.dataset.view);
    }
  });
  svg.addEventListener("focusin", (event) => {
    if (!event.target.matches(":focus-visible")) return;
    const box = event.target.getBoundingClientRect(), around = stage.getBoundingClientRect();
    const inside = box.left >= around.left && box.right <= around.right && box.top >= around.top && box.bottom <= around.bottom;
    if (!inside) centre(event.target);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });

  // Finding -------------------------------------------------------------------------------------------------------

  let hits = [];
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    hits = wanted ? Object.keys(data).filter((id) => data[id].words.includes(wanted)) : [];
    for (const [id, group] of groups) group.classList.toggle("dim", Boolean(wanted) && !hits.includes(id));
    found.textContent = wanted ? hits.length + " found" : "";
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    hits.push(hits.shift());
    choose(hits[hits.length - 1], true);
  });

  setTimeout(() => fit(LEGIBLE)); // after Panzoom has put the picture where it begins by itself
})();
