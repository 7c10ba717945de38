// What the charts share: an empty drawing whose unit is one pixel, its parts, and where its ticks are.

const NS = "http://www.w3.org/2000/svg";

export function blank(svg, height) {
  const width = Math.max(svg.clientWidth, 200);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  return width;
}

export function add(svg, tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  svg.append(node);
  return node;
}

// Round numbers from 0 to `end`, at most about eight.
export function ticks(end) {
  const every = [1, 2, 5, 10, 15, 20, 30, 50].find((n) => end / n <= 8) || 100;
  return Array.from({ length: Math.floor(end / every) + 1 }, (_, i) => i * every);
}

// A logarithmic axis that contains all values: its lowest and highest powers of ten, and the power of every grid line.
export function decades(values, floor = 1e-12) {
  const low = Math.floor(Math.log10(Math.max(Math.min(...values), floor)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values, floor)) - 1e-9));
  const every = Math.ceil((high - low) / 4);
  const powers = [];
  for (let power = high; power >= low; power -= every) powers.push(power);
  return { low, high, powers };
}

export const powerText = (power) => (power >= -3 && power <= 3 ? String(Number((10 ** power).toPrecision(1))) : `1e${power}`);

// Names with the color of their lines; `series` are {name, style}.
export function fillLegend(parent, series) {
  parent.replaceChildren(...series.map(({ name, style }) => {
    const item = document.createElement("span");
    item.className = "key";
    item.innerHTML = `<svg class="swatch" viewBox="0 0 26 8" aria-hidden="true"><path class="s${style}" d="M1 4H25"/></svg>`;
    item.append(name);
    return item;
  }));
}
