// Search without a server: browsers start no worker from a file, so a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      const answer = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise(done => {
        const page = this.inside.document;
        page.open();
        page.write("<!doctype html><title>search</title>");
        page.close();
        this.inside.postMessage = answer;
        const script = page.createElement("script");
        script.src = url;
        script.onload = done;
        page.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
      );
    }

    terminate() {
      this.inside.frameElement?.remove();
    }
  };
}
