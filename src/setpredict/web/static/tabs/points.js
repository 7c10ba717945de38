// Place and move points with a pointer or by keyboard; three decoders decode them.

import { clear, colors, cross, dot, put, take } from "../pictures/draw.js";
import { readSet } from "../workbench/files.js";
import { POINT_MARKS, fillMarks } from "../workbench/legend.js";
import { fail, say } from "../workbench/notices.js";
import { Stage } from "../workbench/stage.js";
import { addUpload } from "../workbench/upload.js";

const REACH = 0.06;
const FIRST = [[0.12, 0.3], [0.3, 0.12], [0.5, 0.42], [0.82, 0.2], [0.9, 0.55], [0.66, 0.8], [0.38, 0.88], [0.1, 0.7]];

export function start(panel, models) {
  const pad = panel.querySelector(".pad"), count = panel.querySelector(".count");
  const stage = new Stage(panel, models, { look: () => ({ ghosts: stage.shown?.truth }), whole: true });
  const most = Math.min(...models.map((m) => m.max_size));
  let points = [], held = -1, cursor = [0.5, 0.5], byKeys = false, carried = false;

  const redraw = () => {
    const context = clear(pad), tone = colors();
    points.forEach(([x, y], i) => {
      context.fillStyle = tone.ink;
      dot(context, put(x), put(y), i === held ? 0.034 : 0.026);
      context.fill();
      if (i !== held) return;
      context.strokeStyle = tone.accent;
      context.lineWidth = 0.01;
      dot(context, put(x), put(y), 0.05);
      context.stroke();
    });
    if (byKeys) {
      context.strokeStyle = tone.accent;
      context.lineWidth = 0.008;
      const [x, y] = cursor.map(put);
      context.strokeRect(x - 0.03, y - 0.03, 0.06, 0.06);
      cross(context, x, y, 0.05);
    }
    pad.setAttribute("aria-label", `Your points: ${points.length} of at most ${most}`);
    pad.dataset.points = JSON.stringify(points);
  };
  const changed = (from) => {
    redraw();
    count.textContent = `${points.length} of at most ${most}`;
    const truth = points;
    if (truth.length) stage.ask(() => ({ points: truth }), { from, truth });
    else stage.empty();
  };
  // The index of the nearest point in reach, or -1.
  const near = ([x, y]) => {
    const far = points.map(([a, b]) => Math.hypot(a - x, b - y)), least = Math.min(...far);
    return least < REACH ? far.indexOf(least) : -1;
  };
  const within = (v) => Math.min(1, Math.max(0, v));
  const position = (event) => {
    const box = pad.getBoundingClientRect();
    return [take((event.clientX - box.left) / box.width), take((event.clientY - box.top) / box.height)].map(within);
  };
  let dragging = false;
  pad.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button) return;
    byKeys = carried = false;
    pad.setPointerCapture(event.pointerId);
    const at = position(event);
    held = near(at);
    dragging = true;
    if (held < 0) {
      if (points.length >= most) return say(`There are already ${most} points`);
      points = [...points, at];
      held = points.length - 1;
      return changed("play");
    }
    return redraw();
  });
  pad.addEventListener("pointermove", (event) => {
    if (!dragging || held < 0 || !event.isPrimary) return;
    points = points.map((p, i) => (i === held ? position(event) : p));
    stage.player.pause();
    changed("stay");
  });
  for (const name of ["pointerup", "pointercancel"]) pad.addEventListener(name, (event) => { dragging &&= !event.isPrimary; });

  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  pad.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move && !["Enter", " ", "Delete", "Backspace"].includes(event.key)) return;
    event.preventDefault();
    byKeys = true;
    if (move) {
      const far = event.shiftKey ? 0.01 : 0.05;
      cursor = [within(cursor[0] + far * move[0]), within(cursor[1] + far * move[1])];
      if (!carried) return redraw();
      points = points.map((p, i) => (i === held ? [...cursor] : p));
      return changed("stay");
    }
    if (event.key === "Delete" || event.key === "Backspace") return near(cursor) < 0 ? say("There is no point under the cross") : remove(near(cursor));
    if (carried) {
      carried = false;
      say(`Point ${held + 1} put down at ${cursor.map((v) => v.toFixed(2)).join(", ")}`);
      return redraw();
    }
    held = near(cursor);
    if (held >= 0) {
      carried = true;
      say(`Point ${held + 1} picked up; arrow keys move it, Enter puts it down`);
      return redraw();
    }
    if (points.length >= most) return say(`There are already ${most} points`);
    points = [...points, [...cursor]];
    held = points.length - 1;
    say(`Point ${points.length} placed at ${cursor.map((v) => v.toFixed(2)).join(", ")}`);
    return changed("play");
  });
  pad.addEventListener("blur", () => { byKeys = carried = false; redraw(); });
  pad.addEventListener("focus", () => { byKeys = pad.matches(":focus-visible"); redraw(); });

  const remove = (which) => {
    const index = which >= 0 ? which : points.length - 1;
    if (index < 0) return;
    points = points.filter((_, i) => i !== index);
    held = -1;
    carried = false;
    say(`Point removed, ${points.length} left`);
    changed("stay");
  };
  const place = (set) => {
    points = set;
    held = -1;
    carried = false;
    changed("play");
  };
  const random = () => place(Array.from({ length: Math.min(most, 4 + Math.floor(Math.random() * (most - 3))) }, () => [Math.random(), Math.random()]));
  panel.querySelector("[data-do=random]").addEventListener("click", random);
  panel.querySelector("[data-do=remove]").addEventListener("click", () => remove(held));
  panel.querySelector("[data-do=clear]").addEventListener("click", () => { points = []; held = -1; changed("stay"); });
  addUpload(panel, panel.querySelector(".controls"), "Upload JSON", ".json,application/json", async (file) => {
    try {
      const set = await readSet(file, 2, [0, 1]);
      if (set.length > most) throw new Error(`${file.name} has ${set.length} points; at most ${most} can be decoded.`);
      place(set);
    } catch (error) {
      fail(error);
    }
  });
  fillMarks(panel.querySelector(".marks"), POINT_MARKS("your points"));
  return {
    redraw: () => { redraw(); stage.redraw(); },
    first: () => place(FIRST.slice(0, most)),
    leave: () => stage.player.pause(),
  };
}
