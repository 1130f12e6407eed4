"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.labels.length;
  if (!count) return;

  const steps = data.labels.map((_, index) => index);
  const views = Object.keys(data.changes_out);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faded = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const whole = (value) => (value == null ? "–" : value.toLocaleString("en"));
  const short = (value) => Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);

  function duration(seconds) {
    if (seconds == null) return "–";
    if (seconds >= 1) return +seconds.toPrecision(3) + " s";
    if (seconds >= 1e-3) return +(seconds * 1e3).toPrecision(3) + " ms";
    return +(seconds * 1e6).toPrecision(3) + " µs";
  }

  // 1, 2 and 5 of each decade: with steps of one decade a chart of similar times would show no number at all.
  function logSplits(_u, _axis, least, most) {
    const all = [];
    for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power++)
      for (const digit of [1, 2, 5]) all.push(+(digit * 10 ** power).toPrecision(1));
    return all.filter((value) => value >= least * 0.999 && value <= most * 1.001);
  }

  function logRange(_u, least, most) {
    return [Math.max(least, 1e-6) / 1.6, Math.max(most, 1e-6) * 1.6];
  }

  function axes(format, extra = {}) {
    const look = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
      font: "12px system-ui, 'DejaVu Sans', sans-serif",
    };
    const names = (_u, splits) => splits.map((at) => data.labels[at] ?? "");
    return [
      { ...look, values: names, incrs: [1, 2, 5, 7, 10, 14, 20, 28, 50, 100, 200, 500, 1000, 2000, 5000, 10000], space: 90, size: 36, grid: { show: false } },
      { ...look, size: 72, values: (_u, splits) => splits.map((value) => (value == null ? "" : format(value))), ...extra },
    ];
  }

  // Dashed lines with their names in the margin to the right, where no point can hide them; close ones are moved apart.
  function horizontals(lines) {
    return (u) => {
      const { ctx } = u;
      const px = uPlot.pxRatio;
      ctx.save();
      ctx.font = `600 ${12 * px}px system-ui, 'DejaVu Sans', sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.strokeStyle = ctx.fillStyle = colour("--mark");
      ctx.lineWidth = 1.5 * px;
      ctx.setLineDash([6 * px, 5 * px]);
      const right = u.bbox.left + u.bbox.width;
      let free = -Infinity;
      for (const [name, value] of lines) {
        const y = Math.round(u.valToPos(value, "y", true));
        ctx.beginPath();
        ctx.moveTo(u.bbox.left, y);
        ctx.lineTo(right, y);
        ctx.stroke();
        free = Math.max(y, free + 16 * px);
        ctx.fillText(`${name} ${duration(value)}`, right + 7 * px, free);
      }
      ctx.restore();
    };
  }

  const bars = uPlot.paths.bars({ size: [0.85, 40], gap: 1 });
  const x = { label: "step", value: (_u, at) => (at == null ? "–" : data.labels[at]) };

  const charts = {
    latency() {
      const ink = colour("--main");
      return {
        height: 280,
        padding: [12, 96, 0, 0],
        scales: { x: { time: false, range: margin }, y: { distr: 3, range: logRange } },
        axes: axes(duration, { splits: logSplits }),
        series: [x, { label: "time", stroke: ink, width: 1.25, points: { show: count < 400, size: 5, fill: ink }, value: (_u, v) => duration(v) }],
        hooks: { draw: [horizontals([["p99", data.p99], ["p50", data.p50]])] },
        data: [steps, data.seconds],
      };
    },

    changes() {
      const below = steps.map(() => 0);
      const stacks = views.map((view) => data.changes_out[view].map((value, index) => (below[index] += value)));
      // Drawn from the tallest stack down, each over the one before it, so that every bar shows its own share.
      const order = views.map((_, index) => index).reverse();
      const outs = order.map((index) => ({
        label: "out: " + views[index],
        stroke: colour(`--s${index % 7}`),
        fill: colour(`--s${index % 7}`),
        width: 0,
        paths: bars,
        points: { show: false },
        value: (_u, _v, _s, at) => whole(at == null ? null : data.changes_out[views[index]][at]),
      }));
      const ink = colour("--input");
      return {
        height: 300,
        padding: [12, 20, 0, 0],
        scales: { x: { time: false, range: margin }, y: { range: (_u, _least, most) => [0, Math.max(1, most) * 1.06] } },
        axes: axes(short),
        series: [x, ...outs, { label: "in", stroke: ink, width: count < 400 ? 2 : 1, points: { show: count === 1 }, value: (_u, v) => whole(v) }],
        data: [steps, ...order.map((index) => stacks[index]), data.changes_in],
      };
    },

    state() {
      const ink = colour("--main");
      return {
        height: 240,
        padding: [12, 20, 0, 0],
        scales: { x: { time: false, range: margin }, y: { range: (_u, _least, most) => [0, Math.max(1, most) * 1.06] } },
        axes: axes(short),
        series: [x, { label: "rows", stroke: ink, fill: faded(ink, 0.18), width: 1.75, points: { show: count === 1 }, value: (_u, v) => whole(v) }],
        data: [steps, data.state],
      };
    },
  };

  function margin(_u, least, most) {
    return count === 1 ? [-0.7, 0.7] : [least - 0.7, most + 0.7];
  }

  let drawn = [];
  function draw() {
    drawn.forEach((chart) => chart.destroy());
    drawn = Object.keys(charts).map((id) => {
      const place = document.getElementById(id);
      const { data: series, ...options } = charts[id]();
      const shape = { width: place.clientWidth, cursor: { y: false, drag: { x: true, y: false } }, ...options };
      return new uPlot(shape, series, place);
    });
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let due;
  addEventListener("resize", () => {
    clearTimeout(due);
    due = setTimeout(draw, 100);
  });
})();
