// Sends the microphone's sound to examples/server/server.py, which answers with what is said. The page imports this file, and so
// does its AudioWorklet, where registerProcessor exists.

const RATE = 16000; // samples a second, which the browser's AudioContext makes of the microphone's rate
const PIECE = 1600; // samples of a message
const MOST_WAITING = 10 * 2 * RATE; // bytes that may wait for the network: ten seconds

if (globalThis.registerProcessor)
  registerProcessor("samples", class extends AudioWorkletProcessor {
    process([[channel]]) {
      if (channel) this.port.postMessage(channel.slice());
      return true;
    }
  });

export class Microphone {
  /** Begins to hear, and returns a Microphone. address is that of /listen. show is called with each of its messages that has a text.
      ended(error) is called once; error is undefined if stop() was the reason. */
  static async open(address, show, ended) {
    if (!navigator.mediaDevices || !globalThis.AudioWorkletNode) throw new Error("the browser gives pages a microphone only over https, or on localhost");
    const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false }; // models know noise
    const stream = await navigator.mediaDevices.getUserMedia({ audio });
    const context = new AudioContext({ sampleRate: RATE });
    try {
      await context.audioWorklet.addModule(import.meta.url);
      return new Microphone(stream, context, address, show, ended);
    } catch (error) {
      for (const track of stream.getTracks()) track.stop();
      context.close();
      throw error;
    }
  }

  constructor(stream, context, address, show, ended) {
    Object.assign(this, { stream, context, ended, samples: new Int16Array(PIECE), n: 0, waiting: [] });
    const node = new AudioWorkletNode(context, "samples", { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => this.take(data);
    context.createMediaStreamSource(stream).connect(node);
    this.socket = new WebSocket(address);
    this.socket.onopen = () => this.waiting.splice(0).forEach((piece) => this.socket.send(piece));
    this.socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.error) this.error = message.error;
      else if (message.text !== undefined) show(message);
    };
    this.socket.onclose = ({ code, reason }) =>
      this.end(this.error ?? (code === 1000 ? undefined : reason || "the connection to the server has ended"));
    for (const track of stream.getTracks()) track.onended = () => this.stop(); // the device is gone
  }

  /** Takes samples from -1 to 1, and sends a message when there are PIECE. */
  take(samples) {
    for (const sample of samples) {
      this.samples[this.n++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      if (this.n === PIECE) this.flush();
    }
  }

  flush() {
    const piece = this.samples.slice(0, this.n).buffer;
    this.n = 0;
    if (this.isStopping || !piece.byteLength) return;
    if (this.socket.bufferedAmount > MOST_WAITING) {
      this.error = "the server, or the network, is slower than speech";
      this.socket.close();
    } else if (this.socket.readyState === WebSocket.CONNECTING) this.waiting.push(piece);
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(piece);
  }

  /** Ends the sound. What is left of the text still comes, and then ended() is called. */
  stop() {
    if (this.isStopping) return;
    this.flush();
    this.isStopping = true;
    this.release();
    if (this.socket.readyState === WebSocket.CONNECTING) this.waiting.push(new ArrayBuffer(0));
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(new ArrayBuffer(0)); // the end of the sound
  }

  release() {
    for (const track of this.stream.getTracks()) track.stop();
    if (this.context.state !== "closed") this.context.close();
  }

  end(error) {
    this.release();
    this.ended(error);
  }
}
