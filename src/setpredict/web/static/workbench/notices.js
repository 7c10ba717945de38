// What the page tells people: problems at the bottom of the window, and short messages for screen readers.

const bar = document.getElementById("problem");
const [button, close] = bar.querySelectorAll("button");
let again = null;

button.addEventListener("click", () => {
  const retry = again;
  leave();
  retry();
});
close.addEventListener("click", leave);

// Close the bar; the focus, which was in it, goes on to the content.
function leave() {
  tell("");
  document.getElementById("main").focus({ preventScroll: true });
}

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

// An error of api.js, which says whether asking again may help, or of files.js.
export function fail(error, retry) {
  tell(error.message, error.again ? retry : null);
}

export function say(text) {
  document.getElementById("live").textContent = text;
}
