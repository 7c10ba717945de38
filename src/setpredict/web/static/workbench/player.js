// Play, pause and scrub through the steps Y0 … YT, with a chart of the representation loss.

import { drawChart, moveMark } from "./chart.js";
import { fillLegend } from "../pictures/svg.js";
import { addTerms } from "./terms.js";

const MOST_STEPS = 200;
let players = 0;

export class Player {
  // `trained` and `most` are the trained and the largest numbers of steps of the models; with `whole`, a new answer is
  // played to the last step, else to the trained one. `onTime()` draws; `onSteps()` requests `wanted` steps, where the
  // answers that are shown have `steps`; `onEnd()` is called when new answers have been played.
  constructor(root, { trained, most, whole = false, onTime, onSteps, onEnd }) {
    Object.assign(this, { root, trained, whole, onTime, onEnd, time: 0, series: [], frame: null });
    players += 1;
    this.longest = Math.max(...trained, 0);
    const limit = Math.min(MOST_STEPS, ...most.filter((n) => n));
    this.steps = this.wanted = Math.min(limit, 2 * this.longest);
    root.innerHTML = `
      <div class="transport">
        <div class="keys">
          <button class="back" aria-label="One step back">‹</button>
          <button class="play">Play</button>
          <button class="on" aria-label="One step forward">›</button>
        </div>
        <input type="range" class="slider" min="0" step="1" aria-label="Step" aria-describedby="where-${players}">
        <p class="where" id="where-${players}"><span></span><small></small></p>
      </div>
      <div class="more"><span><span data-term="loss">Loss</span> relative to step 0</span><span class="legend"></span>
        <label>Steps <input type="number" class="steps" min="1" max="${limit}"></label></div>
      <svg class="chart" role="img"></svg>`;
    addTerms(root);
    const find = (name) => root.querySelector(name);
    [this.slider, this.where, this.button, this.chart] = [".slider", ".where", ".play", ".chart"].map(find);
    const field = find(".steps");
    field.value = this.steps;
    field.addEventListener("change", () => {
      const wanted = field.value === "" ? this.longest : Math.round(Number(field.value)); // "" is also what is no number
      this.wanted = Math.min(limit, Math.max(1, wanted));
      field.value = this.wanted;
      onSteps();
    });
    this.slider.addEventListener("input", () => { this.pause(); this.go(Number(this.slider.value)); });
    this.button.addEventListener("click", () => (this.frame ? this.pause() : this.play()));
    find(".back").addEventListener("click", () => { this.pause(); this.go(this.step - 1); });
    find(".on").addEventListener("click", () => { this.pause(); this.go(this.step + 1); });
    root.hidden = this.longest === 0;
    this.time = this.end;
    this.refresh();
  }

  get step() {
    return Math.floor(this.time + 1e-6);
  }

  // Where playing a new answer ends.
  get end() {
    return this.whole ? this.steps : Math.min(this.longest, this.steps);
  }

  // New answers: `series` are {name, style, values}; `from` is "play" to start from step 0, "stay" to keep the step.
  show(series, steps, from) {
    this.series = series;
    this.steps = steps;
    if (series.length) fillLegend(this.root.querySelector(".legend"), series); // else it stays, so that nothing moves
    this.drawChart();
    if (from !== "play") return this.go(this.time);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) return this.play(0, this.end);
    this.go(this.end);
    return this.onEnd();
  }

  go(time) {
    this.time = Math.min(Math.max(time, 0), this.steps);
    this.refresh();
    this.onTime();
  }

  play(from = this.step >= this.steps ? 0 : this.step, end = this.steps) {
    this.pause();
    this.button.textContent = "Pause";
    const pace = Math.max(60, Math.min(250, 3600 / Math.max(end, 1))); // milliseconds per step
    let last = null;
    const next = (now) => {
      this.go(this.time + (last === null ? 0 : Math.min(now - last, 4 * pace) / pace));
      last = now;
      if (this.time < end) this.frame = requestAnimationFrame(next);
      else { this.pause(); this.go(end); this.onEnd(); }
    };
    this.go(from);
    this.frame = requestAnimationFrame(next);
  }

  // Stop between no two steps.
  pause() {
    if (this.frame) {
      cancelAnimationFrame(this.frame);
      this.frame = null;
      this.go(this.step);
    }
    this.button.textContent = "Play";
  }

  drawChart() {
    drawChart(this.chart, this.series, this.steps, this.trained);
    moveMark(this.chart, this.time, this.steps);
  }

  refresh() {
    const step = this.step, twice = this.steps === 2 * this.longest && step === this.steps;
    const note = twice ? "twice the trained steps" : step > this.longest ? "beyond the trained steps" : step === this.longest ? "as trained" : "";
    moveMark(this.chart, this.time, this.steps);
    const text = `step ${step} of ${this.steps}`;
    if (this.where.firstChild.textContent === text && this.shown === this.series) return; // between two steps
    this.shown = this.series;
    this.slider.max = this.steps;
    this.slider.value = step;
    this.where.firstChild.textContent = text;
    this.where.lastChild.textContent = note;
    this.slider.setAttribute("aria-valuetext", `${text}${note ? `, ${note}` : ""}`);
    const texts = this.series.map((s) => `${s.name} ${((s.values[Math.min(step, s.values.length - 1)] ?? 0) / (s.values[0] || 1)).toPrecision(2)}`);
    this.chart.setAttribute("aria-label", `Loss relative to step 0, at step ${step}: ${texts.join(", ")}`);
  }
}
