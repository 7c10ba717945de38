// What models are called, the same on their cards, in the chart and in tables.

const KINDS = { boxes: "boxes", states: "objects", points: "points", polygons: "corners", vectors: "elements" };

// What the elements of a model are called.
export const elementsOf = (model) => KINDS[model.kind] || "elements";

export const counted = (number, model) => {
  const plural = elementsOf(model);
  return `${number} ${number === 1 ? { boxes: "box" }[plural] || plural.slice(0, -1) : plural}`;
};

// The method; with what is predicted where the models of a tab differ in that, and with the model's name where two
// would be called the same.
export function nameOf(model, models) {
  const mixed = new Set(models.map((m) => m.kind)).size > 1;
  const short = (m) => (mixed ? `${m.method}, ${elementsOf(m)}` : m.method);
  return models.filter((m) => short(m) === short(model)).length === 1 ? short(model) : `${model.method}, ${model.name}`;
}
