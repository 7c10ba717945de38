// What the marks of a tab mean, as a list of small pictures with text.

import { addTerms } from "./terms.js";

const ICONS = {
  ring: '<circle class="ring" cx="10" cy="8" r="6"/>',
  dot: '<circle class="dot" cx="10" cy="8" r="5"/>',
  diamond: '<path class="diamond" d="M10 2 16 8 10 14 4 8Z"/>',
  faint: '<circle class="dot faint" cx="10" cy="8" r="5"/>',
  right: '<rect class="casing" x="2" y="2" width="16" height="12"/><rect class="right" x="2" y="2" width="16" height="12"/>',
  wrong: '<rect class="casing" x="2" y="2" width="16" height="12"/><rect class="wrong" x="2" y="2" width="16" height="12"/>',
  unjudged: '<rect class="casing" x="2" y="2" width="16" height="12"/><rect class="unjudged" x="2" y="2" width="16" height="12"/>',
  spot: '<circle class="right" cx="10" cy="8" r="4"/>',
  cross: '<path class="wrong" d="M5 8H15M10 3V13"/>',
  unjudgedSpot: '<circle class="unjudged" cx="10" cy="8" r="4"/>',
  trueSpot: '<circle class="ring" cx="10" cy="8" r="6"/>',
  truth: '<rect class="casing" x="2" y="2" width="16" height="12"/><rect class="truth" x="2" y="2" width="16" height="12"/>',
};

// `items` are [icon, text]; text may contain <span data-term="…"> for words that terms.js explains.
export function fillMarks(parent, items) {
  parent.replaceChildren(...items.map(([icon, text]) => {
    const item = document.createElement("li");
    item.innerHTML = `<svg viewBox="0 0 20 16" aria-hidden="true">${ICONS[icon]}</svg><span>${text}</span>`;
    return item;
  }));
  addTerms(parent);
}

const RECOVERED = '<span data-term="recovered">recovered</span>';
const FAINT = ["faint", 'faint: <span data-term="mask">mask</span> below 0.5'];

export const POINT_MARKS = (truth) => [["ring", truth], ["dot", RECOVERED], ["diamond", `not ${RECOVERED}`], FAINT];
const OWN_MARKS = [["dot", "predicted"], FAINT];
export const MANY_MARKS = [["ring", "your digit"], ["dot", "predicted"], FAINT];
const CORRECT = 'correct (<span data-term="recovered">when?</span>)', UNKNOWN = "predicted; nobody knows the truth of an upload";
const IMAGE_MARKS = { judged: [["right", CORRECT], ["wrong", "wrong: dashed"]], unjudged: [["unjudged", UNKNOWN]], truth: [["truth", "ground truth"]] };
const SPOT_MARKS = { judged: [["spot", CORRECT], ["cross", "wrong"]], unjudged: [["unjudgedSpot", UNKNOWN]], truth: [["trueSpot", "ground truth"]] };

// The marks of samples, by how they are drawn (views.js), for the user's own input and with the truth.
export function sampleMarks(drawn, own, truth) {
  if (drawn === "numbers") return [];
  if (drawn === "points") return own ? OWN_MARKS : POINT_MARKS("ground truth");
  const marks = drawn === "spots" ? SPOT_MARKS : IMAGE_MARKS;
  return own ? marks.unjudged : [...marks.judged, ...(truth ? marks.truth : [])];
}
