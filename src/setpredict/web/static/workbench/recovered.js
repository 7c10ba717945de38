// How many elements of a set were found.

const NEAR = 0.03;

// Which predicted points are recovered: the most pairs of a true and a predicted point that are near each other, each
// point in one pair. `order` holds the indices of predicted points; paths are augmented one true point at a time (Kuhn).
// Only the first `coordinates` features count: others are categories.
export function pairUp(truth, elements, order, { near = NEAR, coordinates = Infinity } = {}) {
  const distance = (a, b) => Math.hypot(...a.slice(0, coordinates).map((v, k) => v - b[k]));
  const neighbors = truth.map((t) => order.filter((i) => distance(t, elements[i]) <= near));
  const partner = new Map();
  const place = (t, seen) =>
    neighbors[t].some((i) => {
      if (seen.has(i)) return false;
      seen.add(i);
      if (partner.has(i) && !place(partner.get(i), seen)) return false;
      partner.set(i, t);
      return true;
    });
  truth.forEach((_, t) => place(t, new Set()));
  return new Set(partner.keys());
}

// {right: Set of elements, total} of one step of an answer; null where elements are not judged one by one.
export function judge(model, answer, step, truth) {
  const mask = answer.mask[step], matches = answer.matches?.[step];
  if (matches?.length) {
    const right = new Set(matches.filter((m) => m.right).map((m) => m.element));
    return { right, total: answer.target.elements.length };
  }
  if (!truth || (model.kind !== "points" && model.kind !== "polygons")) return null;
  const present = mask.map((_, i) => i).filter((i) => mask[i] > 0.5);
  return { right: pairUp(truth, answer.elements[step], present, { coordinates: model.coordinates }), total: truth.length };
}
