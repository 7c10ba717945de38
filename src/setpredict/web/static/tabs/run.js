// The user's own runs, one at a time, selected by name.

import { start as startSamples } from "./samples.js";

export function start(panel, models) {
  panel.querySelector(".none").hidden = models.length > 0;
  panel.querySelector(".some").hidden = models.length === 0;
  if (!models.length) return { redraw: () => {}, first: () => {} };
  const select = panel.querySelector("select");
  for (const model of models) select.add(new Option(`${model.name.slice(4)} (${model.method} on ${model.task})`, model.name));
  let page = null;
  const choose = () => {
    if (page) page.close();
    page = startSamples(panel, [models.find((m) => m.name === select.value)], "Sample");
    page.first();
  };
  select.addEventListener("change", choose);
  return { redraw: () => page && page.redraw(), first: choose, leave: () => page && page.leave() };
}
