// From a file of the user to the input of a model. What is wrong with a file is an Error that names it.

const MOST_BYTES = 600_000; // larger images are made smaller here; the server takes 900,000 characters of base64
const LONGEST_SIDE = 1024; // more than any model sees

export const IMAGE_TYPES = "image/png,image/jpeg,image/webp";

// {image, picture}: the image in base64 as the server takes it, and the picture to show (null if the browser cannot).
export async function readImage(file) {
  const whole = await createImageBitmap(file).catch(() => null);
  const fits = file.size <= MOST_BYTES && (!whole || whole.width * whole.height <= 4_000_000);
  if (!whole) {
    if (fits) return { image: await toBase64(file), picture: null };
    const size = `${(file.size / 1e6).toFixed(1)} MB`;
    throw new Error(`${file.name} (${size}) is not an image that this browser can read: upload a PNG, JPEG or WebP.`);
  }
  const scale = Math.min(1, LONGEST_SIDE / Math.max(whole.width, whole.height));
  const picture = document.createElement("canvas");
  picture.width = Math.max(1, Math.round(scale * whole.width));
  picture.height = Math.max(1, Math.round(scale * whole.height));
  picture.getContext("2d").drawImage(whole, 0, 0, picture.width, picture.height);
  whole.close();
  const sent = fits ? file : await new Promise((done) => picture.toBlob(done, "image/jpeg", 0.9));
  return { image: await toBase64(sent), picture };
}

function toBase64(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(new Error(`the file could not be read: ${reader.error.message}`));
    reader.readAsDataURL(blob);
  });
}

async function readJson(file) {
  if (file.size > 1_000_000) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most 1,000,000 are read.`);
  try {
    return JSON.parse(await file.text());
  } catch (error) {
    throw new Error(`${file.name} is not JSON: ${error.message}`);
  }
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const short = (value) => {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
};

// A set: [[0.2, 0.4], …], alone or as "set", "points" or "input" of an object. `range` bounds its numbers, if given.
export async function readSet(file, features, range = null) {
  const content = await readJson(file);
  const set = Array.isArray(content) ? content : content?.set ?? content?.points ?? content?.input;
  const example = JSON.stringify([Array(features).fill(0.2), Array(features).fill(0.7)]);
  if (!Array.isArray(set)) throw new Error(`${file.name} has no set: expected a list of elements such as ${example}.`);
  set.forEach((element, i) => {
    if (!Array.isArray(element) || element.length !== features || !element.every(isNumber))
      throw new Error(`${file.name}: element ${i} is ${short(element)}; expected ${features} number${features === 1 ? "" : "s"}, as in ${example}.`);
    const outside = range && element.find((v) => v < range[0] || v > range[1]);
    if (typeof outside === "number") throw new Error(`${file.name}: element ${i} contains ${outside}; numbers are from ${range[0]} to ${range[1]}.`);
  });
  return set;
}

// A vector: [0.1, 0.2, …], alone or as "vector" or "input" of an object.
export async function readVector(file, length) {
  const content = await readJson(file);
  const vector = Array.isArray(content) ? content : content?.vector ?? content?.input;
  if (!Array.isArray(vector) || vector.length !== length || !vector.every(isNumber))
    throw new Error(`${file.name} is ${short(content)}; expected a list of ${length} numbers.`);
  return vector;
}
