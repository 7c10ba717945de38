// Words that need an explanation, each a button that shows it.

const TERMS = {
  DSPN: "Deep Set Prediction Network. It predicts a set by gradient descent on the set itself: from an initial set, it moves all elements until the set encoder maps them to the given vector.",
  iDSPN: "Implicit DSPN. The same descent, with momentum, from random elements. It is trained by implicit differentiation, through the end of the descent only, so many steps cost no memory.",
  MLP: "Multilayer perceptron. It outputs all elements at once, as a list of numbers. Every output is responsible for one element, and which one it is changes abruptly from set to set.",
  LSTM: "Long short-term memory. It outputs one element after another, although a set has no order.",
  "Slot Attention": "Slots compete for the parts of the input by attention, over several rounds; each slot becomes one element.",
  transformer: "Learned queries attend to the input and to each other, layer by layer; each query becomes one element.",
  dense: "A convolutional head proposes an element for every cell of the feature map, and the best ones are kept.",
  loss: "The representation loss: how far the encoding of the current set is from the given vector. Every step of the descent reduces it. Encoders have different scales, so the chart divides each loss by its value at step 0.",
  mask: "One number per element, from 0 to 1: how sure the model is that the element is part of the set. Elements above 0.5 count; the others are drawn faintly.",
  recovered: "A true point is recovered if a predicted point is within 0.03 of it, and each predicted point counts once. A box must overlap a true box by half (IoU 0.5). An object must have every attribute right and be within 0.5 of its true position.",
};

const card = document.getElementById("term");

// A button with the explanation of a term, or plain text if there is none.
export function term(name, text = name) {
  const known = Object.keys(TERMS).find((t) => t.toLowerCase() === name.toLowerCase());
  if (!known) return document.createTextNode(text);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "term";
  button.textContent = text;
  button.dataset.term = known;
  return button;
}

// Replace every <span data-term="…"> below a node by its button.
export function addTerms(node) {
  for (const span of node.querySelectorAll("span[data-term]")) span.replaceWith(term(span.dataset.term, span.textContent));
}

function show(button) {
  card.querySelector("strong").textContent = button.dataset.term;
  card.querySelector("p").textContent = TERMS[button.dataset.term];
  card.showPopover();
  const at = button.getBoundingClientRect(), size = card.getBoundingClientRect();
  const left = Math.max(12, Math.min(at.left, innerWidth - size.width - 12));
  const below = at.bottom + 8 + size.height <= innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${below ? at.bottom + 8 : Math.max(12, at.top - 8 - size.height)}px`;
  card.focus({ preventScroll: true }); // it is read, and closing it returns to the button
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.term");
  if (button) show(button);
});
