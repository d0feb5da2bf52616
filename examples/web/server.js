// Translates by examples/server/server.py, which serves this page: what page.js needs of a Translator of transformer.js.

/** Returns the API key of an address that ends in #api_key=KEY. */
const key = () => new URLSearchParams(location.hash.slice(1)).get("api_key");

export class Server {
  /** sources, targets: language codes. If there are several, the options source and target choose. */
  constructor({ sources, targets }) {
    this.sources = sources;
    this.targets = targets;
    this.info = { hasText: true, kernels: "", heads: 0, encoderLayers: 0, decoderLayers: 0,
      needsSource: sources.length > 1, needsTarget: targets.length > 1,
      languages: sources.length > 1 ? sources : targets.length > 1 ? targets : [] };
  }

  /** Returns the lines. The server finds the sentences of a line. */
  async sentences(text) {
    return [...text.matchAll(/\S[^\r\n]*/g)].map(({ 0: line, index }) => ({ begin: index, end: index + line.length }));
  }

  /** Returns a translation, or an error, for each text. If the server refuses a list, its halves are tried. */
  async translateAll(texts, { source, target, signal }) {
    if (this.info.needsSource === false) source = this.sources[0];
    if (this.info.needsTarget === false) target = this.targets[0];
    if (source === target) return texts.map((text) => ({ source: text, text }));
    const body = JSON.stringify({ q: texts, source, target, api_key: key() ?? undefined });
    const response = await fetch("translate", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer.translatedText.map((text, i) => ({ source: texts[i], text }));
    const error = new Error(answer.error ?? `the server answered with status ${response.status}`);
    if (response.status !== 400) throw error;
    if (texts.length < 2) return [{ source: texts[0], text: "", error }];
    const half = texts.length >> 1;
    const how = { source, target, signal };
    return [...await this.translateAll(texts.slice(0, half), how), ...await this.translateAll(texts.slice(half), how)];
  }

  async memory() {
    return undefined; // the server's
  }

  close() {}
}
