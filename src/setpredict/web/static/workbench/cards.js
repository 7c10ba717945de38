// One card per model: its name, what it recovered, its picture, and facts about the model.

import { counted, nameOf } from "./names.js";
import { term } from "./terms.js";

// `style` is the number of the model's color in the charts.
export function addCard(parent, model, models, style) {
  const figure = document.createElement("figure");
  figure.innerHTML = `<figcaption><strong></strong><b class="found"></b><span class="facts"></span></figcaption>
    <canvas role="img"></canvas>
    <details><summary>About this model</summary><dl></dl><p></p></details>`;
  const name = nameOf(model, models), head = figure.querySelector("strong");
  head.innerHTML = `<svg class="swatch" viewBox="0 0 26 8" aria-hidden="true"><path class="s${style}" d="M1 4H25"/></svg>`;
  head.append(term(model.method), name.slice(model.method.length));
  figure.querySelector("canvas").setAttribute("aria-label", `${name}: no answer yet`);
  const facts = { parameters: model.parameters.toLocaleString("en"), ...model.scores, trained: model.date };
  const list = figure.querySelector("dl");
  for (const [key, value] of Object.entries(facts)) {
    if (!value) continue;
    const label = document.createElement("dt"), text = document.createElement("dd");
    label.textContent = key;
    text.textContent = value;
    list.append(label, text);
  }
  figure.querySelector("details p").textContent = model.note;
  parent.append(figure);
  return { canvas: figure.querySelector("canvas"), found: figure.querySelector(".found"), facts: figure.querySelector(".facts") };
}

const inFew = (value) => (value >= 0.01 && value < 1000 ? String(Number(value.toPrecision(3))) : value.toExponential(2));

// The two lines of the caption at one step; their height is fixed, whatever they say.
export function fillCard(card, model, models, answer, step, judged) {
  const present = answer.mask[step].filter((m) => m > 0.5).length;
  const loss = answer.repr_loss ? `loss ${inFew(answer.repr_loss[step])}` : answer.trained_steps ? `step ${step}` : "one shot";
  const count = counted(present, model);
  card.found.textContent = judged ? `${judged.right.size} of ${judged.total} recovered` : "";
  card.facts.textContent = `${count} · ${loss}`;
  const found = judged ? `, ${card.found.textContent}` : "";
  card.canvas.setAttribute("aria-label", `${nameOf(model, models)}, step ${step}: ${count}${found}, ${loss}`);
  card.canvas.dataset.step = String(step);
}

export function emptyCard(card, model, models) {
  card.found.textContent = card.facts.textContent = "";
  card.canvas.setAttribute("aria-label", `${nameOf(model, models)}: no answer`);
}
