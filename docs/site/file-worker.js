// Search runs in a Web Worker, and a browser allows none to a page that was opened as a file. Here
// the same script runs in a hidden frame then. Pages from a server keep the browser's own workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return
        const copy = new MessageEvent("message", { data: event.data })
        if (this.onmessage) this.onmessage(copy)
        this.dispatchEvent(copy)
      })
      const { document: inside } = this.frame.contentWindow
      inside.open()
      inside.write(`<script>
        postMessage = (data) => parent.postMessage(data, "*")
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
          new Promise((done, failed) => {
            const script = document.createElement("script")
            Object.assign(script, { src: url, onload: done, onerror: failed })
            document.body.appendChild(script)
          })), Promise.resolve())
      </script><body><script src="${new URL(url, location)}"></script>`)
      inside.close()
      this.ready = new Promise((done) => this.frame.contentWindow.addEventListener("load", done))
    }
    postMessage(message) {
      const data = structuredClone(message) // as a browser's worker: what the page holds stays as it is
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
