// Samples of a model's own data, and files of the user: the tab of scenes, and of the user's own runs.

import { drawNumbers, drawPoints } from "./draw.js";
import { IMAGE_TYPES, readImage, readSet, readVector } from "./files.js";
import { IMAGE_MARKS, OWN_MARKS, POINT_MARKS, fillMarks } from "./legend.js";
import { fail } from "./notices.js";
import { drawImage } from "./overlay.js";
import { Stage } from "./stage.js";
import { fillTable } from "./table.js";
import { addUpload } from "./upload.js";
import { axesOf } from "./views.js";

const WORDS = { image: "image", set: "JSON set", vector: "JSON vector" };

export function start(panel, models, label = "Scene") {
  const model = models[0], isImage = model.input_kind === "image";
  const truth = panel.querySelector("[name=truth]"), table = panel.querySelector(".table");
  const marks = panel.querySelector(".marks"), pad = panel.querySelector(".seen"), seen = panel.querySelector(".seen-facts");
  // What is shown: the model's input, a larger picture of it where there is one, and whether it is the user's own.
  let shown = { input: null, picture: null, own: false };
  const stage = new Stage(panel, models, { look: () => ({ image: shown.picture, truth: truth.checked }) });

  const shape = (aspect) => {
    panel.querySelector(".workbench").classList.toggle("upright", aspect <= 1);
    for (const canvas of [pad, ...[...stage.cards.values()].map((card) => card.canvas)]) canvas.style.aspectRatio = String(aspect);
  };
  const drawInput = () => {
    if (isImage) drawImage(pad, shown.input, false);
    else if (!shown.input) drawNumbers(pad, []);
    else if (model.input_kind === "vector") drawNumbers(pad, [shown.input]);
    else if (model.input_size === 2) drawPoints(pad, shown.input, shown.input.map(() => 1), { order: axesOf(model) });
    else drawNumbers(pad, shown.input);
  };
  const explain = () => {
    const parts = [...(shown.own ? IMAGE_MARKS.unjudged : IMAGE_MARKS.judged), ...(truth.checked && !shown.own ? IMAGE_MARKS.truth : [])];
    const points = !isImage && (model.kind === "points" || model.kind === "polygons");
    fillMarks(marks, points ? (shown.own ? OWN_MARKS : POINT_MARKS("ground truth")) : model.kind === "vectors" ? [] : parts);
  };
  const facts = (name) => {
    const size = { image: `${model.input_size}×${model.input_size} pixels`, set: `${shown.input?.length} elements`, vector: `${model.input_size} numbers` };
    seen.textContent = `${name} · ${size[model.input_kind]}`;
  };
  const accept = async (answers, own, name) => {
    shown = own || { input: await inputOf(answers[0].input), own: false };
    if (!own) shown.picture = isImage ? await inputOf(answers[0].picture || answers[0].input) : null;
    shape(own?.aspect || (isImage ? model.aspect : 1));
    facts(name);
    explain();
    drawInput();
  };

  const count = Math.min(...models.map((m) => m.samples));
  const chooser = panel.querySelector(".chooser");
  chooser.innerHTML = `<label>${label} <input type="number" min="0" max="${count - 1}" value="0"></label>
    <button class="before" aria-label="Previous">‹</button><button class="after" aria-label="Next">›</button><button class="any">Random</button>`;
  const number = chooser.querySelector("input");
  const choose = (index) => {
    const chosen = ((Math.round(index) % count) + count) % count;
    number.value = String(chosen);
    stage.ask(() => ({ sample: chosen }), "play", (answers) => accept(answers, null, `${label} ${chosen}`));
  };
  number.addEventListener("change", () => choose(Math.min(count - 1, Math.max(0, Number(number.value) || 0))));
  chooser.querySelector(".before").addEventListener("click", () => choose(Number(number.value) - 1));
  chooser.querySelector(".after").addEventListener("click", () => choose(Number(number.value) + 1));
  chooser.querySelector(".any").addEventListener("click", () => choose(Math.random() * count));
  if (!count) chooser.textContent = "The data of this model is not on this machine.";

  const uploads = panel.querySelector(".uploads");
  uploads.querySelector(".upload")?.remove();
  addUpload(panel, uploads, `Upload ${isImage ? "an" : "a"} ${WORDS[model.input_kind]}`, isImage ? IMAGE_TYPES : ".json,application/json", async (file) => {
    try {
      const { body, own } = await READ[model.input_kind](file, model);
      stage.ask(() => body, "play", (answers) => accept(answers, own, file.name), file.name);
    } catch (error) {
      fail(error);
    }
  });

  const write = () => {
    const answer = [...stage.answers.values()].find((a) => a.text);
    if (answer) fillTable(table, answer, Math.min(stage.player.step, answer.steps), truth.checked);
    else table.replaceChildren();
  };
  stage.listeners.push(write);
  truth.onchange = () => { explain(); stage.draw(); write(); };
  shape(isImage ? model.aspect : 1);
  explain();
  return {
    redraw: () => { drawInput(); stage.redraw(); },
    first: () => count && choose(model.first_sample),
    leave: () => stage.player.pause(),
  };
}

// From a file to the body of the request, and to what is shown of it.
const READ = {
  image: async (file, model) => {
    const { image, picture } = await readImage(file);
    return { body: { image }, own: { input: picture && shrunk(picture, model.input_size), picture, own: true, aspect: picture ? picture.width / picture.height : 1 } };
  },
  set: async (file, model) => {
    const points = await readSet(file, model.input_size);
    return { body: { points }, own: { input: points, picture: null, own: true } };
  },
  vector: async (file, model) => {
    const vector = await readVector(file, model.input_size);
    return { body: { vector }, own: { input: vector, picture: null, own: true } };
  },
};

// An image as the model sees it: a square of few pixels.
function shrunk(picture, side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, side, side);
  return canvas;
}

// An input as the server gives it: numbers as they are, images decoded.
async function inputOf(value) {
  if (typeof value !== "string") return value;
  const image = new Image();
  image.src = value;
  await image.decode();
  return image;
}
