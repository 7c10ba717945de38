// Polygons at every angle of one period: the error of a model at each, and where its output jumps.

import { decode } from "../api.js";

const FEWEST = 3, MOST = 8;
const AT_ONCE = 8; // requests at a time: the server decodes them in one batch and keeps room for others
export const COUNT = 120; // intervals per period
export const JUMP = 10; // a jump: the output moves this many times as far as the corners do

// The input: cos nθ, sin nθ and the number of corners as one-hot, so that equal polygons have equal inputs.
export const inputOf = (n, angle) => [Math.cos(n * angle), Math.sin(n * angle), ...Array.from({ length: MOST - FEWEST + 1 }, (_, i) => (i + FEWEST === n ? 1 : 0))];

export const cornersOf = (n, angle) =>
  Array.from({ length: n }, (_, i) => [0.5 + 0.5 * Math.cos(angle + (2 * Math.PI * i) / n), 0.5 + 0.5 * Math.sin(angle + (2 * Math.PI * i) / n)]);

// A rotation by 360°/n gives the same polygon.
export const periodOf = (n) => 360 / n;

const nearest = (p, set) => Math.min(...set.map((q) => Math.hypot(p[0] - q[0], p[1] - q[1])));
const nearests = (a, b) => a.map((p) => nearest(p, b));

// The mean distance from a corner to the nearest predicted one, and the other way around.
export function errorOf(predicted, truth) {
  if (!predicted.length) return 1;
  const both = [nearests(truth, predicted), nearests(predicted, truth)];
  return both.map((d) => d.reduce((a, b) => a + b) / d.length).reduce((a, b) => a + b) / 2;
}

// How far two sets are apart: the largest distance from an element of one to the other (Hausdorff).
export const apart = (a, b) => (a.length && b.length ? Math.max(...nearests(a, b), ...nearests(b, a)) : a.length === b.length ? 0 : 1);

// {errors (COUNT + 1), jumps in degrees} of a model as trained; null if `isStale()` becomes true meanwhile.
export async function sweep(model, n, isStale) {
  const angles = Array.from({ length: COUNT + 1 }, (_, i) => ((i / COUNT) * periodOf(n) * Math.PI) / 180);
  const sets = [];
  while (sets.length < angles.length) {
    const part = angles.slice(sets.length, sets.length + AT_ONCE);
    const answers = await Promise.all(part.map((angle) => decode(model.name, { vector: inputOf(n, angle) })));
    if (isStale()) return null;
    for (const { elements, mask } of answers) sets.push(elements.at(-1).filter((_, i) => mask.at(-1)[i] > 0.5));
  }
  const moved = Math.sin((angles[1] - angles[0]) / 2); // a chord of a circle of radius ½
  const ratios = sets.slice(1).map((set, i) => apart(sets[i], set) / moved);
  const jumps = peaks(ratios).map((i) => ((i + 0.5) / COUNT) * periodOf(n));
  return { errors: sets.map((set, i) => errorOf(set, cornersOf(n, angles[i]))), jumps };
}

// The indices of values of at least JUMP; of those close together only the largest.
export function peaks(ratios) {
  const large = ratios.map((_, i) => i).filter((i) => ratios[i] >= JUMP).sort((a, b) => ratios[b] - ratios[a]);
  const kept = [];
  for (const i of large) if (kept.every((k) => Math.abs(k - i) > COUNT / 15)) kept.push(i);
  return kept.sort((a, b) => a - b);
}
