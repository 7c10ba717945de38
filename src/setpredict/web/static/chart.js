// The representation loss by step, on a logarithmic scale, with a mark at the current step.

const NS = "http://www.w3.org/2000/svg";
const H = 176, LEFT = 46, RIGHT = 8, TOP = 10, BOTTOM = 24;

export function drawChart(svg, series, step, steps, trained) {
  const W = Math.max(svg.clientWidth, 200); // one unit is one pixel, so that text is not distorted
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.replaceChildren();
  const values = series.flatMap((s) => s.values).filter((v) => v > 0);
  if (!values.length) return;
  const low = Math.floor(Math.log10(Math.max(Math.min(...values), 1e-12))), high = Math.ceil(Math.log10(Math.max(...values)) + 1e-9);
  const x = (t) => LEFT + ((W - LEFT - RIGHT) * t) / Math.max(steps, 1);
  const y = (v) => TOP + ((H - TOP - BOTTOM) * (high - Math.log10(Math.max(v, 1e-12)))) / Math.max(high - low, 1);
  const every = Math.ceil((high - low) / 4) || 1;
  for (let power = low; power <= high; power += every) {
    add(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(10 ** power), y2: y(10 ** power) });
    add(svg, "text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`);
  }
  for (const t of ticks(steps)) add(svg, "text", { x: x(t), y: H - 6, "text-anchor": "middle" }, String(t));
  for (const t of new Set(trained.filter((t) => t > 0 && t <= steps))) {
    add(svg, "line", { class: "trained", x1: x(t), x2: x(t), y1: TOP, y2: H - BOTTOM });
    add(svg, "text", { x: x(t) + 4, y: TOP + 10 }, `trained: ${t}`);
  }
  for (const s of series) {
    const points = s.values.map((v, t) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`);
    add(svg, "path", { class: `s${s.style}`, d: `M${points.join("L")}` });
  }
  add(svg, "line", { class: "now", x1: x(step), x2: x(step), y1: TOP, y2: H - BOTTOM });
}

function ticks(steps) {
  const every = [1, 2, 5, 10, 20, 50].find((n) => steps / n <= 8) || 100;
  return Array.from({ length: Math.floor(steps / every) + 1 }, (_, i) => i * every);
}

function add(svg, tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  svg.append(node);
}
