// One step of one answer on one canvas, according to the kind of its elements.

import { drawNumbers, drawPoints } from "./draw.js";
import { drawBoxes, drawObjects, drawSpots } from "./overlay.js";

// The indices of the features that are x and y.
export const axesOf = (model) => (model.feature_names[0] === "row" ? [1, 0] : [0, 1]);

// The elements and masks at a time between two steps, on the straight line between theirs.
export function between(answer, time) {
  const step = Math.min(Math.floor(time + 1e-6), answer.steps), part = time - step;
  const elements = answer.elements[step], mask = answer.mask[step];
  if (step === answer.steps || part < 1e-3) return { elements, mask, positions: answer.positions?.[step] };
  const mix = (a, b) => a.map((v, i) => v + part * (b[i] - v));
  const each = (all) => all[step].map((e, i) => mix(e, all[step + 1][i]));
  return { elements: each(answer.elements), mask: mix(mask, answer.mask[step + 1]), positions: answer.positions && each(answer.positions) };
}

// How the elements of a model are drawn; `placed` is whether its answers have positions on an image.
export function drawnAs(model, placed) {
  if (model.kind === "boxes") return "boxes";
  if (placed) return "objects";
  if (!["points", "polygons"].includes(model.kind) || model.coordinates > 2) return "numbers";
  return model.input_kind === "image" && model.coordinates === 2 ? "spots" : "points";
}

// `look` is what is drawn with the set: {ghosts, up, image, truth}; `judged` comes from recovered.js.
export function drawAnswer(canvas, model, answer, time, look, judged) {
  const { elements, mask, positions } = between(answer, time), right = judged?.right;
  const truth = look.truth ? answer.target : null;
  const step = Math.min(Math.floor(time + 1e-6), answer.steps);
  const labels = () => answer.text?.[step].map((cells) => cells.slice(1).join(" ")), order = axesOf(model);
  const DRAW = {
    boxes: () => drawBoxes(canvas, look.image, elements, mask, { right, truth: truth?.elements, labels: labels() }),
    objects: () => drawObjects(canvas, look.image, positions, rowsOf(answer, step), { right, truth: truth?.positions }),
    spots: () => drawSpots(canvas, look.image, elements, mask, { right, truth: truth?.elements, order }),
    points: () => drawPoints(canvas, elements, mask, { order, ghosts: look.ghosts || truth?.elements || [], up: look.up, right }),
    numbers: () => drawNumbers(canvas, elements, mask),
  };
  DRAW[drawnAs(model, positions)]();
}

// The elements of one step in the order in which they are numbered: like the true ones, or as predicted.
export function rowsOf(answer, step) {
  const matches = answer.matches?.[step];
  return matches?.length ? matches : answer.mask[step].map((score, element) => ({ element, score }));
}
