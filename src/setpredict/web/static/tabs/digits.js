// Draw, pick or upload a digit: it becomes a set of points, is encoded to a vector, and is decoded again.

import { decode } from "../api.js";
import { clear, colors, drawPoints } from "../pictures/draw.js";
import { readSet } from "../workbench/files.js";
import { MANY_MARKS, fillMarks } from "../workbench/legend.js";
import { fail, say } from "../workbench/notices.js";
import { digitPoints } from "./pixels.js";
import { Stage } from "../workbench/stage.js";
import { EXAMPLES } from "./strokes.js";
import { addUpload } from "../workbench/upload.js";

export function start(panel, models) {
  const pad = panel.querySelector(".pad"), count = panel.querySelector(".count");
  const stage = new Stage(panel, models, { look: () => ({ ghosts: stage.shown?.truth }) });
  const most = Math.min(...models.map((m) => m.max_size));
  let strokes = [], points = [], drawing = false, actions = 0;

  const redraw = () => {
    if (!strokes.length && points.length) return drawPoints(pad, points, points.map(() => 1), { order: [1, 0] });
    const context = clear(pad);
    context.strokeStyle = colors().ink;
    context.lineWidth = 0.05;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of strokes) {
      context.beginPath();
      stroke.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](x, y));
      if (stroke.length === 1) context.lineTo(stroke[0][0] + 0.001, stroke[0][1]);
      context.stroke();
    }
  };
  const send = () => {
    const truth = points;
    count.textContent = truth.length ? `${truth.length} points → ${models[0].latent} numbers` : "";
    if (truth.length) stage.ask(() => ({ points: truth }), { truth });
    else stage.empty();
  };
  // A digit as strokes, or as points alone.
  const take = (lines, set = digitPoints(lines, most)) => {
    actions += 1;
    drawing = false;
    strokes = lines;
    points = set;
    redraw();
    send();
  };
  const position = (event) => {
    const box = pad.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  pad.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button) return;
    if (!strokes.length) points = [];
    drawing = true;
    actions += 1;
    pad.setPointerCapture(event.pointerId);
    strokes.push([position(event)]);
    redraw();
  });
  pad.addEventListener("pointermove", (event) => {
    if (!drawing || !event.isPrimary) return;
    strokes.at(-1).push(position(event));
    redraw();
  });
  const end = (event) => {
    if (!drawing || !event.isPrimary) return;
    drawing = false;
    points = digitPoints(strokes, most);
    send();
  };
  pad.addEventListener("pointerup", end);
  pad.addEventListener("pointercancel", end);

  const examples = panel.querySelector("[aria-label='Example digits']");
  EXAMPLES.forEach((example, digit) => {
    const button = document.createElement("button");
    button.textContent = String(digit);
    button.setAttribute("aria-label", `Example ${digit}`);
    button.addEventListener("click", () => {
      take(structuredClone(example));
      say(`An example of the digit ${digit}, ${points.length} points`);
    });
    examples.append(button);
  });
  panel.querySelector("[data-do=clear]").addEventListener("click", () => take([], []));
  const sample = panel.querySelector("[data-do=sample]");
  sample.hidden = !models[0].samples;
  sample.addEventListener("click", async () => {
    const action = (actions += 1);
    try {
      const answer = await decode(models[0].name, { sample: Math.floor(Math.random() * models[0].samples), steps: 0 });
      if (action === actions) take([], answer.input); // else something newer was drawn or chosen
    } catch (error) {
      if (action === actions) fail(error, () => sample.click());
    }
  });
  const first = () => take(structuredClone(EXAMPLES[3]));
  addUpload(panel, sample.parentElement, "Upload JSON", ".json,application/json", async (file) => {
    try {
      const set = await readSet(file, 2, [0, 1]);
      if (set.length > most) throw new Error(`${file.name} has ${set.length} points; at most ${most} can be decoded.`);
      take([], set);
    } catch (error) {
      fail(error);
    }
  });
  fillMarks(panel.querySelector(".marks"), MANY_MARKS);
  return { redraw: () => { redraw(); stage.redraw(); }, first, leave: () => stage.player.pause() };
}
