// Primitives of all pictures on a canvas, and the points of a set.

const MARGIN = 0.07;
const MANY = 60;

export function colors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "ring", "accent", "wrong"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Clear a canvas at the resolution of the screen. The unit of its coordinates is its width.
export function clear(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * scale)), height = Math.max(1, Math.round(canvas.clientHeight * scale));
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  context.setTransform(width, 0, 0, width, 0, 0);
  context.clearRect(0, 0, 1, height / width);
  return context;
}

// From data coordinates in the unit square to the canvas, and back.
export const put = (v) => MARGIN + v * (1 - 2 * MARGIN);
export const take = (v) => (v - MARGIN) / (1 - 2 * MARGIN);

export function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

export function cross(context, x, y, radius) {
  context.beginPath();
  context.moveTo(x - radius, y);
  context.lineTo(x + radius, y);
  context.moveTo(x, y - radius);
  context.lineTo(x, y + radius);
  context.stroke();
}

function diamond(context, x, y, radius) {
  context.beginPath();
  context.moveTo(x, y - radius);
  context.lineTo(x + radius, y);
  context.lineTo(x, y + radius);
  context.lineTo(x - radius, y);
  context.closePath();
}

// The points of a set, more transparent for smaller masks. `ghosts` are rings behind them; `order` holds the indices of
// the features that are x and y; of few points, those that are not in `right` (if it is given) are red diamonds.
export function drawPoints(canvas, elements, mask, { ghosts = [], order = [0, 1], up = false, right = null } = {}) {
  const context = clear(canvas), tone = colors();
  const many = elements.length > MANY;
  const position = (e) => {
    const y = e.length > 1 ? e[order[1]] : 0.5;
    return [put(e.length > 1 ? e[order[0]] : e[0]), put(up ? 1 - y : y)];
  };
  context.strokeStyle = tone.ring;
  context.lineWidth = many ? 0.005 : 0.009;
  for (const ghost of ghosts) {
    dot(context, ...position(ghost), many ? 0.012 : 0.042);
    context.stroke();
  }
  elements.forEach((element, i) => {
    if (mask[i] < 0.03) return;
    const wrong = right && !many && !right.has(i) && mask[i] > 0.5;
    const radius = (many ? 0.0115 : 0.026) * (0.6 + 0.4 * mask[i]);
    context.globalAlpha = 0.12 + 0.88 * mask[i];
    context.fillStyle = wrong ? tone.wrong : tone.accent;
    if (wrong) diamond(context, ...position(element), 1.2 * radius);
    else dot(context, ...position(element), radius);
    context.fill();
  });
  context.globalAlpha = 1;
}

// Numbers of any kind as a heat map: one row per element, its mask first if there is one, darker for larger values.
export function drawNumbers(canvas, elements, mask = null) {
  const context = clear(canvas), tone = colors();
  const rows = Math.max(elements.length, 1), first = mask ? 1 : 0, columns = (elements[0] || []).length + first;
  const all = elements.flat(), low = Math.min(0, ...all), high = Math.max(1, ...all);
  const inner = 1 - 2 * MARGIN, gap = rows > 1 ? (0.12 * inner) / rows : 0;
  const paint = (value, i, j, wide) => {
    context.globalAlpha = Math.min(1, Math.max(0.04, value));
    context.fillRect(put(j / columns), put(i / rows), (wide * inner) / columns, inner / rows - gap);
  };
  elements.forEach((element, i) => {
    context.fillStyle = tone.ink;
    if (mask) paint(mask[i], i, 0, 0.6);
    context.fillStyle = tone.accent;
    element.forEach((value, j) => paint((value - low) / (high - low), i, j + first, 0.85));
  });
  context.globalAlpha = 1;
}
