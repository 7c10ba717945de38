// Samples of a model's own data, and files of the user: the tab of scenes, and of the user's own runs.

import { drawNumbers, drawPoints } from "../pictures/draw.js";
import { IMAGE_TYPES, readImage, readSet, readVector } from "../workbench/files.js";
import { fillMarks, sampleMarks } from "../workbench/legend.js";
import { fail } from "../workbench/notices.js";
import { drawImage } from "../pictures/overlay.js";
import { Stage } from "../workbench/stage.js";
import { fillTable } from "../pictures/table.js";
import { addUpload } from "../workbench/upload.js";
import { axesOf, drawnAs } from "../pictures/views.js";

const MOST_ASPECT = 2.5; // a longer image is squeezed, as it is for the model
const WORDS = { image: "image", set: "JSON set", vector: "JSON vector" };

export function start(panel, models, label = "Scene") {
  const model = models[0], isImage = model.input_kind === "image";
  const truth = panel.querySelector("[name=truth]"), table = panel.querySelector(".table");
  const marks = panel.querySelector(".marks"), pad = panel.querySelector(".seen"), seen = panel.querySelector(".seen-facts");
  // What is shown: the model's input, a larger picture of it where there is one, whether it is the user's own, and
  // whether the elements have positions on it.
  let shown = { input: null, picture: null, own: false, placed: isImage && model.kind === "states" }, actions = 0;
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
  const explain = () => fillMarks(marks, sampleMarks(drawnAs(model, shown.placed), shown.own, truth.checked));
  const facts = (name) => {
    const size = { image: `${model.input_size}×${model.input_size} pixels`, set: `${shown.input?.length} elements`, vector: `${model.input_size} numbers` };
    seen.textContent = `${name} · ${size[model.input_kind]}`;
  };
  const accept = async ([{ input, picture, positions }], isWanted, own, name) => {
    const small = isImage && own ? own.input : await inputOf(input);
    const behind = isImage ? own?.picture || (await inputOf(picture || input)) : null;
    if (!isWanted()) return;
    shown = { input: small, picture: behind, own: Boolean(own), placed: Boolean(positions) };
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
    actions += 1;
    stage.ask(() => ({ sample: chosen }), { accepted: (answers, isWanted) => accept(answers, isWanted, null, `${label} ${chosen}`) });
  };
  number.addEventListener("change", () => choose(Math.min(count - 1, Math.max(0, Number(number.value) || 0))));
  chooser.querySelector(".before").addEventListener("click", () => choose(Number(number.value) - 1));
  chooser.querySelector(".after").addEventListener("click", () => choose(Number(number.value) + 1));
  chooser.querySelector(".any").addEventListener("click", () => choose(Math.random() * count));
  if (!count) chooser.textContent = "The data of this model is not on this machine.";

  const uploads = panel.querySelector(".uploads");
  uploads.querySelector(".upload")?.remove();
  addUpload(panel, uploads, `Upload ${isImage ? "an" : "a"} ${WORDS[model.input_kind]}`, isImage ? IMAGE_TYPES : ".json,application/json", async (file) => {
    const action = (actions += 1);
    try {
      const { body, own } = await READ[model.input_kind](file, model);
      if (action !== actions) return; // something newer was chosen while the file was read
      stage.ask(() => body, { accepted: (answers, isWanted) => accept(answers, isWanted, own, file.name), file: file.name });
    } catch (error) {
      if (action === actions) fail(error);
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
  drawInput();
  seen.textContent = "";
  write();
  return {
    redraw: () => { drawInput(); stage.redraw(); },
    first: () => count && choose(model.first_sample),
    leave: () => stage.player.pause(),
    close: () => { actions += 1; stage.close(); },
  };
}

// From a file to the body of the request, and to what is shown of an image; numbers come back with the answer.
const READ = {
  image: async (file, model) => {
    const { image, picture } = await readImage(file);
    const aspect = picture ? picture.width / picture.height : 1;
    return { body: { image }, own: { input: picture && shrunk(picture, model.input_size), picture, aspect: Math.min(MOST_ASPECT, Math.max(1 / MOST_ASPECT, aspect)) } };
  },
  set: async (file, model) => ({ body: { points: await readSet(file, model.input_size) }, own: {} }),
  vector: async (file, model) => ({ body: { vector: await readVector(file, model.input_size) }, own: {} }),
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
