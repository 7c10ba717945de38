// From strokes to the points of a digit, as in MNIST: scaled to 20 of 28 pixels, centered by mass.

const SIDE = 28, BOX = 20, THRESHOLD = 0.1307 * 255;

// `strokes` are lists of [x, y] in the unit square; returns [row, column] / 27 for every bright pixel.
export function digitPoints(strokes, most) {
  const all = strokes.flat();
  if (!all.length) return [];
  const [left, right] = extent(all.map((p) => p[0])), [top, bottom] = extent(all.map((p) => p[1]));
  const scale = (BOX - 2) / Math.max(right - left, bottom - top, 0.05);
  const middle = [(left + right) / 2, (top + bottom) / 2];
  const first = render(strokes, scale, middle, [SIDE / 2, SIDE / 2]);
  const mass = center(first);
  const pixels = render(strokes, scale, middle, [SIDE - mass[0], SIDE - mass[1]]);
  const points = [];
  for (let row = 0; row < SIDE; row += 1)
    for (let column = 0; column < SIDE; column += 1)
      if (pixels[row * SIDE + column] > THRESHOLD) points.push([row / 27, column / 27]);
  return points.slice(0, most);
}

function render(strokes, scale, middle, to) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.lineCap = context.lineJoin = "round";
  context.lineWidth = 2.1;
  context.strokeStyle = "#fff";
  for (const stroke of strokes) {
    context.beginPath();
    stroke.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"]((x - middle[0]) * scale + to[0], (y - middle[1]) * scale + to[1]));
    if (stroke.length === 1) context.lineTo((stroke[0][0] - middle[0]) * scale + to[0] + 0.01, (stroke[0][1] - middle[1]) * scale + to[1]);
    context.stroke();
  }
  const data = context.getImageData(0, 0, SIDE, SIDE).data;
  return Float32Array.from({ length: SIDE * SIDE }, (_, i) => data[4 * i + 3]);
}

function center(pixels) {
  let x = 0, y = 0, total = 0;
  pixels.forEach((v, i) => {
    x += v * ((i % SIDE) + 0.5);
    y += v * (Math.floor(i / SIDE) + 0.5);
    total += v;
  });
  return total ? [x / total, y / total] : [SIDE / 2, SIDE / 2];
}

function extent(values) {
  return [Math.min(...values), Math.max(...values)];
}
