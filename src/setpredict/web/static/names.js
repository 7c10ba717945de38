// What models are called, the same on their cards, in the chart and in tables.

const KINDS = { boxes: "boxes", states: "objects", points: "points", polygons: "corners", vectors: "elements" };

// What the elements of a model are called.
export const elementsOf = (model) => KINDS[model.kind] || "elements";

export const counted = (number, model) => {
  const plural = elementsOf(model);
  return `${number} ${number === 1 ? { boxes: "box" }[plural] || plural.slice(0, -1) : plural}`;
};

// The method; where several models of a tab share it, with what they predict, or with the model's name.
export function nameOf(model, models) {
  const alike = models.filter((m) => m.method === model.method);
  if (alike.length === 1) return model.method;
  const detail = alike.filter((m) => m.kind === model.kind).length === 1 ? elementsOf(model) : model.name;
  return `${model.method}, ${detail}`;
}
