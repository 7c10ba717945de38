// The page: its tabs and their models.

import { listModels } from "./api.js";
import * as digits from "./digits.js";
import * as points from "./points.js";
import * as polygons from "./polygons.js";
import * as run from "./run.js";
import * as samples from "./samples.js";
import { tell } from "./stage.js";

const STARTS = { digits: digits.start, points: points.start, polygons: polygons.start, scenes: samples.start, run: run.start };
const tabs = [...document.querySelectorAll("[role=tab]")];
const pages = new Map();
let models = [];

function open(name, focus = false) {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  for (const [other, page] of pages) if (other !== name && page.leave) page.leave();
  history.replaceState(null, "", `#${name}`);
  const page = pages.get(name);
  if (page) page.redraw();
  else startTab(name);
}

function startTab(name) {
  const panel = document.getElementById(`panel-${name}`);
  const own = models.filter((m) => m.tab === name);
  if (!own.length && name !== "run") {
    panel.querySelector(".lead").textContent = "The models of this tab are not part of this installation.";
    panel.querySelector(".workbench").hidden = true;
    panel.querySelector(".player").hidden = true;
    return;
  }
  const page = STARTS[name](panel, own);
  pages.set(name, page);
  page.first();
}

tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open(tabs[to % tabs.length].id.slice(4), true);
  });
});

const redraw = () => document.querySelector("[role=tabpanel]:not([hidden])") && pages.get(location.hash.slice(1))?.redraw();
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

try {
  models = await listModels();
  const wanted = location.hash.slice(1);
  const first = STARTS[wanted] ? wanted : models.some((m) => m.tab === "run") ? "run" : "digits";
  open(first);
} catch (error) {
  tell(`The models could not be loaded: ${error.message}`);
}
