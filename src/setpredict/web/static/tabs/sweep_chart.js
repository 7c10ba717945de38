// The chart of error against angle over one period, with a mark wherever the output of a model jumps.

import { nameOf } from "../workbench/names.js";
import { fail } from "../workbench/notices.js";
import { add, blank, decades, fillLegend, powerText, ticks } from "../pictures/svg.js";
import { COUNT, periodOf, sweep } from "./sweep.js";

const H = 190, LEFT = 52, RIGHT = 12, TOP = 26, BOTTOM = 36;

export class SweepChart {
  // `onAngle(degrees)` is called for a click on an angle, `onRetry()` to ask for everything again.
  constructor(root, models, onAngle, onRetry) {
    Object.assign(this, { root, models, onRetry, known: new Map(), failed: new Set(), corners: 0, degrees: 0, waiting: null });
    this.svg = root.querySelector("svg");
    fillLegend(root.querySelector(".legend"), models.map((m, i) => ({ name: nameOf(m, models), style: i % 3 })));
    this.svg.addEventListener("click", (event) => {
      const box = this.svg.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      if (this.corners && part >= 0 && part <= 1) onAngle(Number((part * periodOf(this.corners)).toFixed(1)));
    });
  }

  // Mark an angle; another number of corners is computed when it has been the same for a moment.
  show(corners, degrees) {
    this.degrees = degrees;
    if (corners !== this.corners || this.failed.delete(corners)) {
      this.corners = corners;
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.compute(corners), 350);
      this.draw();
    } else this.mark();
  }

  async compute(corners) {
    if (this.known.has(corners)) return this.draw();
    try {
      const found = [];
      for (const model of this.models) {
        const one = await sweep(model, corners, () => this.corners !== corners);
        if (!one) return undefined;
        found.push(one);
      }
      this.known.set(corners, found);
      this.draw();
    } catch (error) {
      this.failed.add(corners); // computed when it is shown again
      this.draw();
      fail(error, this.onRetry);
    }
    return undefined;
  }

  x(degrees) {
    const W = Math.max(this.svg.clientWidth, 200), period = periodOf(this.corners);
    return LEFT + ((W - LEFT - RIGHT) * (degrees % period)) / period;
  }

  draw() {
    const W = blank(this.svg, H), found = this.known.get(this.corners), period = periodOf(this.corners);
    const text = this.root.querySelector(".jumps");
    const state = this.failed.has(this.corners) ? "The error at every angle was not computed." : "Computing the error at every angle …";
    text.textContent = found ? this.jumpText(found) : state;
    this.svg.setAttribute("aria-label", `Error against angle. ${text.textContent}`);
    if (!found) return;
    const at = (degrees) => LEFT + ((W - LEFT - RIGHT) * degrees) / period;
    const { low, high, powers } = decades(found.flatMap((f) => f.errors), 1e-6);
    const y = (v) => TOP + ((H - TOP - BOTTOM) * (high - Math.log10(Math.max(v, 10 ** low)))) / (high - low);
    for (const power of powers) {
      add(this.svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(10 ** power), y2: y(10 ** power) });
      add(this.svg, "text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, powerText(power));
    }
    for (const t of ticks(period)) add(this.svg, "text", { x: at(t), y: H - BOTTOM + 16, "text-anchor": "middle" }, `${t}°`);
    add(this.svg, "text", { x: (LEFT + W - RIGHT) / 2, y: H - 3, "text-anchor": "middle" }, "angle");
    found.forEach(({ errors, jumps }, i) => {
      const points = errors.map((v, k) => `${at((k / COUNT) * period).toFixed(1)},${y(v).toFixed(1)}`);
      add(this.svg, "path", { class: `s${i % 3}`, d: `M${points.join("L")}` });
      for (const jump of jumps) {
        const x = at(jump), top = 4 + 9 * (i % 2);
        add(this.svg, "line", { class: `jump s${i % 3}`, x1: x, x2: x, y1: top + 8, y2: H - BOTTOM });
        add(this.svg, "path", { class: `flag f${i % 3}`, d: `M${x - 5} ${top}h10l-5 9z` });
      }
    });
    add(this.svg, "line", { class: "now", y1: TOP, y2: H - BOTTOM });
    this.mark();
  }

  mark() {
    const mark = this.svg.querySelector(".now");
    if (!mark) return;
    for (const end of ["x1", "x2"]) mark.setAttribute(end, this.x(this.degrees));
  }

  jumpText(found) {
    const texts = found.map(({ jumps }, i) => {
      const name = nameOf(this.models[i], this.models);
      return jumps.length ? `${name} jumps at ${jumps.map((j) => `${j.toFixed(1)}°`).join(", ")}` : `${name} does not jump between these angles`;
    });
    return `${texts.join("; ")}.`;
  }
}
