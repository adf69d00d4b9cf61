// Search in pages that are opened from disk, where browsers start no worker: its script runs in a hidden frame instead.
// The theme's plugin `offline`, which writes the index as a script, would load a program for that from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.worker = this;
      this.frame.srcdoc = `<script>postMessage = (data) => frameElement.worker.receive(data);</script>
        <script src="${address}"></script>`;
      this.loaded = new Promise((done) => this.frame.addEventListener("load", done));
      document.body.append(this.frame);
    }

    receive(data) {
      setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }

    async postMessage(data) {
      await this.loaded;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
