// Search in a site that is opened as files: browsers do not start workers from file://, so a hidden frame does the work.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.onmessage = null;
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inner = this.#frame.contentWindow;
      // What a worker's script expects around it.
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inner.importScripts = (...urls) => Promise.all(urls.map((each) => load(inner, each)));
      this.#ready = load(inner, url);
    }

    postMessage(data) {
      this.#ready.then(() => {
        const inner = this.#frame.contentWindow;
        inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.#frame.remove();
    }
  };

  function load(inner, url) {
    return new Promise((resolve, reject) => {
      const script = inner.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${url} cannot be loaded`));
      inner.document.body.append(script);
    });
  }
})();
