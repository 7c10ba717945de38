// What all tabs have in common: answers beside the input, a legend below them, and the player.

const part = (tag, name) => Object.assign(document.createElement(tag), { className: name });

// The chooser of a sample, for tabs that show samples of a data set.
function sampleInput({ input, truth }) {
  const content = document.getElementById("sample").content.cloneNode(true);
  content.querySelector("strong").textContent = input;
  content.querySelector("[name=truth]").defaultChecked = truth !== undefined;
  return content;
}

export function completePanels() {
  for (const bench of document.querySelectorAll(".workbench")) {
    const marks = part("ul", "marks"), ofSamples = bench.dataset.input !== undefined;
    marks.setAttribute("aria-label", "Legend");
    if (ofSamples) bench.append(sampleInput(bench.dataset));
    bench.append(part("div", "answers"));
    bench.after(marks);
    bench.parentElement.append(part("div", "player"), ...(ofSamples ? [part("div", "table")] : []));
  }
}
