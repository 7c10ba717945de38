// Objects as text, one row each; wrong attributes are red, bold and marked.

import { rowsOf } from "./views.js";

export function fillTable(parent, answer, step, withTruth) {
  const rows = rowsOf(answer, step).map((row) => ({
    cells: row.cells?.length ? row.cells : answer.text[step][row.element].map((text) => ({ text, wrong: false })),
    score: row.score,
  }));
  const tables = [tableOf(`Predicted at step ${step}; × marks wrong attributes`, [...answer.columns, "mask"], rows)];
  const truth = withTruth && answer.target?.text;
  if (truth) tables.push(tableOf("Ground truth", answer.columns, truth.map((cells) => ({ cells: cells.map((text) => ({ text })) }))));
  parent.replaceChildren(...tables);
}

function tableOf(title, columns, rows) {
  const table = document.createElement("table");
  table.createCaption().textContent = title;
  const head = table.createTHead().insertRow();
  for (const name of ["", ...columns]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  rows.forEach(({ cells, score }, i) => {
    const line = body.insertRow();
    line.className = score === undefined || score > 0.5 ? "" : "faint";
    line.insertCell().textContent = String(i + 1);
    for (const { text, wrong } of cells) {
      const cell = line.insertCell();
      cell.textContent = wrong ? `× ${text}` : text;
      cell.className = wrong ? "wrong" : "";
    }
    if (score !== undefined) line.insertCell().textContent = score.toFixed(2);
  });
  return table;
}
