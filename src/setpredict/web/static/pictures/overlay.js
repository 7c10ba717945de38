// Boxes and objects on an image. All positions are fractions of its width and height.

import { clear, cross, dot } from "./draw.js";

export const RIGHT = "#4cc3ff", WRONG = "#ff5a5f", UNJUDGED = "#ffd24d", TRUTH = "#ffffff";
const CASING = "rgba(0, 0, 0, .65)";

export function drawImage(canvas, image, smooth = true) {
  const context = clear(canvas);
  if (!image) return context;
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, 1, canvas.height / canvas.width);
  return context;
}

// A line with a dark one behind it, to be seen on any image.
function twice(context, color, width, dash, path) {
  for (const [style, wide] of [[CASING, width + 0.008], [color, width]]) {
    context.strokeStyle = style;
    context.lineWidth = wide;
    context.setLineDash(style === CASING ? [] : dash);
    path();
    context.stroke();
  }
  context.setLineDash([]);
}

const look = (judged, right) => (judged ? (right ? [RIGHT, []] : [WRONG, [0.022, 0.016]]) : [UNJUDGED, []]);

export function drawBoxes(canvas, image, elements, mask, { right = null, truth = null, labels = null } = {}) {
  const context = drawImage(canvas, image), high = canvas.height / canvas.width;
  const outline = ([left, top, far, bottom]) => () => {
    context.beginPath();
    context.rect(left, top * high, far - left, (bottom - top) * high);
  };
  for (const box of truth || []) twice(context, TRUTH, 0.004, [0.006, 0.01], outline(box));
  elements.forEach((box, i) => {
    if (mask[i] < 0.1) return;
    context.globalAlpha = mask[i] > 0.5 ? 1 : 0.15 + 0.5 * mask[i];
    twice(context, ...withWidth(look(right, right?.has(i)), 0.009), outline(box));
    if (labels?.[i] && mask[i] > 0.5) label(context, labels[i], box[0] + 0.008, box[1] * high + 0.022, "left");
  });
  context.globalAlpha = 1;
}

// Numbered rings; `rows` are {element, score} in the order of their numbers.
export function drawObjects(canvas, image, positions, rows, { right = null, truth = null } = {}) {
  const context = drawImage(canvas, image), high = canvas.height / canvas.width;
  for (const [x, y] of truth || []) twice(context, TRUTH, 0.006, [], () => cross(context, x, y * high, 0.018));
  rows.forEach(({ element, score }, number) => {
    if (score < 0.1) return;
    const [x, y] = positions[element];
    context.globalAlpha = score > 0.5 ? 1 : 0.15 + 0.5 * score;
    twice(context, ...withWidth(look(right, right?.has(element)), 0.01), () => dot(context, x, y * high, 0.036));
    label(context, String(number + 1), x, y * high);
  });
  context.globalAlpha = 1;
}

// Points on an image, wrong ones as crosses; `order` holds the indices of the features that are x and y.
export function drawSpots(canvas, image, elements, mask, { right = null, truth = null, order = [0, 1] } = {}) {
  const context = drawImage(canvas, image), high = canvas.height / canvas.width;
  const at = (e) => [e[order[0]], e[order[1]] * high];
  for (const e of truth || []) twice(context, TRUTH, 0.006, [], () => dot(context, ...at(e), 0.026));
  elements.forEach((e, i) => {
    if (mask[i] < 0.1) return;
    context.globalAlpha = mask[i] > 0.5 ? 1 : 0.15 + 0.5 * mask[i];
    const isWrong = right && !right.has(i), [color] = look(right, !isWrong);
    twice(context, color, 0.008, [], () => (isWrong ? cross(context, ...at(e), 0.014) : dot(context, ...at(e), 0.01)));
  });
  context.globalAlpha = 1;
}

const withWidth = ([color, dash], width) => [color, width, dash];

function label(context, text, x, y, align = "center") {
  context.save();
  context.scale(0.01, 0.01); // some browsers do not draw text of a fraction of a unit
  context.font = "650 3.9px system-ui, sans-serif";
  context.textAlign = align;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  context.lineJoin = "round";
  context.strokeStyle = "rgba(0, 0, 0, .8)";
  context.strokeText(text, 100 * x, 100 * y);
  context.fillStyle = "#ffffff";
  context.fillText(text, 100 * x, 100 * y);
  context.restore();
}
