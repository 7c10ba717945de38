// The HTTP API: list the models, and decode with one.

export async function listModels() {
  return answerOf(await fetch("/api/models"));
}

export async function decode(model, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  for (let attempt = 0; ; attempt += 1) {
    const response = await fetch(`/api/${encodeURIComponent(model)}/decode`, request);
    if (response.status !== 503 || attempt === 3) return answerOf(response);
    await new Promise((done) => setTimeout(done, 400 * (attempt + 1)));
  }
}

async function answerOf(response) {
  if (response.ok) return response.json();
  let reason = `the server answered ${response.status}`;
  try {
    reason = (await response.json()).detail || reason;
  } catch {
    // the response is not JSON: keep the status as the reason
  }
  throw new Error(reason);
}
