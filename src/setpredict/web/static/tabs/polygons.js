// Turn a dial and watch the corners move.

import { clear, colors, dot, put } from "../pictures/draw.js";
import { POINT_MARKS, fillMarks } from "../workbench/legend.js";
import { Stage } from "../workbench/stage.js";
import { cornersOf, inputOf } from "./sweep.js";
import { SweepChart } from "./sweep_chart.js";

export function start(panel, models) {
  const pad = panel.querySelector(".pad");
  const dial = panel.querySelector("[name=angle]"), many = panel.querySelector("[name=corners]");
  const turn = panel.querySelector("[data-do=turn]");
  let corners = [], timer = null;
  const stage = new Stage(panel, models, { look: () => ({ ghosts: stage.shown?.truth, up: true }), onFail: () => stop() });
  const aimAt = (degrees) => { stop(); stage.player.pause(); dial.value = String(degrees); changed(); };
  const chart = new SweepChart(panel.querySelector(".sweep"), models, aimAt, () => changed());

  const redraw = () => {
    const context = clear(pad), tone = colors();
    context.strokeStyle = tone.ring;
    context.lineWidth = 0.008;
    context.beginPath();
    corners.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](put(x), put(1 - y)));
    context.closePath();
    context.stroke();
    corners.forEach(([x, y], i) => {
      context.fillStyle = i ? tone.ink : tone.accent;
      dot(context, put(x), put(1 - y), 0.028);
      context.fill();
    });
  };
  const changed = (from = "stay") => {
    const n = Number(many.value), degrees = Number(dial.value), angle = (degrees * Math.PI) / 180;
    panel.querySelector(".angle").textContent = `${degrees}°`;
    panel.querySelector(".corners").textContent = String(n);
    corners = cornersOf(n, angle);
    redraw();
    chart.show(n, degrees);
    stage.ask(() => ({ vector: inputOf(n, angle) }), { from, truth: corners });
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    turn.setAttribute("aria-pressed", "false");
  };
  for (const control of [dial, many]) control.addEventListener("input", () => { stop(); stage.player.pause(); changed(); });
  turn.addEventListener("click", () => {
    if (timer) return stop();
    turn.setAttribute("aria-pressed", "true");
    stage.player.pause();
    timer = setInterval(() => { dial.value = String((Number(dial.value) + 1) % 360); changed(); }, 60);
  });
  const aim = (event) => {
    const box = pad.getBoundingClientRect();
    const angle = Math.atan2(0.5 - (event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width - 0.5);
    aimAt(((angle * 180) / Math.PI + 360) % 360);
  };
  let dragging = false;
  pad.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button) return;
    dragging = true;
    pad.setPointerCapture(event.pointerId);
    aim(event);
  });
  pad.addEventListener("pointermove", (event) => dragging && event.isPrimary && aim(event));
  for (const name of ["pointerup", "pointercancel"]) pad.addEventListener(name, (event) => { dragging &&= !event.isPrimary; });
  fillMarks(panel.querySelector(".marks"), POINT_MARKS("true corners"));
  return {
    redraw: () => { redraw(); stage.redraw(); chart.draw(); },
    first: () => changed("play"),
    leave: () => { stop(); stage.player.pause(); },
  };
}
