/* transformer.js: translation in the browser. transformer.d.ts documents its functions. It runs web.c, compiled to
   WebAssembly; worker.js runs it in a Worker. It has no dependencies and fetches only the WebAssembly beside this file. */

const encoder = new TextEncoder(), decoder = new TextDecoder();
const SLICE = 10; // ms of work after which other events of this thread are handled
const BATCH = 32; // sentences in a batch
const FINISH = ["running", "ended", "length", "stuck", "stopped"];
const OPTIONS = ["greedy", "beam", "nBest", "lengthPenalty", "maxLength", "noRepeatNgram", "repetitionPenalty", "n",
  "minProbability", "alignment"]; // in the order of web.c

export class TranslationError extends Error {
  constructor(message, status) {
    super(message);
    this.name = "TranslationError";
    this.status = status;
  }
}

// ---- arguments -----------------------------------------------------------------------------------
// Wrong arguments are refused with a TypeError or a RangeError that names the argument, before the call begins.

const kindOf = (value) => (value === null ? "null" : typeof value !== "object" ? typeof value : value.constructor?.name ?? "object");
const wrong = (Kind, message) => { throw Object.assign(new Kind(message), { status: "TFM_E_ARGUMENT" }); };
const type = (name, value, good, expected) => good || wrong(TypeError, `${name} is ${kindOf(value)}, expected ${expected}`);

const aText = (name, value) => type(name, value, typeof value === "string", "string");
const aFlag = (name, value) => type(name, value, typeof value === "boolean", "boolean");
const aFunction = (name, value) => type(name, value, typeof value === "function", "function");
const aSignal = (name, value) => type(name, value, typeof value?.aborted === "boolean" && value.addEventListener, "an AbortSignal");
const aNumber = (least, most) => (name, value) => {
  type(name, value, typeof value === "number", "number");
  if (!(value >= least && value <= most)) wrong(RangeError, `${name} is ${value}, expected ${least} to ${most}`);
};
const anInteger = (least, most = 2 ** 31 - 1) => (name, value) => {
  aNumber(least, most)(name, value);
  if (!Number.isInteger(value)) wrong(RangeError, `${name} is ${value}, expected an integer`);
};
const aWord = (...words) => (name, value) => {
  aText(name, value);
  if (!words.includes(value)) wrong(RangeError, `${name} is "${value}", expected ${words.join(", ")}`);
};
const aListOf = (one, expected) => (name, value) => {
  type(name, value, Array.isArray(value) || (ArrayBuffer.isView(value) && "length" in value), expected);
  for (let i = 0; i < value.length; i++) one(`${name}[${i}]`, value[i]);
};
const ids = aListOf(anInteger(0), "an array of ids");
const aTarget = (name, value) => {
  if (typeof value === "string") return;
  type(name, value, typeof value === "object" && value !== null, "string or an array of ids");
  ids(name, value);
};
const anything = () => {};
const aPiece = (name, value) => type(name, value, typeof value === "string" || value instanceof Uint8Array, "string or Uint8Array");
const aTranslation = (name, value) => {
  type(name, value, typeof value === "object" && value !== null, "a translation");
  aText(`${name}.source`, value.source);
  ids(`${name}.ids`, value.ids);
};

const COMMON = { beam: anInteger(0), nBest: anInteger(0), lengthPenalty: aNumber(-100, 100), maxLength: anInteger(0),
  noRepeatNgram: anInteger(0), repetitionPenalty: aNumber(0, 1e30), greedy: aFlag, source: aText, target: aText, alignment: aFlag,
  prefix: aTarget, plain: aFlag, signal: aSignal };
const aDraft = (name, value) => value === undefined || value === null || aTarget(name, value);
const LOADING = { worker: (name, value) => type(name, value, typeof value?.postMessage === "function", "a Worker"), wasm: anything,
  simd: aFlag };
// The arguments of each call, then its options.
const CALLS = {
  load: [{ model: (name, value) => type(name, value, value instanceof ArrayBuffer || value instanceof Uint8Array ||
    Object.prototype.toString.call(value) === "[object ArrayBuffer]", "an ArrayBuffer or a Uint8Array") },
  { ...LOADING, exact: aFlag, transfer: aFlag }],
  warm: [{}, LOADING],
  translate: [{ text: aText }, { ...COMMON, draft: aDraft, partial: aFunction }],
  translateAll: [{ texts: aListOf(aText, "an array of strings") },
    { ...COMMON, drafts: aListOf(aDraft, "an array"), progress: aFunction }],
  translateText: [{ text: aText }, { ...COMMON, sentence: aFunction, sentences: aWord("split", "whole") }],
  stream: [{ text: aText }, { ...COMMON, draft: aDraft }],
  live: [{}, { source: aText, target: aText, sure: aNumber(0, 1) }],
  sentences: [{ text: aText }, { signal: aSignal, plain: aFlag, sentences: aWord("split", "whole") }],
  alternatives: [{ translation: aTranslation, position: anInteger(0) },
    { ...COMMON, n: anInteger(0), minProbability: aNumber(0, 1) }],
  attention: [{ translation: aTranslation }, { ...COMMON, kind: aWord("cross", "encoder", "decoder") }],
};

// Returns how many letters must be inserted, removed or replaced to make b of a.
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++)
    row = row.reduce((next, above, k) => [...next, k ? Math.min(above + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] !== b[k - 1])) : i], []);
  return row.at(-1);
}
// Checks the arguments of a call and the options behind them. An option that is undefined or null is absent.
function checkCall(call, args) {
  const [needed, allowed] = CALLS[call], names = Object.keys(needed), options = args[names.length];
  names.forEach((name, i) => needed[name](name, args[i]));
  if (call === "alternatives") anInteger(0, args[0].ids.length)("position", args[1]);
  if (options === undefined) return;
  type("options", options, typeof options === "object" && options !== null, "object");
  for (const [name, value] of Object.entries(options)) {
    if (Object.hasOwn(allowed, name)) {
      if (value !== undefined && value !== null) allowed[name](name, value);
      continue;
    }
    const near = Object.keys(allowed).filter((one) => distance(name.toLowerCase(), one.toLowerCase()) <= 2);
    wrong(TypeError, `${name} is no option of ${call}${near.length ? `, did you mean ${near[0]}?` : ""}`);
  }
  if (call === "translateAll" && options.drafts?.length > args[0].length)
    wrong(RangeError, `drafts has ${options.drafts.length} elements, texts has ${args[0].length}`);
}
// Puts the checks before the methods of a class, which return promises.
function checkCalls(kind) {
  for (const name of Object.keys(CALLS)) {
    const method = kind.prototype[name];
    if (method && name !== "stream")
      kind.prototype[name] = async function (...args) {
        checkCall(name, args);
        return method.apply(this, args);
      };
  }
}

// ---- the WebAssembly ---------------------------------------------------------------------------

const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11]); // a module with a function that returns a vector: it is valid only where there is SIMD
const compiled = new Map(); // URL: promise of the compiled module

async function compile(from, simd) {
  if (from instanceof WebAssembly.Module) return from;
  if (from instanceof ArrayBuffer || ArrayBuffer.isView(from)) return WebAssembly.compile(from);
  const name = simd ?? WebAssembly.validate(SIMD) ? "transformer-simd.wasm" : "transformer.wasm";
  const url = new URL(from ?? name, import.meta.url);
  if (!compiled.has(url.href)) {
    const module = fetched(url);
    compiled.set(url.href, module);
    module.catch(() => compiled.delete(url.href)); // so the next call fetches it again
  }
  return compiled.get(url.href);
}
async function fetched(url) {
  if (url.protocol === "file:" && globalThis.process) // Node
    return WebAssembly.compile(await (await import("node:fs/promises")).readFile(url));
  const response = await fetch(url);
  if (!response.ok) throw new TranslationError(`${url.pathname}: ${response.status} ${response.statusText}`, "TFM_E_IO");
  return WebAssembly.compile(await response.arrayBuffer());
}

// ---- time --------------------------------------------------------------------------------------

// Lets this thread handle other events and messages. (setTimeout would wait 4 ms when called repeatedly.)
const breath = globalThis.setImmediate ? () => new Promise((go) => setImmediate(go)) : (() => {
  const { port1, port2 } = new MessageChannel(), waiting = [];
  port1.onmessage = () => waiting.shift()();
  return () => new Promise((go) => { waiting.push(go); port2.postMessage(0); });
})();

// ---- text --------------------------------------------------------------------------------------

// Returns a function that converts an offset in bytes of UTF-8 to an offset in the string. It is fast if the offsets ascend; a
// smaller offset starts again from the beginning.
function units(text) {
  let byte = 0, unit = 0;
  return (to) => {
    if (to < byte) byte = unit = 0;
    while (byte < to && unit < text.length) {
      const c = text.codePointAt(unit);
      byte += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
      unit += c < 0x10000 ? 1 : 2;
    }
    return unit;
  };
}

// Line breaks and control characters, which become spaces in a line of translation.
const CONTROLS = /[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029]/g;

// Returns every second number, from number `side` on.
const evens = (numbers, side) => numbers.filter((_, i) => i % 2 === side);

const numberOfWords = (text) => text.split(/\s+/).filter(Boolean).length;

// ---- a text that is translated while it comes ----------------------------------------------------

const SHORT = 16; // bytes of text after which other events of this thread may be handled: some words

// What Translator.live returns. #call(name, ...args) is answered by Local.liveCall.
class Live {
  #call;
  #half = ""; // the first half of a character, whose second half begins the next piece
  constructor(call) { this.#call = call; }
  async feed(piece) {
    aPiece("piece", piece);
    if (typeof piece === "string") {
      piece = this.#half + piece;
      this.#half = /[\ud800-\udbff]$/.test(piece) ? piece.slice(-1) : "";
      piece = encoder.encode(this.#half ? piece.slice(0, -1) : piece);
    }
    return this.#call("feed", piece);
  }
  async finish() {
    const half = this.#half && encoder.encode(this.#half); // becomes U+FFFD
    this.#half = "";
    const lines = half ? await this.#call("feed", half) : [];
    return [...lines, ...await this.#call("finish")];
  }
  close() { this.#call("close").catch(() => {}); }
}

// ---- a model in this thread ----------------------------------------------------------------------

class Local {
  #x; // the functions of the WebAssembly instance
  #memory;
  #queue = Promise.resolve();
  #languages = "\0\0";
  #labels = new Map(); // target id: its label
  #had = { key: "", sentences: new Map() }; // options and translations of the last translateText
  #bytes;
  #closed = null; // the error that all later calls get

  static async load(model, options = {}) {
    const self = new Local(), begin = performance.now();
    const module = await compile(options.wasm, options.simd);
    const ready = performance.now();
    const instance = await WebAssembly.instantiate(module, {});
    self.#x = instance.exports;
    self.#memory = instance.exports.memory;
    const bytes = model instanceof Uint8Array ? model : new Uint8Array(model);
    self.#bytes = bytes.length;
    self.#guard(() => {
      const at = self.#x.web_allocate(bytes.length);
      if (!at) throw new TranslationError(`${bytes.length} bytes of model: too little memory`, "TFM_E_MEMORY");
      new Uint8Array(self.#memory.buffer).set(bytes, at);
      self.#check(self.#x.web_load(at, bytes.length, Number(!!options.exact)));
      self.#tellInfo(ready - begin, performance.now() - ready);
    });
    return self;
  }

  #tellInfo(compileMs, loadMs) {
    const x = this.#x, i = this.#ints(x.web_info(), 14);
    this.info = {
      version: this.#string(x.web_version()), kernels: this.#string(x.web_kernels()), arithmetic: this.#string(x.web_arithmetic()), bytes: this.#bytes,
      encoderLayers: i[0], decoderLayers: i[1], heads: i[2], width: i[3], sourceVocabulary: i[4], targetVocabulary: i[5],
      hasText: i[6] !== 0, ssruLayers: i[7],
      languages: Array.from({ length: i[8] }, (_, k) => this.#string(x.web_language(k))),
      needsSource: i[9] !== 0, needsTarget: i[10] !== 0, compileMs, loadMs,
    };
    [this.#first, this.#surrounds, this.#unknown] = [i[11], i[12] !== 0, i[13]];
  }
  #first; // 1: the first id of a result is its language
  #surrounds; // whether what stands around a sentence is kept from the model, unless options.plain is set
  #unknown; // the id of what the model does not know

  // Views of the memory are made where they are used, because memory that grows makes old views invalid.
  #ints(at, n) { return new Int32Array(this.#memory.buffer, at, n).slice(); }
  #string(at, size) {
    const bytes = new Uint8Array(this.#memory.buffer, at);
    return decoder.decode(bytes.subarray(0, size ?? bytes.indexOf(0)));
  }
  #write(text) { return this.#writeBoth(text, "")[0]; }
  // Writes two texts, or their bytes, one after the other, and returns their sizes.
  #writeBoth(...texts) {
    const [a, b] = texts.map((text) => (typeof text === "string" ? encoder.encode(text) : text)), at = this.#x.web_text(a.length + b.length + 1);
    if (!at) throw new TranslationError("too little memory for the text", "TFM_E_MEMORY");
    const to = new Uint8Array(this.#memory.buffer);
    to.set(a, at), to.set(b, at + a.length);
    to[at + a.length + b.length] = 0;
    return [a.length, b.length];
  }
  #check(n) {
    if (n >= 0) return n;
    throw new TranslationError(this.#string(this.#x.web_error()), this.#string(this.#x.web_status(-n)));
  }
  // Runs work and closes the model after a trap, because the instance's memory may then be inconsistent.
  #guard(work) {
    if (this.#closed) throw this.#closed;
    try {
      return work();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      this.#closed = new TranslationError(`WebAssembly ended the call: ${error.message}`, "TRAP");
      this.#x = this.#memory = null;
      throw this.#closed;
    }
  }
  // Runs calls one after the other. work awaits turn() regularly: it handles other events when a slice is over, and rejects
  // if the call is cancelled.
  #run(signal, work) {
    const done = this.#queue.then(async () => {
      let begin = performance.now();
      const alive = () => {
        signal?.throwIfAborted();
        if (this.#closed) throw this.#closed;
      };
      alive();
      return work(async () => {
        if (performance.now() - begin < SLICE) return;
        await breath();
        begin = performance.now();
        alive();
      });
    });
    this.#queue = done.catch(() => {});
    return done;
  }

  // ---- sources and options ----

  #setLanguages(options) {
    const both = `${options.source ?? ""}\0${options.target ?? ""}\0`;
    if (both === this.#languages) return;
    this.#write(both);
    this.#languages = "\0\0"; // holds if web_languages fails
    this.#check(this.#x.web_languages());
    this.#languages = both;
  }
  #setOptions(options) {
    const at = new Float64Array(this.#memory.buffer, this.#x.web_options(), OPTIONS.length);
    OPTIONS.forEach((name, i) => { at[i] = Number(options[name] ?? 0); });
  }
  #tokenize(text) {
    const size = this.#write(text), x = this.#x;
    const n = this.#check(x.web_tokenize(size));
    const ids = this.#ints(x.web_ids(), n), spans = this.#ints(x.web_spans(), 2 * n), at = units(text), pieces = [];
    for (let i = 0; i < n; i++) {
      const begin = at(spans[2 * i]), end = at(spans[2 * i + 1]);
      pieces.push({ label: begin < end ? text.slice(begin, end) : this.#string(x.web_source_label(i, size)), begin, end });
    }
    return { text, ids, pieces, spans };
  }
  // Returns a source: what the model reads of a text. `clean` is that text, if what stands around the sentence is kept from
  // the model; `copy` is the translation of a text that the model does not get.
  #source(text, options) {
    if (!this.#surrounds || options.plain || options.prefix?.length) return this.#tokenize(text);
    const at = this.#x.web_take(this.#write(text));
    if (!at) this.#check(this.#x.web_failed());
    const [clean, size, aligns] = this.#ints(at, 3), none = { text, ids: [], pieces: [] };
    if (size < 0) return this.#tokenize(text);
    if (!size) return { ...none, copy: this.#put(text, "").text };
    const source = { ...this.#tokenize(this.#string(clean, size)), aligns };
    const lost = [...source.ids].reduce((sum, id, i) => sum + (id === this.#unknown ? source.spans[2 * i + 1] - source.spans[2 * i] : 0), 0);
    if (2 * lost > size) return { ...none, copy: text.trim() }; // another script
    const n = source.ids.length, numbers = [...new Array(n).fill(0), ...evens(source.spans, 0), ...evens(source.spans, 1)];
    const own = this.#put(text, "", numbers).numbers, where = units(text);
    const pieces = source.pieces.map(({ label }, i) => ({ label, begin: where(own[n + i]), end: where(own[2 * n + i]) }));
    return { ...source, text, clean: source.text, pieces };
  }
  // Puts what stands around a sentence around its translation. numbers are those of web_restore.
  #put(source, translation, numbers = []) {
    const [a, b] = this.#writeBoth(source, translation), n = numbers.length / 3, marks = this.#x.web_marks(n);
    if (!marks) throw new TranslationError("too little memory", "TFM_E_MEMORY");
    new Int32Array(this.#memory.buffer, marks, 3 * n).set(numbers);
    const at = this.#x.web_restore(a, b, n);
    if (!at) this.#check(this.#x.web_failed());
    const [text, size, begin] = this.#ints(at, 3);
    return { text: this.#string(text, size), begin, numbers: this.#ints(marks, 3 * n) };
  }
  // Makes hypotheses of a source those of its text: with what stands around it.
  #restore(source, hypotheses) {
    return hypotheses.map(({ ends, aligned, ...h }) => {
      if (source.clean === undefined) return h;
      const from = (i, side) => (aligned?.[i] >= 0 ? source.spans[2 * aligned[i] + side] : 0), n = h.ids.length;
      const numbers = [...ends, ...h.ids.map((_, i) => from(i, 0)), ...h.ids.map((_, i) => from(i, 1))];
      const put = this.#put(source.text, h.text, numbers), where = units(put.text);
      let begin = where(put.begin);
      const pieces = h.pieces.map(({ label }, i) => ({ label, begin, end: (begin = Math.max(begin, where(put.numbers[i]))) }));
      return { ...h, text: put.text, pieces };
    });
  }
  // Returns the translation of a source. A text that is in the language of its translation stays as it is.
  #finish(source, hypotheses, options) {
    const [h] = hypotheses;
    if (source.clean !== undefined && hypotheses.length === 1) {
      const [a, b] = this.#writeBoth(source.clean, h.text);
      this.#setOptions(options);
      if (this.#check(this.#x.web_stays(a, b, h.logProbability))) return Local.#empty(source.text, null, source.text.trim());
    }
    if (source.aligns && !options.alignment) for (const each of hypotheses) delete each.alignment;
    return Local.#translation(source, this.#restore(source, hypotheses));
  }
  // Returns the ids of a prefix or draft.
  #ids(target) {
    if (typeof target !== "string") return Int32Array.from(target ?? []);
    const n = this.#check(this.#x.web_tokenize_target(this.#write(target)));
    return this.#ints(this.#x.web_ids(), n);
  }
  // Writes the lengths and ids of sources, prefixes and drafts where web_start reads them. Returns the widths of sources and
  // drafts.
  #writeBatch(sources, prefix) {
    const rows = sources.length, width = Math.max(...sources.map((s) => s.ids.length));
    const most = Math.max(...sources.map((s) => s.draft?.length ?? 0)), end = rows * (2 + width + prefix.length);
    const at = this.#x.web_batch(4 * (end + rows * (1 + most)));
    if (!at) throw new TranslationError("too little memory for the batch", "TFM_E_MEMORY");
    const to = new Int32Array(this.#memory.buffer, at, end + rows * (1 + most));
    sources.forEach((s, row) => {
      to[row] = s.ids.length;
      to.set(s.ids, rows + row * width);
      to[rows + rows * width + row] = prefix.length;
      to.set(prefix, 2 * rows + rows * width + row * prefix.length);
      to[end + row] = s.draft?.length ?? 0;
      to.set(s.draft ?? [], end + rows + row * most);
    });
    return [width, most];
  }

  // ---- results ----

  #label(id) {
    let label = this.#labels.get(id);
    if (label === undefined) this.#labels.set(id, label = this.#string(this.#x.web_target_label(id)));
    return label;
  }
  // Returns the hypothesis that web_result or web_spell stored.
  #hypothesis(columns) {
    const at = this.#x.web_hypothesis(), buffer = this.#memory.buffer, view = new DataView(buffer);
    const field = (i) => view.getInt32(at + 16 + 4 * i, true), n = field(1);
    const text = this.#string(field(3), field(4)), ids = [...this.#ints(field(2), n)], ends = this.#ints(field(5), n);
    const where = units(text);
    let begin = 0;
    const h = {
      text, score: view.getFloat64(at, true), logProbability: view.getFloat64(at + 8, true), finish: FINISH[field(0)], ids,
      pieces: ids.map((id, i) => {
        const piece = { label: this.#label(id), begin, end: Math.max(begin, where(ends[i])) };
        begin = piece.end;
        return piece;
      }),
      logProbabilities: field(6) ? [...new Float64Array(buffer, field(6), n + 1)] : [],
    };
    Object.assign(h, { ends, aligned: field(8) ? this.#ints(field(8), n) : null }); // #restore takes them out
    if (field(7)) h.alignment = new Float32Array(buffer, field(7), n * columns).slice();
    return h;
  }
  #hypotheses(row, source) {
    const n = this.#x.web_count(row), found = [];
    for (let rank = 0; rank < n; rank++) {
      this.#check(this.#x.web_result(row, rank));
      found.push(this.#hypothesis(source.ids.length));
    }
    return found;
  }
  static #translation(source, hypotheses, more) {
    return { ...hypotheses[0], source: source.text, sourcePieces: source.pieces, hypotheses, ...more };
  }
  static #empty(text, error, copy = "") {
    const none = { text: copy, score: 0, logProbability: 0, finish: error ? "stuck" : "ended", ids: [], pieces: [], logProbabilities: [] };
    return Local.#translation({ text, pieces: [] }, [none], error && { error });
  }

  // Translates one batch and calls then(row) for each row; calls each() after each step.
  async #decode(sources, prefix, options, turn, each) {
    this.#guard(() => {
      this.#setOptions({ ...options, alignment: options.alignment || sources.some(({ aligns }) => aligns) });
      const [width, most] = this.#writeBatch(sources, prefix);
      this.#check(this.#x.web_start(sources.length, width, prefix.length, most));
    });
    for (;;) {
      const running = this.#guard(() => this.#check(this.#x.web_step()));
      if (!running) break;
      each?.();
      await turn();
    }
    return this.#guard(() => sources.map((source, row) => this.#hypotheses(row, source)));
  }

  // ---- the methods of Translator ----

  translate(text, options = {}) {
    return this.#run(options.signal, async (turn) => {
      const [source, prefix] = this.#guard(() => {
        this.#setLanguages(options);
        return [{ ...this.#source(text, options), draft: this.#ids(options.draft) }, this.#ids(options.prefix)];
      });
      if (!source.ids.length) return Local.#empty(text, null, source.copy);
      const show = options.partial && (() => options.partial(this.#guard(() => Local.#translation(source, this.#restore(source, this.#hypotheses(0, source))))));
      const [found] = await this.#decode([source], prefix, options, turn, show);
      return this.#guard(() => this.#finish(source, found, options));
    });
  }

  translateAll(texts, options = {}) {
    return this.#run(options.signal, (turn) => this.#all(texts, options, turn, (_, done) => options.progress?.(done)));
  }

  // Translates texts; calls each(index, done, translation) when one is translated.
  async #all(texts, options, turn, each) {
    const out = new Array(texts.length), sources = [];
    let done = 0;
    const finish = (i, translation) => {
      out[i] = translation;
      each(i, ++done, translation);
    };
    const prefix = this.#guard(() => {
      this.#setLanguages(options);
      return this.#ids(options.prefix);
    });
    for (let i = 0; i < texts.length; i++) {
      try {
        const source = this.#guard(() => this.#source(texts[i], options));
        if (source.ids.length) sources.push({ ...source, i, draft: this.#guard(() => this.#ids(options.drafts?.[i])) });
        else finish(i, Local.#empty(texts[i], null, source.copy));
      } catch (error) {
        if (this.#closed || !(error instanceof TranslationError)) throw error;
        finish(i, Local.#empty(texts[i], error));
      }
      await turn();
    }
    sources.sort((a, b) => b.ids.length - a.ids.length); // like lengths share a batch; the largest session first
    for (let next = 0, most = BATCH; next < sources.length;) {
      const rows = this.#guard(() => {
        this.#setOptions(options);
        return this.#x.web_rows(Math.min(most, sources.length - next), sources[next].ids.length, prefix.length);
      });
      const batch = sources.slice(next, next + rows);
      try {
        const rows = await this.#decode(batch, prefix, options, turn);
        batch.forEach((source, row) => finish(source.i, this.#guard(() => this.#finish(source, rows[row], options))));
      } catch (error) {
        if (this.#closed || !(error instanceof TranslationError)) throw error;
        if (error.status === "TFM_E_MEMORY" && batch.length > 1) {
          most = batch.length >> 1;
          continue;
        }
        for (const source of batch) finish(source.i, Local.#empty(source.text, error));
      }
      next += batch.length;
    }
    return out;
  }

  // ---- live texts ----

  async live(options = {}) {
    const at = await this.liveCall("begin", options);
    return new Live((name, piece) => this.liveCall(name, at, piece));
  }
  // Answers a call of a Live, whose text is at `at`. The name "begin" makes one.
  liveCall(name, at, piece) {
    return this.#run(null, async (turn) => {
      if (name === "begin") return this.#guard(() => this.#liveBegin(at));
      if (!this.#lives.has(at)) throw new TranslationError("the live text is closed: begin another one", "CLOSED");
      if (name === "close") return this.#guard(() => (this.#lives.delete(at), this.#x.web_live_free(at)));
      const lines = [], read = (bytes) => lines.push(...this.#guard(() => this.#liveRead(at, bytes)));
      if (name === "finish") read(new Uint8Array(0));
      else for (let i = 0; i < piece.length; i += SHORT, await turn()) read(piece.subarray(i, i + SHORT));
      return lines;
    });
  }
  #lives = new Set(); // where the texts are that are not closed
  #liveBegin(options) {
    this.#setLanguages(options);
    const at = this.#x.web_live_begin(options.sure ?? 0);
    if (!at) this.#check(this.#x.web_failed());
    this.#lives.add(at);
    return at;
  }
  #liveRead(at, bytes) { // no bytes end the text
    this.#check(this.#x.web_live_read(at, this.#write(bytes)));
    return this.#string(this.#x.web_live_lines()).split("\n").slice(0, -1).map(JSON.parse);
  }

  sentences(text, options = {}) {
    return this.#run(options.signal, async () => this.#guard(() => this.#cut(text, options)));
  }
  #cut(text, { sentences, plain, prefix }) {
    const word = ["", "split", "whole"].indexOf(sentences ?? "");
    const n = this.#check(this.#x.web_sentences(this.#write(text), word, Number(!!plain || !!prefix?.length)));
    const at = units(text), bytes = this.#ints(this.#x.web_batch(0), 2 * n);
    return Array.from({ length: n }, (_, i) => ({ begin: at(bytes[2 * i]), end: at(bytes[2 * i + 1]) }));
  }

  translateText(text, options = {}) {
    if (options.sentences === "whole") options = { ...options, plain: true };
    return this.#run(options.signal, async (turn) => {
      const began = performance.now(), { signal, sentence, ...rest } = options, key = JSON.stringify(rest);
      const sentences = this.#guard(() => this.#cut(text, options));
      if (this.#had.key !== key) this.#had = { key, sentences: new Map() };
      const had = this.#had.sentences, wanted = new Map(); // new sentence: its positions in the text
      const sourceOf = (s) => text.slice(s.begin, s.end);
      let words = 0;
      sentences.forEach((s, i) => {
        const source = sourceOf(s);
        if (had.has(source)) sentence?.(i, had.get(source));
        else if (wanted.has(source)) wanted.get(source).push(i);
        else wanted.set(source, [i]), words += numberOfWords(source);
      });
      const texts = [...wanted.keys()];
      await this.#all(texts, options, turn, (i, _, translation) => {
        had.set(texts[i], translation); // is kept even if the call is cancelled
        for (const index of wanted.get(texts[i])) sentence?.(index, translation);
      });
      const now = new Map(sentences.map((s) => [sourceOf(s), had.get(sourceOf(s))]));
      this.#had = { key, sentences: now };
      return { ...this.#join(text, sentences, now), words, ms: performance.now() - began };
    });
  }
  // Joins the sentences of a line like translate: with the whitespace between their sources, or a space if there is none
  // and the language has spaces.
  #join(text, sentences, translations) {
    let out = "", line = "", last = 0;
    const placed = sentences.map(({ begin, end }) => {
      const between = text.slice(last, begin), breaks = between.replace(/[^\n]/g, ""), translation = translations.get(text.slice(begin, end));
      const made = translation.text.replace(CONTROLS, " ");
      if (breaks) out += line + breaks, line = "";
      if (line && made) {
        const space = this.#guard(() => {
          const n = this.#write(line), all = this.#write(line + between);
          return this.#x.web_sentence_space(n, all - n);
        });
        line += ["", " ", between.replace(CONTROLS, " ")][space];
      }
      const targetBegin = out.length + line.length;
      line += made;
      last = end;
      return { begin, end, targetBegin, targetEnd: out.length + line.length, translation };
    });
    return { text: out + line + text.slice(last).replace(/[^\n]/g, ""), sentences: placed };
  }

  alternatives(translation, position, options = {}) {
    return this.#run(options.signal, async (turn) => {
      const source = this.#guard(() => (this.#setLanguages(options), this.#source(translation.source, options)));
      const prefix = Int32Array.from(translation.ids).subarray(this.#first, Math.max(position, this.#first));
      if (!source.ids.length) return [];
      const [found] = await this.#decode([source], prefix, { ...options, n: options.n || 8, nBest: 0 }, turn);
      return this.#guard(() => this.#restore(source, found));
    });
  }

  attention(translation, options = {}) {
    return this.#run(options.signal, async () => this.#guard(() => {
      const kind = options.kind ?? "cross";
      this.#setLanguages(options);
      const source = this.#source(translation.source, options), ids = Int32Array.from(translation.ids), n = ids.length;
      const { encoderLayers, decoderLayers, heads } = this.info;
      const layers = kind === "encoder" ? encoderLayers : decoderLayers;
      if (!source.ids.length) return { kind, layers, heads, rows: [], columns: [], weights: new Float32Array(0) };
      new Int32Array(this.#memory.buffer, this.#x.web_batch(4 * n + 4), n).set(ids);
      this.#check(this.#x.web_spell(n));
      const target = this.#restore(source, [this.#hypothesis(0)])[0].pieces, end = target.at(-1)?.end ?? 0;
      const [width] = this.#writeBatch([source], ids);
      const at = this.#x.web_attention(width, n, ["cross", "encoder", "decoder"].indexOf(kind));
      if (!at) this.#check(this.#x.web_failed());
      const rows = kind === "encoder" ? source.pieces : [...target, { label: "[end]", begin: end, end }];
      const columns = kind === "decoder" ? [{ label: "[start]", begin: 0, end: 0 }, ...target] : source.pieces;
      const weights = new Float32Array(this.#memory.buffer, at, layers * heads * rows.length * columns.length).slice();
      return { kind, layers, heads, rows, columns, weights };
    }));
  }

  memory() {
    return this.#run(null, async () => this.#guard(() => ({
      model: this.#bytes, used: this.#x.web_used(), total: this.#memory.buffer.byteLength,
    })));
  }

  close() {
    this.#closed ??= new TranslationError("the model is closed: load it again", "CLOSED");
    this.#x = this.#memory = null;
    this.#had = null;
  }
}

// ---- a model in a Worker -------------------------------------------------------------------------

const links = new WeakMap(); // Worker: its Link

class Link {
  #worker;
  #waiting = new Map();
  #dead = null;
  #next = 1;
  models = 0;

  static to(worker) {
    if (!links.has(worker)) links.set(worker, new Link(worker));
    return links.get(worker);
  }
  constructor(worker) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => {
      const call = this.#waiting.get(data.id);
      if (!call) return; // the call was cancelled
      if (data.event) return call.events[data.event[0]]?.(...data.event.slice(1).map((e) => revivedAll([e])[0]));
      this.#waiting.delete(data.id);
      if (data.error) call.reject(revived(data.error));
      else call.resolve(revivedAll(data.value));
    });
    worker.addEventListener("error", (event) => this.fail(`the Worker failed: ${event.message ?? "it cannot be loaded"}`));
    worker.start?.();
  }
  fail(message) {
    this.#dead = new TranslationError(message, "WORKER");
    for (const call of this.#waiting.values()) call.reject(this.#dead);
    this.#waiting.clear();
  }
  call(model, name, args, { signal, ...events } = {}, transfer = []) {
    return new Promise((resolve, reject) => {
      if (this.#dead || signal?.aborted) return reject(this.#dead ?? signal.reason);
      const id = this.#next++;
      const settle = (how) => (value) => {
        signal?.removeEventListener("abort", cancel);
        how(value);
      };
      const cancel = () => {
        this.#waiting.delete(id);
        this.#worker.postMessage({ id, cancel: true });
        reject(signal.reason);
      };
      signal?.addEventListener("abort", cancel, { once: true });
      this.#waiting.set(id, { resolve: settle(resolve), reject: settle(reject), events });
      this.#worker.postMessage({ id, call: name, model, args }, transfer);
    });
  }
}

const flat = (error) => ({ name: error.name, message: error.message, status: error.status });
function revived({ name, message, status }) {
  if (name === "TranslationError") return new TranslationError(message, status);
  const Kind = { TypeError, RangeError }[name] ?? Error;
  return Object.assign(new Kind(message), { name, status });
}
// Applies how to the error of each translation that has one.
const mapErrors = (value, how) => {
  for (const t of Array.isArray(value) ? value : value?.sentences?.map((s) => s.translation) ?? [])
    if (t?.error) t.error = how(t.error);
  return value;
};
const revivedAll = (value) => mapErrors(value, (error) => (error instanceof Error ? error : revived(error)));

class Remote {
  #link;
  #model;
  #closed = false;

  static async load(bytes, { worker, transfer, wasm, simd, exact }) {
    const self = new Remote(), link = self.#link = Link.to(worker), model = self.#model = ++link.models;
    const buffer = bytes instanceof Uint8Array ? bytes.buffer : bytes;
    wasm = absolute(wasm);
    self.info = await link.call(model, "load", [bytes, { wasm, simd, exact }], {}, transfer ? [buffer] : []);
    return self;
  }
  #call(name, args, options = {}) {
    if (this.#closed) return Promise.reject(new TranslationError("the model is closed: load it again", "CLOSED"));
    const { signal, progress, sentence, partial, ...rest } = options;
    const listens = { partial: !!partial, sentence: !!sentence, progress: !!progress };
    return this.#link.call(this.#model, name, [...args, rest, listens], { signal, progress, sentence, partial });
  }
  translate(text, options) { return this.#call("translate", [text], options); }
  translateAll(texts, options) { return this.#call("translateAll", [texts], options); }
  translateText(text, options) { return this.#call("translateText", [text], options); }
  async live(options = {}) {
    const at = await this.#call("liveCall", ["begin", options]);
    return new Live((name, piece) => this.#call("liveCall", [name, at, piece]));
  }
  sentences(text) { return this.#call("sentences", [text]); }
  alternatives(translation, position, options) {
    return this.#call("alternatives", [{ source: translation.source, ids: translation.ids }, position], options);
  }
  attention(translation, options) {
    return this.#call("attention", [{ source: translation.source, ids: translation.ids }], options);
  }
  memory() { return this.#call("memory", []); }
  close() {
    if (!this.#closed) this.#link.call(this.#model, "close", []).catch(() => {});
    this.#closed = true;
  }
}

/* Answers the calls of a Link. port is a Worker's self, or the other end of a MessagePort. */
export function serve(port) {
  const models = new Map(), running = new Map();
  async function answer({ call, model, args, id }) {
    if (call === "warm") return warm(...args);
    if (call === "load") {
      models.set(model, await Local.load(...args));
      return models.get(model).info;
    }
    const translator = models.get(model);
    if (!translator) throw new TranslationError("the model is closed: load it again", "CLOSED");
    if (call === "close") {
      models.delete(model);
      return translator.close();
    }
    if (!["translate", "translateAll", "translateText", "sentences", "alternatives", "attention", "memory", "liveCall"].includes(call))
      throw new TypeError(`no call ${call}`);
    const listens = args.pop(), options = { ...args.pop(), signal: running.get(id).signal };
    for (const name of ["partial", "sentence", "progress"])
      if (listens[name]) options[name] = (...event) => port.postMessage({ id, event: [name, ...event.map((e) => mapErrors([e], flat)[0])] });
    return mapErrors(await translator[call](...args, options), flat);
  }
  port.addEventListener("message", async ({ data }) => {
    if (data.cancel) return running.get(data.id)?.abort();
    running.set(data.id, new AbortController());
    try {
      port.postMessage({ id: data.id, value: await answer(data) });
    } catch (error) {
      port.postMessage({ id: data.id, error: flat(error) });
    } finally {
      running.delete(data.id);
    }
  });
  port.start?.();
}

// ---- functions of the module ---------------------------------------------------------------------

async function* stream(...args) {
  checkCall("stream", args);
  const [text, { signal, ...options } = {}] = args;
  const stop = new AbortController(), grown = [], cancel = () => stop.abort(signal.reason);
  let wake = () => {}, state = null;
  if (signal?.aborted) cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  const more = (t) => { grown.push(t); wake(); };
  this.translate(text, { ...options, signal: stop.signal, partial: more })
    .then((t) => { state = {}; more(t); }, (error) => { state = { error }; wake(); });
  try {
    for (;;) {
      while (grown.length) yield grown.shift();
      if (state?.error) throw state.error;
      if (state) return;
      await new Promise((go) => { wake = go; });
    }
  } finally {
    signal?.removeEventListener("abort", cancel);
    stop.abort();
  }
}
Local.prototype.stream = Remote.prototype.stream = stream;
checkCalls(Local), checkCalls(Remote);

// Makes a URL absolute, because a page and its Worker may be in different folders.
const absolute = (wasm) => (wasm instanceof URL || typeof wasm === "string" ? new URL(wasm, globalThis.location?.href).href : wasm);

export async function warm(options = {}) {
  checkCall("warm", [options]);
  const { worker, wasm, simd } = options;
  if (worker) await Link.to(worker).call(0, "warm", [{ wasm: absolute(wasm), simd }]);
  else await compile(wasm, simd);
}

export async function load(model, options = {}) {
  checkCall("load", [model, options]);
  return options.worker ? Remote.load(model, options) : Local.load(model, options);
}
