// The answers of several models side by side: one canvas per model, one player for all. Only the newest question counts.

import { decode } from "./api.js";
import { drawBoxes, drawImage, drawNumbers, drawObjects, drawPoints, clear } from "./draw.js";
import { Player } from "./player.js";

export class Stage {
  // `look(answer)` returns what is drawn with an answer: {ghosts, up, image, truth}.
  constructor(panel, models, look = () => ({})) {
    this.models = models;
    this.look = look;
    this.answers = new Map();
    this.busy = false;
    this.next = null;
    this.question = null;
    this.listeners = [];
    const parent = panel.querySelector(".answers");
    parent.replaceChildren();
    this.cards = new Map(models.map((model) => [model.name, addCard(parent, model)]));
    const trained = models.map((m) => m.trained_steps);
    this.player = new Player(panel.querySelector(".player"), trained, () => this.draw(), () => this.again());
    this.again = () => this.question && this.ask(this.question, "stay");
  }

  // `question(model)` is the body of the request; `from` is "play" for a new question and "stay" while dragging.
  async ask(question, from = "play") {
    this.next = { question, from };
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.next) {
        const now = this.next;
        this.next = null;
        this.question = now.question;
        const steps = this.player.steps || undefined;
        const answers = await Promise.all(this.models.map((m) => decode(m.name, { steps, ...now.question(m) })));
        answers.forEach((answer, i) => this.answers.set(this.models[i].name, answer));
        tell("");
        for (const listen of this.listeners) await listen(answers);
        this.show(answers, now.from);
      }
    } catch (error) {
      tell(error.message);
    } finally {
      this.busy = false;
    }
  }

  show(answers, from) {
    const iterative = answers.filter((a) => a.trained_steps);
    const series = iterative.filter((a) => a.repr_loss).map((a, i) => ({ name: this.method(a.model), style: i % 3, values: a.repr_loss }));
    this.player.show(series, Math.max(0, ...iterative.map((a) => a.steps)), from);
    if (!iterative.length) this.draw();
  }

  method(name) {
    const model = this.models.find((m) => m.name === name);
    const alike = this.models.filter((m) => m.method === model.method).length > 1;
    return alike ? model.name : model.method;
  }

  draw() {
    for (const model of this.models) {
      const answer = this.answers.get(model.name);
      const { canvas, caption } = this.cards.get(model.name);
      if (!answer) {
        clear(canvas);
        continue;
      }
      const step = Math.min(this.player.step, answer.steps);
      drawAnswer(canvas, model, answer, step, this.look(answer));
      const present = answer.mask[step].filter((m) => m > 0.5).length;
      const loss = answer.repr_loss ? `loss ${answer.repr_loss[step].toExponential(2)}` : answer.trained_steps ? `step ${step}` : "one shot";
      caption.textContent = `${present} element${present === 1 ? "" : "s"} · ${loss}`;
      canvas.setAttribute("aria-label", `${this.method(model.name)}, step ${step}: ${present} elements, ${loss}`);
      canvas.dataset.step = String(step);
    }
  }

  empty() {
    this.answers.clear();
    this.question = null;
    this.next = null;
    this.player.pause();
    this.player.show([], this.player.steps, "stay");
    for (const { caption } of this.cards.values()) caption.textContent = "";
    this.draw();
  }
}

export function drawAnswer(canvas, model, answer, step, look) {
  const elements = answer.elements[step], mask = answer.mask[step], matches = answer.matches && answer.matches[step];
  const truth = look.truth && answer.target;
  if (model.kind === "boxes") drawBoxes(canvas, look.image, elements, mask, matches, truth && truth.elements);
  else if (answer.positions) drawObjects(canvas, look.image, answer.positions[step], mask, matches, truth && truth.positions);
  else if (model.kind === "points" || model.kind === "polygons") {
    const order = model.feature_names[0] === "row" ? [1, 0] : [0, 1];
    drawPoints(canvas, elements, mask, { order, ghosts: look.ghosts || (truth ? truth.elements : []), up: look.up });
  } else if (look.image) drawImage(clear(canvas), look.image);
  else drawNumbers(canvas, elements, mask);
}

export function tell(text) {
  const problem = document.getElementById("problem");
  problem.hidden = !text;
  problem.textContent = text;
}

export function say(text) {
  document.getElementById("live").textContent = text;
}

function addCard(parent, model) {
  const figure = document.createElement("figure");
  figure.innerHTML = `<figcaption><strong></strong><span></span></figcaption><canvas role="img"></canvas>
    <details><summary>About this model</summary><dl></dl><p></p></details>`;
  const kind = { boxes: ", boxes", states: ", objects" }[model.kind] || "";
  figure.querySelector("strong").textContent = model.method + kind;
  figure.querySelector("canvas").setAttribute("aria-label", `${model.method}: no answer yet`);
  const facts = { parameters: model.parameters.toLocaleString("en"), ...model.scores, trained: model.date };
  const list = figure.querySelector("dl");
  for (const [name, value] of Object.entries(facts)) {
    if (!value) continue;
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  figure.querySelector("details p").textContent = model.note;
  parent.append(figure);
  return { canvas: figure.querySelector("canvas"), caption: figure.querySelector("figcaption span") };
}
