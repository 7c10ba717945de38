// What the page tells people: problems at the bottom of the window, and short messages for screen readers.

const bar = document.getElementById("problem");
const button = bar.querySelector("button");
let again = null;

button.addEventListener("click", () => {
  const retry = again;
  tell("");
  if (retry) retry();
});

// A problem, or "" when it is solved. With `retry`, a button calls it. Text between backticks is code.
export function tell(text, retry = null) {
  again = retry;
  bar.hidden = !text;
  button.hidden = !retry;
  const parts = text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
  bar.querySelector("span").replaceChildren(...parts);
}

// An error of api.js: only a server that has stopped is worth asking again.
export function fail(error, retry) {
  tell(error.message, error.stopped ? retry : null);
}

export function say(text) {
  document.getElementById("live").textContent = text;
}
