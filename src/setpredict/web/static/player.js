// Play, pause and scrub through the steps Y0 … YT, with a chart of the representation loss.

import { drawChart } from "./chart.js";

const MOST_STEPS = 200;
let players = 0;

export class Player {
  // `onStep(step)` draws a step; `onSteps(steps)` requests another number of steps.
  constructor(root, trained, onStep, onSteps) {
    this.root = root;
    this.trained = trained;
    this.onStep = onStep;
    this.step = 0;
    this.series = [];
    this.timer = null;
    players += 1;
    const longest = Math.max(...trained, 0);
    this.steps = Math.min(MOST_STEPS, longest ? 2 * longest : 0);
    root.innerHTML = `
      <div class="transport">
        <div class="keys">
          <button class="back" aria-label="One step back">‹</button>
          <button class="play">Play</button>
          <button class="on" aria-label="One step forward">›</button>
        </div>
        <input type="range" class="slider" min="0" step="1" aria-label="Step" aria-describedby="where-${players}">
        <span class="where" id="where-${players}"></span>
      </div>
      <div class="more"><label>Number of steps <input type="number" class="steps" min="1" max="${MOST_STEPS}"></label>
        <span class="legend"></span></div>
      <div class="more">Representation loss at every step: how far the encoding of the set is from the vector.</div>
      <svg class="chart" role="img"></svg>`;
    const find = (name) => root.querySelector(name);
    [this.slider, this.where, this.button, this.chart] = [".slider", ".where", ".play", ".chart"].map(find);
    addEventListener("resize", () => this.refresh());
    find(".steps").value = this.steps;
    find(".steps").addEventListener("change", (event) => {
      const wanted = Math.round(Number(event.target.value));
      this.steps = Math.min(MOST_STEPS, Math.max(1, Number.isFinite(wanted) ? wanted : longest));
      event.target.value = this.steps;
      onSteps(this.steps);
    });
    this.slider.addEventListener("input", () => { this.pause(); this.go(Number(this.slider.value)); });
    this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    find(".back").addEventListener("click", () => { this.pause(); this.go(this.step - 1); });
    find(".on").addEventListener("click", () => { this.pause(); this.go(this.step + 1); });
    root.hidden = longest === 0;
    this.step = Math.min(longest, this.steps);
    this.refresh();
  }

  // Show new answers: `series` are {name, style, values}; `from` is "play" to start from step 0, "stay" to keep the step.
  show(series, steps, from) {
    this.series = series;
    this.steps = steps;
    this.root.querySelector(".legend").textContent = series.length > 1 ? series.map((s) => `${s.name} ${["━━", "╍╍", "┈┈"][s.style]}`).join("   ") : "";
    if (from === "play" && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.play(0);
    else this.go(Math.min(from === "play" ? Math.max(...this.trained) : this.step, steps));
  }

  go(step) {
    this.step = Math.min(Math.max(step, 0), this.steps);
    this.refresh();
    this.onStep(this.step);
  }

  play(from) {
    this.pause();
    const beginning = from ?? (this.step >= this.steps ? 0 : this.step);
    const end = from === undefined ? this.steps : Math.min(Math.max(...this.trained), this.steps);
    this.go(beginning);
    this.button.textContent = "Pause";
    const pace = Math.max(40, Math.min(160, 3000 / Math.max(this.steps, 1)));
    this.timer = setInterval(() => {
      if (this.step >= end) this.pause();
      else this.go(this.step + 1);
    }, pace);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
  }

  refresh() {
    const longest = Math.max(...this.trained, 0);
    this.slider.max = this.steps;
    this.slider.value = this.step;
    const beyond = this.step > longest;
    this.where.textContent = `step ${this.step} of ${this.steps}`;
    this.where.classList.toggle("beyond", beyond);
    this.slider.setAttribute("aria-valuetext", `step ${this.step} of ${this.steps}${beyond ? ", beyond the trained steps" : ""}`);
    drawChart(this.chart, this.series, this.step, this.steps, this.trained);
    const texts = this.series.map((s) => `${s.name} ${(s.values[Math.min(this.step, s.values.length - 1)] ?? 0).toExponential(2)}`);
    this.chart.setAttribute("aria-label", `Representation loss at step ${this.step}: ${texts.join(", ")}`);
  }
}
