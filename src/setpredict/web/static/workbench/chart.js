// The representation loss by step, relative to step 0, on a logarithmic scale, with a mark at the current step.

import { add, blank, decades, powerText, ticks } from "../pictures/svg.js";

const H = 180, LEFT = 46, RIGHT = 12, TOP = 22, BOTTOM = 36; // labels of lines stand above the plot

const across = (W, t, steps) => LEFT + ((W - LEFT - RIGHT) * t) / Math.max(steps, 1);

// `series` are {name, style, values}; encoders have scales of their own, so each is divided by its first value.
export function drawChart(svg, series, steps, trained) {
  const W = blank(svg, H);
  const lines = series.filter((s) => s.values[0] > 0).map((s) => ({ ...s, values: s.values.map((v) => v / s.values[0]) }));
  const values = lines.flatMap((s) => s.values).filter((v) => v > 0);
  if (!values.length) return;
  const { low, high, powers } = decades(values);
  const x = (t) => across(W, t, steps);
  const y = (v) => TOP + ((H - TOP - BOTTOM) * (high - Math.log10(Math.max(v, 10 ** low)))) / (high - low);
  for (const power of powers) {
    add(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(10 ** power), y2: y(10 ** power) });
    add(svg, "text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, powerText(power));
  }
  for (const t of ticks(steps)) add(svg, "text", { x: x(t), y: H - BOTTOM + 16, "text-anchor": "middle" }, String(t));
  add(svg, "text", { x: (LEFT + W - RIGHT) / 2, y: H - 3, "text-anchor": "middle" }, "step");
  for (const s of lines) {
    const points = s.values.map((v, t) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`);
    add(svg, "path", { class: `s${s.style}`, d: `M${points.join("L")}` });
  }
  for (const t of new Set(trained.filter((t) => t > 0 && t <= steps))) {
    add(svg, "line", { class: "trained", x1: x(t), x2: x(t), y1: TOP - 8, y2: H - BOTTOM });
    const late = x(t) > W - 90;
    add(svg, "text", { x: x(t) + (late ? -4 : 4), y: TOP - 8, "text-anchor": late ? "end" : "start" }, `trained: ${t}`);
  }
  add(svg, "line", { class: "now", y1: TOP, y2: H - BOTTOM });
}

export function moveMark(svg, step, steps) {
  const mark = svg.querySelector(".now");
  if (!mark) return;
  const x = across(Math.max(svg.clientWidth, 200), step, steps);
  mark.setAttribute("x1", x);
  mark.setAttribute("x2", x);
}
