// Everything that the page asks a server for. No other module calls it, so that a page without a server replaces this
// file by one with the same exports:
//   place                the tabs that can be offered, and what the footer says
//   listModels()         the models, each as ModelInfo in /openapi.json
//   decode(name, body)   the trajectory for one input, as DecodeAnswer; fields that do not apply are null or left out
// Both reject with an Error whose message is for people; `again` is true if asking again may help.

const LONGEST = 60_000; // milliseconds; the server itself answers or gives up in 20 seconds
const isHere = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export const place = {
  tabs: ["points", "digits", "polygons", "scenes", "run"],
  note: isHere ? "Everything is computed on your own machine." : `Everything is computed on ${location.hostname}, which also gets what you upload.`,
  docs: "docs",
};

export async function listModels() {
  return answerOf(await ask("api/models"));
}

export async function decode(model, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  for (let attempt = 0; ; attempt += 1) {
    const response = await ask(`api/${encodeURIComponent(model)}/decode`, request);
    if (response.status !== 503 || attempt === 3) return answerOf(response);
    await new Promise((done) => setTimeout(done, 400 * (attempt + 1)));
  }
}

async function ask(path, request) {
  try {
    return await fetch(path, { ...request, signal: AbortSignal.timeout(LONGEST) });
  } catch (error) {
    const text = error.name === "TimeoutError" ? "The server does not answer." : "The server has stopped. Start `setpredict serve` again.";
    throw Object.assign(new Error(text), { again: true });
  }
}

async function answerOf(response) {
  if (response.ok) {
    return response.json().catch(() => {
      throw Object.assign(new Error("The connection was lost."), { again: true });
    });
  }
  let reason = `the server answered ${response.status}`;
  try {
    reason = (await response.json()).detail || reason;
  } catch {
    // the response is not JSON: keep the status as the reason
  }
  throw Object.assign(new Error(reason), { again: response.status >= 500 });
}
