// A button that opens a file, and a panel that files can be dropped on.

// `accept` is a list of types or endings for the file dialog; `onFile(file)` gets the file.
export function addUpload(panel, parent, text, accept, onFile) {
  const label = document.createElement("label");
  label.className = "upload button";
  label.innerHTML = `<input type="file" class="unseen"><span></span>`;
  const input = label.querySelector("input");
  input.accept = accept;
  label.querySelector("span").textContent = text;
  input.addEventListener("change", () => {
    if (input.files.length) onFile(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  parent.append(label);
  const carriesFile = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  panel.ondragover = (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    panel.classList.add("dropping");
  };
  panel.ondragleave = (event) => {
    if (!panel.contains(event.relatedTarget)) panel.classList.remove("dropping");
  };
  panel.ondrop = (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    panel.classList.remove("dropping");
    if (event.dataTransfer.files.length) onFile(event.dataTransfer.files[0]);
  };
}
