// What the page asks a server for, without a server: models run in the browser, by onnxruntime-web. `setpredict site`
// puts this file in the place of the served page's api.js, which says what its exports are.

import * as ort from "./ort.js";

export const place = {
  tabs: ["points", "digits", "polygons"],
  note: "Everything is computed in your browser; nothing is sent anywhere.",
  docs: "",
};

ort.env.wasm.numThreads = 1; // more would need headers that plain file servers do not send

const models = new Map(), sessions = new Map();
let queue = Promise.resolve();

export async function listModels() {
  const found = JSON.parse(new TextDecoder().decode(await get("models/models.json")));
  for (const model of found) models.set(model.name, model);
  return found;
}

// One input at a time; the page may draw between two of them.
export function decode(name, body) {
  const answer = queue.then(() => new Promise((done) => setTimeout(done))).then(() => run(models.get(name), body));
  queue = answer.catch(() => {});
  return answer;
}

async function run(model, body) {
  const session = await sessionOf(model.name), start = performance.now();
  const { elements, mask, repr_loss } = await session.run(feeds(model, body));
  const all = numbers(elements), masks = numbers(mask).map((row) => row.map((m) => Math.min(1, Math.max(0, m))));
  if (!elements.data.every(Number.isFinite) || !mask.data.every(Number.isFinite)) {
    throw new Error("Decoding this input gives values that are not finite.");
  }
  const steps = model.trained_steps ? Math.min(body.steps ?? model.trained_steps, model.max_steps) : 0;
  return {
    model: model.name,
    steps,
    trained_steps: model.trained_steps,
    elements: all.slice(0, steps + 1),
    mask: masks.slice(0, steps + 1),
    repr_loss: repr_loss ? [...repr_loss.data].slice(0, steps + 1) : null,
    columns: model.feature_names,
    milliseconds: performance.now() - start,
    batch_size: 1,
  };
}

function feeds(model, { points, vector }) {
  if (vector) return { input: new ort.Tensor("float32", Float32Array.from(vector), [1, model.input_size]) };
  const input = new Float32Array(model.max_size * model.input_size), mask = new Uint8Array(model.max_size);
  if (points.length > model.max_size) throw new Error(`${points.length} points; at most ${model.max_size} can be decoded.`);
  input.set(points.flat());
  mask.fill(1, 0, points.length);
  return {
    input: new ort.Tensor("float32", input, [1, model.max_size, model.input_size]),
    input_mask: new ort.Tensor("bool", mask, [1, model.max_size]),
  };
}

// A tensor (T + 1, 1, …) as nested arrays (T + 1, …).
function numbers({ data, dims: [, , ...rest] }, at = 0, sizes = null) {
  if (!sizes) {
    const size = rest.reduce((a, b) => a * b, 1);
    return Array.from({ length: data.length / size }, (_, i) => numbers({ data, dims: [0, 0] }, i * size, rest));
  }
  const [count, ...inner] = sizes, size = inner.reduce((a, b) => a * b, 1);
  if (!inner.length) return Array.from(data.subarray(at, at + count));
  return Array.from({ length: count }, (_, i) => numbers({ data, dims: [0, 0] }, at + i * size, inner));
}

function sessionOf(name) {
  if (!sessions.has(name)) {
    const loading = load(name);
    loading.catch(() => sessions.delete(name));
    sessions.set(name, loading);
  }
  return sessions.get(name);
}

// onnxruntime does not try again to load its own files, so they are loaded here.
async function load(name) {
  ort.env.wasm.wasmBinary ??= await get("static/ort.wasm");
  return ort.InferenceSession.create(new Uint8Array(await get(`models/${name}.onnx`)));
}

// The bytes of a file. A connection can be lost before they are complete.
async function get(path) {
  const response = await fetch(path).catch(() => null);
  const content = response?.ok ? await response.arrayBuffer().catch(() => null) : null;
  if (content) return content;
  throw Object.assign(new Error(`${path} cannot be loaded. Is the folder still served?`), { again: true });
}
