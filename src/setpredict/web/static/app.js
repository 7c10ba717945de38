// The page: its tabs and their models.

import { listModels, place } from "./api.js";
import * as digits from "./tabs/digits.js";
import { fail, tell } from "./workbench/notices.js";
import { completePanels } from "./workbench/panels.js";
import * as points from "./tabs/points.js";
import * as polygons from "./tabs/polygons.js";
import * as run from "./tabs/run.js";
import * as samples from "./tabs/samples.js";
import { addTerms } from "./workbench/terms.js";

const STARTS = { points: points.start, digits: digits.start, polygons: polygons.start, scenes: samples.start, run: run.start };
completePanels();
const tabs = [...document.querySelectorAll("[role=tab]")].filter((tab) => place.tabs.includes(tab.id.slice(4)) || tab.remove());
const pages = new Map();
let models = null, current = "";

function open(name, focus = false) {
  current = name;
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
    if (chosen) reveal(tab);
  }
  for (const [other, page] of pages) if (other !== name && page.leave) page.leave();
  history.replaceState(null, "", `#${name}`);
  const page = pages.get(name);
  if (page) page.redraw();
  else if (models) startTab(name); // else `begin` opens it
}

// Scroll the list of tabs, and not the pages around it, as `scrollIntoView` would.
function reveal(tab) {
  const list = tab.parentElement, [inner, outer] = [tab, list].map((e) => e.getBoundingClientRect());
  list.scrollLeft += Math.max(0, inner.right - outer.right) - Math.max(0, outer.left - inner.left);
}

function startTab(name) {
  const panel = document.getElementById(`panel-${name}`);
  const own = models.filter((m) => m.tab === name);
  if (!own.length && name !== "run") {
    panel.querySelector(".lead").textContent = "The models of this tab are not part of this installation.";
    for (const part of panel.querySelectorAll(".workbench, .player, .sweep, .marks")) part.hidden = true;
    return;
  }
  const page = STARTS[name](panel, own);
  pages.set(name, page);
  page.first();
}

function choose(tab, focus = false) {
  if (models) tell(""); // problems of another tab; without models, Retry must stay
  open(tab.id.slice(4), focus);
}

tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(tabs[to % tabs.length], true);
  });
});

// A file that misses the panel must not replace the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());

const redraw = () => pages.get(current)?.redraw();
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.querySelector("footer span").textContent = place.note;
document.querySelector("footer a").hidden = !place.docs;
addTerms(document.body);

async function begin() {
  try {
    models = await listModels();
  } catch (error) {
    return fail(error, begin);
  }
  const wanted = location.hash.slice(1);
  return open(place.tabs.includes(wanted) ? wanted : models.some((m) => m.tab === "run") ? "run" : place.tabs[0]);
}

begin();
