import { duration, short, whole } from "./format.js";

/** A colour of the style sheet as it is now; light and dark are resolved by the browser. */
export function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const faded = (rgb, share) => rgb.replace(/^rgb\(([^)]*)\)$/, (_all, parts) => `rgba(${parts}, ${share})`);
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";

// 1, 2 and 5 of each decade: with steps of one decade a chart of similar times would show no number at all.
function logSplits(_u, _axis, least, most) {
  const all = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power++)
    for (const digit of [1, 2, 5]) all.push(+(digit * 10 ** power).toPrecision(1));
  const inside = all.filter((value) => value >= least * 0.999 && value <= most * 1.001);
  return inside.length > 7 ? inside.filter((value) => /^1/.test(value.toExponential())) : inside;
}

function axes(format, extra = {}) {
  const look = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: FONT };
  return [
    { ...look, values: (_u, splits) => splits.map((at) => (Number.isInteger(at) ? whole(at) : "")), space: 70, size: 34, grid: { show: false } },
    { ...look, size: 62, values: (_u, splits) => splits.map((value) => (value == null ? "" : format(value))), ...extra },
  ];
}

// Dashed lines, with their names above them at the right end; close ones are moved apart.
function horizontals(lines) {
  return (u) => {
    const { ctx } = u;
    const px = uPlot.pxRatio;
    ctx.save();
    ctx.font = `600 ${11.5 * px}px system-ui, 'DejaVu Sans', sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.strokeStyle = ctx.fillStyle = colour("--mark");
    ctx.lineWidth = 1.25 * px;
    ctx.setLineDash([6 * px, 5 * px]);
    const right = u.bbox.left + u.bbox.width;
    let free = -Infinity;
    for (const [name, value] of lines()) {
      if (value == null) continue;
      const y = Math.round(u.valToPos(value, "y", true));
      ctx.beginPath();
      ctx.moveTo(u.bbox.left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
      free = Math.max(y, free + 15 * px);
      ctx.fillText(`${name} ${duration(value)}`, right + 6 * px, free);
    }
    ctx.restore();
  };
}

// Powers of ten, and zero: what a bulk load took and what one row took are seen in one chart.
function tens(_u, _axis, _least, most) {
  const all = [0];
  for (let at = 1; at <= most * 1.001; at *= 10) all.push(at);
  return all.length > 6 ? all.filter((_value, at) => at % 2 === 0) : all;
}

const fromZero = (_u, _least, most) => [0, Math.max(1, most) * 1.06];
const margin = (_u, least, most) => (least === most ? [least - 1, most + 1] : [least - 0.7, most + 0.7]);
const label = { label: "step", value: (_u, at) => (at == null ? "–" : whole(at)) };

/** The options of each chart; `many` says that there are more points than dots would tell apart. */
export const kinds = {
  latency(many, lines) {
    const ink = colour("--main");
    return {
      height: 250,
      padding: [14, 92, 0, 0],
      scales: { x: { time: false, range: margin }, y: { distr: 3, range: (_u, least, most) => [Math.max(least, 1e-6) / 1.6, Math.max(most, 1e-6) * 1.6] } },
      axes: axes(duration, { splits: logSplits }),
      series: [label, { label: "time", stroke: faded(ink, many ? 0.8 : 0.4), width: 1.25, points: { show: !many, size: 5, fill: ink, stroke: ink }, value: (_u, v) => duration(v) }],
      hooks: { draw: [horizontals(lines)] },
    };
  },

  rows(many) {
    const [going, coming] = [colour("--s2"), colour("--main")];
    return {
      height: 250,
      padding: [14, 16, 0, 0],
      scales: { x: { time: false, range: margin }, y: { distr: 4, asinh: 1, range: (_u, _least, most) => [0, Math.max(1, most) * 1.4] } },
      axes: axes(short, { splits: tens }),
      series: [
        label,
        { label: "in", stroke: faded(coming, many ? 0.8 : 0.4), width: 1.25, points: { show: !many, size: 5, fill: coming, stroke: coming }, value: (_u, v) => whole(v) },
        { label: "out, all views", stroke: faded(going, many ? 0.8 : 0.4), width: 1.25, points: { show: !many, size: 5, fill: going, stroke: going }, value: (_u, v) => whole(v) },
      ],
    };
  },

  state(many) {
    const ink = colour("--s5");
    return {
      height: 250,
      padding: [14, 16, 0, 0],
      scales: { x: { time: false, range: margin }, y: { range: fromZero } },
      axes: axes(short),
      series: [label, { label: "updates kept", stroke: ink, fill: faded(ink, 0.14), width: 1.75, points: { show: false }, value: (_u, v) => whole(v) }],
    };
  },
};

/** A chart in a place, as wide as it; `set` shows other data, `close` takes it away. */
export function chart(place, options, data) {
  const drawn = new uPlot({ width: Math.max(place.clientWidth, 200), cursor: { y: false, drag: { x: false, y: false } }, ...options }, data, place);
  // Where nothing is pointed at, the legend tells the last step.
  const tellLast = () => place.contains(drawn.root) && drawn.setLegend({ idx: drawn.data[0].length - 1 });
  drawn.over.addEventListener("mouseleave", () => setTimeout(tellLast));
  setTimeout(tellLast); // it draws itself a moment after this
  const watcher = new ResizeObserver(() => {
    if (place.clientWidth && Math.abs(place.clientWidth - drawn.width) > 1) drawn.setSize({ width: place.clientWidth, height: options.height });
  });
  watcher.observe(place);
  return {
    set(next) {
      drawn.setData(next);
      if (drawn.cursor.idx == null) tellLast();
    },
    close() {
      watcher.disconnect();
      drawn.destroy();
    },
  };
}
