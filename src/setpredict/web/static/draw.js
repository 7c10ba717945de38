// One set on one canvas, according to its kind: points, boxes on an image, objects on an image, or numbers.

const MARGIN = 0.07;

export function colors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of("--ink"), ring: of("--ring"), accent: of("--accent"), right: of("--right"), wrong: of("--wrong"), line: of("--line") };
}

// Clear a canvas at the resolution of the screen; its coordinates are a square of side 1.
export function clear(canvas) {
  const side = Math.max(1, Math.round(canvas.clientWidth * (window.devicePixelRatio || 1)));
  if (canvas.width !== side || canvas.height !== side) canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  context.setTransform(side, 0, 0, side, 0, 0);
  context.clearRect(0, 0, 1, 1);
  return context;
}

// From data coordinates in the unit square to the canvas, and back.
export const put = (v) => MARGIN + v * (1 - 2 * MARGIN);
export const take = (v) => (v - MARGIN) / (1 - 2 * MARGIN);

export function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

// The points of a set, more transparent for smaller masks; `ghosts` are drawn as rings behind them, and `order` holds the
// indices of the features that are x and y.
export function drawPoints(canvas, elements, mask, { ghosts = [], order = [0, 1], up = false } = {}) {
  const context = clear(canvas), tone = colors();
  const many = elements.length > 60;
  const position = (e) => {
    const y = e.length > 1 ? e[order[1]] : 0.5;
    return [put(e.length > 1 ? e[order[0]] : e[0]), put(up ? 1 - y : y)];
  };
  context.strokeStyle = tone.ring;
  context.lineWidth = 0.008;
  for (const ghost of ghosts) {
    dot(context, ...position(ghost), many ? 0.012 : 0.038);
    context.stroke();
  }
  context.fillStyle = tone.accent;
  elements.forEach((element, i) => {
    if (mask[i] < 0.03) return;
    context.globalAlpha = 0.12 + 0.88 * mask[i];
    dot(context, ...position(element), (many ? 0.0115 : 0.024) * (0.6 + 0.4 * mask[i]));
    context.fill();
  });
  context.globalAlpha = 1;
}

export function drawImage(context, image) {
  if (!image) return;
  context.imageSmoothingEnabled = true;
  context.drawImage(image, 0, 0, 1, 1);
}

export function drawBoxes(canvas, image, elements, mask, matches, truth) {
  const context = clear(canvas);
  drawImage(context, image);
  if (truth) for (const box of truth) frame(context, box, "#ffffff", [0.006, 0.01], 0.008);
  elements.forEach((box, i) => {
    if (mask[i] < 0.1) return;
    const right = matches ? matches[i].right : true;
    context.globalAlpha = 0.25 + 0.75 * mask[i];
    frame(context, box, right ? "#35b3d4" : "#ff4d57", right ? [] : [0.03, 0.02], 0.011);
  });
  context.globalAlpha = 1;
}

function frame(context, box, color, dash, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.strokeRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
  context.setLineDash([]);
}

// Objects at their positions on the image: numbered rings, solid if all attributes are right.
export function drawObjects(canvas, image, positions, mask, matches, truth) {
  const context = clear(canvas);
  drawImage(context, image);
  if (truth) for (const [x, y] of truth) {
    context.strokeStyle = "#ffffff";
    context.lineWidth = 0.006;
    cross(context, x, y, 0.02);
  }
  const rows = matches || mask.map((score, element) => ({ element, score, right: true }));
  rows.forEach((row, number) => {
    if (row.score < 0.1 || !positions) return;
    const [x, y] = positions[row.element];
    context.globalAlpha = 0.25 + 0.75 * row.score;
    context.strokeStyle = row.right ? "#35b3d4" : "#ff4d57";
    context.lineWidth = 0.012;
    context.setLineDash(row.right ? [] : [0.03, 0.02]);
    dot(context, x, y, 0.05);
    context.stroke();
    context.setLineDash([]);
    label(context, String(number + 1), x, y);
  });
  context.globalAlpha = 1;
}

export function cross(context, x, y, radius) {
  context.beginPath();
  context.moveTo(x - radius, y);
  context.lineTo(x + radius, y);
  context.moveTo(x, y - radius);
  context.lineTo(x, y + radius);
  context.stroke();
}

function label(context, text, x, y) {
  context.save();
  context.scale(0.01, 0.01); // some browsers do not draw text of a fraction of a unit
  context.font = "600 5px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  context.strokeStyle = "rgba(0,0,0,.7)";
  context.strokeText(text, 100 * x, 100 * y);
  context.fillStyle = "#ffffff";
  context.fillText(text, 100 * x, 100 * y);
  context.restore();
}

// Elements of any kind as a heat map: one row per element, its mask first, darker for larger values.
export function drawNumbers(canvas, elements, mask) {
  const context = clear(canvas), tone = colors();
  const rows = Math.max(elements.length, 1), columns = (elements[0] || []).length + 1;
  context.fillStyle = tone.accent;
  elements.forEach((element, i) => {
    [mask[i], ...element].forEach((value, j) => {
      context.globalAlpha = Math.min(1, Math.max(0.03, value));
      context.fillRect(put(j / columns), put(i / rows), (j ? 0.8 : 0.6) / columns, 0.8 / rows);
    });
  });
  context.globalAlpha = 1;
}
