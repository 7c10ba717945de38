// The answers of several models side by side: one card per model, one player for all. Only the newest question counts.

import { decode } from "../api.js";
import { addCard, emptyCard, fillCard } from "./cards.js";
import { clear } from "../pictures/draw.js";
import { nameOf } from "./names.js";
import { fail, say, tell } from "./notices.js";
import { Player } from "./player.js";
import { judge } from "./recovered.js";
import { drawAnswer } from "../pictures/views.js";

export class Stage {
  // `look()` is what is drawn with an answer (views.js), `whole` whether new answers are played beyond the trained steps.
  // `onFail()` is called if a question has no answer. `listeners` are called at every new step.
  constructor(panel, models, { look = () => ({}), whole = false, onFail = () => {} } = {}) {
    Object.assign(this, { models, look, onFail, answers: new Map(), judged: new WeakMap(), listeners: [] });
    // Questions: the one that waits, the one that is asked, and the one whose answers are shown. Those that were asked
    // before the stage was emptied belong to a former `turn`, and their answers are left out.
    this.next = this.asked = this.shown = null;
    this.turn = 0;
    this.closed = false;
    this.parent = panel.querySelector(".answers");
    this.parent.replaceChildren();
    this.cards = new Map(models.map((m, i) => [m.name, addCard(this.parent, m, models, i % 3)]));
    this.player = new Player(panel.querySelector(".player"), {
      trained: models.map((m) => m.trained_steps),
      most: models.map((m) => m.max_steps),
      whole,
      onTime: () => this.draw(),
      onSteps: () => this.again(),
      onEnd: () => this.announce(),
    });
  }

  // `question(model)` is the body of the request; `from` is "play" for a new question and "stay" while dragging.
  // `truth` is the set that answers are compared with, where they do not bring their own. `accepted(answers)` is called
  // before the answers are shown; `file` is the name of the file that is asked about.
  async ask(question, { from = "play", truth = null, accepted = null, file = "" } = {}) {
    if (this.closed) return;
    tell(""); // problems of former questions
    this.next = { question, from, truth, accepted, file, turn: this.turn };
    if (this.asked) return;
    this.parent.setAttribute("aria-busy", "true");
    while (this.next) {
      this.asked = this.next;
      this.next = null;
      try {
        await this.answer(this.asked);
      } catch (error) {
        if (this.isWanted(this.asked)) this.refuse(this.asked, error);
      }
    }
    this.asked = null;
    if (!this.closed) this.parent.setAttribute("aria-busy", "false");
  }

  // Whether the page still waits for the answers of a question. While dragging, all of them are shown.
  isWanted(asked) {
    return asked.turn === this.turn && !(this.next && asked.accepted);
  }

  async answer(asked) {
    const steps = this.player.wanted || undefined;
    const answers = await Promise.all(this.models.map((m) => decode(m.name, { steps, ...asked.question(m) })));
    if (!this.isWanted(asked)) return;
    if (asked.accepted) await asked.accepted(answers, () => this.isWanted(asked));
    if (!this.isWanted(asked)) return;
    this.shown = asked;
    answers.forEach((answer, i) => this.answers.set(this.models[i].name, answer));
    const series = answers.map((a, i) => ({ name: nameOf(this.models[i], this.models), style: i % 3, values: a.repr_loss }));
    const from = this.parent.closest("[hidden]") ? "stay" : asked.from; // nothing is played on a tab that was left
    this.player.show(series.filter((s) => s.values), Math.max(0, ...answers.map((a) => a.steps)), from);
  }

  refuse(asked, error) {
    if (this.next) return; // a newer question may be answered
    if (error.again || !asked.accepted) this.empty(); // with `accepted`, the input on the page is still the former one
    if (asked.file && !error.again) error.message = `${asked.file}: ${error.message}`;
    this.onFail();
    fail(error, () => this.ask(asked.question, asked));
  }

  // The newest question again, after its number of steps was changed.
  again() {
    const waiting = this.next || this.asked;
    if (waiting) this.ask(waiting.question, waiting);
    else if (this.shown) this.ask(this.shown.question, { ...this.shown, from: "stay" });
  }

  draw() {
    if (this.closed) return;
    let changed = !this.answers.size;
    for (const model of this.models) {
      const answer = this.answers.get(model.name), card = this.cards.get(model.name);
      if (!answer) {
        clear(card.canvas);
        continue;
      }
      const step = Math.min(this.player.step, answer.steps), judged = this.judge(model, answer, step);
      drawAnswer(card.canvas, model, answer, Math.min(this.player.time, answer.steps), this.look(), judged);
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
    known[step] ??= judge(model, answer, step, this.shown.truth || answer.target?.elements);
    return known[step];
  }

  // What was recovered, for screen readers, when the answers have been played.
  announce() {
    const found = this.models.map((m) => [nameOf(m, this.models), this.cards.get(m.name).found.textContent]);
    const texts = found.filter(([, text]) => text).map(([name, text]) => `${name}: ${text}`);
    if (texts.length) say(`Step ${this.player.step}. ${texts.join("; ")}`);
  }

  empty() {
    this.answers.clear();
    this.shown = this.next = null;
    this.turn += 1;
    this.player.pause();
    this.player.show([], this.player.steps, "stay");
    for (const model of this.models) {
      const card = this.cards.get(model.name);
      card.answer = null;
      emptyCard(card, model, this.models);
    }
    this.draw();
  }

  // Nothing more is drawn here: others use the panel from now on.
  close() {
    this.player.pause();
    this.closed = true;
    this.next = null;
    this.turn += 1;
  }
}
