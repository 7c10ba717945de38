// Samples of a model's own data: generated scenes, or the validation samples of a run.

import { Stage } from "./stage.js";

export function start(panel, models, label = "Scene") {
  const truth = panel.querySelector("[name=truth]"), table = panel.querySelector(".table");
  let image = null;
  const stage = new Stage(panel, models, () => ({ image, truth: truth.checked }));
  const count = Math.min(...models.map((m) => m.samples));
  const chooser = panel.querySelector(".chooser");
  chooser.innerHTML = `<label>${label} <input type="number" min="0" max="${count - 1}" value="0"></label>
    <button class="before">Previous</button><button class="after">Next</button><button class="any">Random</button>`;
  const number = chooser.querySelector("input");

  const choose = (index) => {
    number.value = String(((Math.round(index) % count) + count) % count);
    stage.ask(() => ({ sample: Number(number.value) }), "play");
  };
  number.addEventListener("change", () => choose(Math.min(count - 1, Math.max(0, Number(number.value) || 0))));
  chooser.querySelector(".before").addEventListener("click", () => choose(Number(number.value) - 1));
  chooser.querySelector(".after").addEventListener("click", () => choose(Number(number.value) + 1));
  chooser.querySelector(".any").addEventListener("click", () => choose(Math.random() * count));
  truth.onchange = () => stage.draw();
  stage.listeners.push(async (answers) => {
    const source = answers[0].input;
    image = typeof source === "string" ? await load(source) : null;
  });
  const draw = stage.draw.bind(stage);
  stage.draw = () => {
    draw();
    const answer = [...stage.answers.values()].find((a) => a.text);
    if (answer) fill(table, answer, Math.min(stage.player.step, answer.steps));
    else table.replaceChildren();
  };
  if (!count) chooser.textContent = "The data of this model is not on this machine.";
  return { redraw: () => stage.draw(), first: () => count && choose(0) };
}

async function load(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  return image;
}

// The objects as text; wrong attributes are red, bold and marked.
function fill(parent, answer, step) {
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.className = "unseen";
  caption.textContent = `Predicted objects at step ${step}; × marks wrong attributes`;
  const head = table.createTHead().insertRow();
  for (const name of ["", ...answer.columns, "mask"]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  answer.matches[step].forEach((row, i) => {
    const line = body.insertRow();
    line.className = row.score > 0.5 ? "" : "faint";
    line.insertCell().textContent = String(i + 1);
    for (const cell of row.cells) {
      const written = line.insertCell();
      written.textContent = cell.wrong ? `× ${cell.text}` : cell.text;
      written.className = cell.wrong ? "wrong" : "";
    }
    line.insertCell().textContent = row.score.toFixed(2);
  });
  parent.replaceChildren(table);
}
