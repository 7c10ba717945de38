// The answers of several models side by side: one card per model, one player for all. Only the newest question counts.

import { decode } from "./api.js";
import { addCard, emptyCard, fillCard } from "./cards.js";
import { clear } from "./draw.js";
import { nameOf } from "./names.js";
import { fail, tell } from "./notices.js";
import { Player } from "./player.js";
import { judge } from "./recovered.js";
import { drawAnswer } from "./views.js";

export class Stage {
  // `look(answer)` is what is drawn with an answer (views.js), `truth(answer)` the set that it is compared with,
  // `whole` whether new answers are played beyond the trained steps. `listeners` are called at every new step.
  constructor(panel, models, { look = () => ({}), truth = (answer) => answer.target?.elements, whole = false } = {}) {
    Object.assign(this, { models, look, truth, answers: new Map(), judged: new WeakMap(), listeners: [] });
    this.busy = false;
    this.next = this.last = this.question = null;
    const parent = panel.querySelector(".answers");
    parent.replaceChildren();
    this.cards = new Map(models.map((m, i) => [m.name, addCard(parent, m, models, i % 3)]));
    this.player = new Player(panel.querySelector(".player"), {
      trained: models.map((m) => m.trained_steps),
      most: models.map((m) => m.max_steps),
      whole,
      onTime: () => this.draw(),
      onSteps: () => this.again(),
    });
  }

  // `question(model)` is the body of the request; `from` is "play" for a new question and "stay" while dragging.
  // `accepted(answers)` is called before the answers are shown; `file` is the name of the file that is asked about.
  async ask(question, from = "play", accepted = null, file = "") {
    this.next = this.last = { question, from, accepted, file };
    tell(""); // problems of former questions
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.next) {
        const now = this.next;
        this.next = null;
        const steps = this.player.steps || undefined;
        const answers = await Promise.all(this.models.map((m) => decode(m.name, { steps, ...now.question(m) })));
        this.question = now;
        answers.forEach((answer, i) => this.answers.set(this.models[i].name, answer));
        if (now.accepted) await now.accepted(answers);
        this.show(answers, now.from);
      }
    } catch (error) {
      const { question, from, accepted, file } = this.last;
      if (error.stopped || !accepted) this.empty(); // with `accepted`, the input on the page is still the former one
      if (file && !error.stopped) error.message = `${file}: ${error.message}`;
      fail(error, () => this.ask(question, from, accepted, file));
    } finally {
      this.busy = false;
    }
  }

  // The last question again, after its number of steps was changed.
  again() {
    const { question, accepted, file } = this.question || {};
    if (question) this.ask(question, "stay", accepted, file);
  }

  show(answers, from) {
    const series = answers.map((a, i) => ({ name: nameOf(this.models[i], this.models), style: i % 3, values: a.repr_loss }));
    this.player.show(series.filter((s) => s.values), Math.max(0, ...answers.map((a) => a.steps)), from);
  }

  draw() {
    let changed = !this.answers.size;
    for (const model of this.models) {
      const answer = this.answers.get(model.name), card = this.cards.get(model.name);
      if (!answer) {
        clear(card.canvas);
        continue;
      }
      const step = Math.min(this.player.step, answer.steps), judged = this.judge(model, answer, step);
      drawAnswer(card.canvas, model, answer, Math.min(this.player.time, answer.steps), this.look(answer), judged);
      if (card.answer === answer && card.step === step) continue; // between two steps, only the picture changes
      Object.assign(card, { answer, step });
      fillCard(card, model, this.models, answer, step, judged);
      changed = true;
    }
    if (changed) for (const listen of this.listeners) listen();
  }

  redraw() {
    this.player.drawChart();
    this.draw();
  }

  judge(model, answer, step) {
    if (!this.judged.has(answer)) this.judged.set(answer, []);
    const known = this.judged.get(answer);
    known[step] ??= judge(model, answer, step, this.truth(answer));
    return known[step];
  }

  empty() {
    this.answers.clear();
    this.question = this.next = null;
    this.player.pause();
    this.player.show([], this.player.steps, "stay");
    for (const model of this.models) {
      const card = this.cards.get(model.name);
      card.answer = null;
      emptyCard(card, model, this.models);
    }
    this.draw();
  }
}
