// The demo on the front page. Opened as files, without a server, browsers do not load its modules.

{
  const place = document.getElementById("demo");
  if (location.protocol === "file:") {
    place.innerHTML = "<p>To try the demo, serve this folder: <code>python -m http.server -d site</code></p>";
  } else {
    const frame = document.createElement("iframe");
    Object.assign(frame, { src: "demo/index.html", title: "A set takes shape", loading: "lazy" });
    frame.style.cssText = "width: 100%; height: 46rem; border: 1px solid var(--md-default-fg-color--lightest); border-radius: 4px";
    place.append(frame);
  }
}
