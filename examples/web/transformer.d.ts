/* transformer.js: translation in the browser, or in any other host of WebAssembly. All text offsets
   count UTF-16 units, like JavaScript's strings.

       import { load } from "./transformer.js";
       const model = await load(await (await fetch("de-en.safetensors")).arrayBuffer());
       (await model.translate("Guten Tag.")).text;

   `load(bytes, { worker: new Worker("worker.js", { type: "module" }) })` returns an object with the
   same methods, which run in the Worker. Calls on one model run one after the other, in order.

   A wrong argument or an unknown option rejects with a TypeError or a RangeError that names it, and has the status
   "TFM_E_ARGUMENT". An option that is undefined or null is absent. */

export interface LoadOptions {
  /** The Worker that translates; it may hold several models. Without one this thread translates, in slices of 10 ms. */
  worker?: Worker;
  /** The WebAssembly. Default: transformer-simd.wasm beside this module, or transformer.wasm if the host has no SIMD. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
  /** false: do not use SIMD. Default: use SIMD if the host has it. */
  simd?: boolean;
  /** true: compute the bits that the library has on every machine (its manual, "exact"). Translating then takes 2.4 times as
      long with SIMD. */
  exact?: boolean;
  /** true: transfer the bytes to the Worker instead of copying them; the caller's buffer is then empty. */
  transfer?: boolean;
}

/** Answers the calls of load in a Worker (worker.js does only this), or at the other end of a MessagePort that is given to
    load as its worker. */
export function serve(port: MessagePort | DedicatedWorkerGlobalScope): void;

/** Starts the Worker and compiles the WebAssembly. Call it before the model is downloaded, to save time in load. */
export function warm(options?: Pick<LoadOptions, "worker" | "wasm" | "simd">): Promise<void>;

/** Copies the model into WebAssembly memory, which close() frees. Rejects with a TranslationError if the bytes are not a
    model file. */
export function load(model: ArrayBuffer | Uint8Array, options?: LoadOptions): Promise<Translator>;

export class TranslationError extends Error {
  /** A status of the library ("TFM_E_CONFIG" ...); "TRAP" if WebAssembly aborted a call, which closes the model; "CLOSED"
      if the model was closed; "WORKER" if the Worker does not answer. */
  readonly status: string;
}

export interface ModelInfo {
  version: string; // of the library
  kernels: string; // "WASM SIMD128", "WASM SIMD128, fused" (with exact) or "plain C"
  arithmetic: string; // of tfm_arithmetic_string: "fused" has the bits of every machine
  bytes: number; // size of the model file
  encoderLayers: number;
  decoderLayers: number;
  heads: number;
  width: number; // d_model
  sourceVocabulary: number;
  targetVocabulary: number;
  hasText: boolean; // false: the model has no tokenizer, and this module cannot use it
  ssruLayers: number; // decoder layers with an SSRU instead of self-attention
  languages: string[]; // the language codes that the model knows
  needsSource: boolean; // options.source must be one of languages
  needsTarget: boolean; // options.target must be one of languages
  compileMs: number;
  loadMs: number;
}

/** An option that is 0 or absent has the model file's default, or the library's if the file has none (greedy search). */
export interface Options {
  beam?: number; // up to 16
  nBest?: number; // up to beam
  lengthPenalty?: number;
  maxLength?: number; // target tokens
  noRepeatNgram?: number;
  repetitionPenalty?: number;
  greedy?: boolean; // ignore the model file's defaults
  source?: string; // language codes
  target?: string;
  /** true: keep the attention weights, so hypotheses have an alignment. */
  alignment?: boolean;
  /** The begin of the translation: a text, or ids of another hypothesis. */
  prefix?: string | ArrayLike<number>;
  /** true: the model reads each text as it is. Default, for models that read sentences: what stands around a sentence is
      kept from the model and stays (labels, bullets, quotation marks, emoji), and text that is already in the target
      language or has no letters stays as it is, as with the program translate. A text with a prefix is always plain. */
  plain?: boolean;
  /** Cancels the call between two tokens. The promise is rejected with signal.reason (an AbortError). */
  signal?: AbortSignal;
}

/** A guess of a translation, such as the translation before an edit: a text, or ids of another hypothesis. A greedy search
    then takes less time (for up to 4 texts), and the result is the same for any draft. */
export type Draft = string | ArrayLike<number>;

export interface Piece {
  /** A target piece as in the vocabulary ("▁house"), a source piece as in the text (" Haus"); "[start]", "[end]" or a
      language code for a token without text. */
  label: string;
  /** The piece's text is text.slice(begin, end). It is empty for a token without text. */
  begin: number;
  end: number;
}

export interface Hypothesis {
  text: string;
  score: number; // hypotheses are sorted by score
  logProbability: number;
  finish: "ended" | "length" | "stuck" | "stopped" | "running";
  ids: number[];
  pieces: Piece[]; // a piece of text for each id; what stays around the sentence belongs to no piece
  logProbabilities: number[]; // of each id, then of the end token
  /** With options.alignment: [ids.length][source pieces], row by row; each row sums to 1. */
  alignment?: Float32Array;
}

export interface Translation extends Hypothesis { // the best hypothesis
  source: string;
  sourcePieces: Piece[];
  hypotheses: Hypothesis[]; // the nBest hypotheses, best first
  error?: TranslationError; // from translateAll: why this text has no translation (text is then "")
}

export interface Attention {
  kind: "cross" | "encoder" | "decoder";
  layers: number;
  heads: number;
  rows: Piece[]; // pieces that attend: the target's, "[end]" last; for "encoder" the source's
  columns: Piece[]; // pieces that are attended to: the source's; for "decoder" "[start]" and the target's
  weights: Float32Array; // [layers][heads][rows][columns]; each row sums to 1
}

export interface Sentence {
  begin: number; // in the source text
  end: number;
  targetBegin: number; // in Document.text
  targetEnd: number;
  translation: Translation;
}

export interface Document {
  text: string;
  sentences: Sentence[];
  words: number; // words, between whitespace, of the source sentences that this call translated
  ms: number; // time of this call
}

/** A translation of a text that comes, as `translate --live --json` writes it, to the byte if the model is `exact`. */
export interface LiveTranslation {
  source: string; // what has come
  stable_text: string; // the beginning of text; it only grows until done is true, and no word of it is taken back
  text: string; // behind stable_text it is a guess
  done: boolean; // true: stable_text is all of text, and the next translation begins another text
}

export interface Live {
  /** Reads a piece of text, which may end anywhere, and returns the translation as it is behind each word. A word is read when
      white space follows it. The end of a line ends a text. Bytes are UTF-8. */
  feed(piece: string | Uint8Array): Promise<LiveTranslation[]>;

  /** Ends the text, if one has begun: then the last translation is done. The next piece begins another text. */
  finish(): Promise<LiveTranslation[]>;

  /** Frees the text's memory. close() of the model does so, too. */
  close(): void;
}

/** What is translated as one text: a sentence, or a whole line. Default: what the model file says, or else "split". */
export interface Sentences {
  sentences?: "split" | "whole"; // whole: the text is also plain
  plain?: boolean;
}

export interface Translator {
  readonly info: ModelInfo;

  /** Translates a text as one: a sentence, or what the model reads at a time. */
  translate(text: string, options?: Options & { draft?: Draft }): Promise<Translation>;

  /** Translates many sentences in batches and returns them in their order. progress(done) gets the number that are done. A
      text that cannot be translated has an error; the others are translated. drafts has one for each text. */
  translateAll(texts: string[], options?: Options & { drafts?: (Draft | undefined)[], progress?: (done: number) => void }): Promise<Translation[]>;

  /** Translates a text whose lines are paragraphs, sentence by sentence, like translate. Sentences that the
      previous call translated with the same options are reused. sentence(index, translation) is called when a sentence is
      done, in any order. A sentence that cannot be translated has translation.error. */
  translateText(text: string, options?: Options & Sentences & { sentence?: (index: number, translation: Translation) => void }): Promise<Document>;

  /** Begins a text that is translated while it comes, in a search that is greedy, with sentences as they are. source and target
      are language codes. sure is the probability from which on a word is stable (0.92): with a higher one, words become stable
      later, and the text is better. Several texts may come at the same time. */
  live(options?: { source?: string, target?: string, sure?: number }): Promise<Live>;

  /** Splits a text into sentences; if the model reads whole texts, into its lines. */
  sentences(text: string, options?: Sentences): Promise<{ begin: number; end: number }[]>;

  /** Translates one sentence and yields the translation so far after each token; the last one is complete. Leaving the
      loop cancels the call. */
  stream(text: string, options?: Options): AsyncIterableIterator<Translation>;

  /** Finds other continuations from piece number `position` of a translation: up to n (at most 16), each with the rest of
      the sentence, the most probable next piece first. Continuations whose next piece is less probable than minProbability
      are left out (logProbabilities[position] is its log-probability). */
  alternatives(translation: { source: string; ids: ArrayLike<number> }, position: number,
    options?: Options & { n?: number; minProbability?: number }): Promise<Hypothesis[]>;

  /** Returns the attention of all layers and heads for a translation. "decoder" leaves out layers with an SSRU. */
  attention(translation: { source: string; ids: ArrayLike<number> }, options?: Options & { kind?: "cross" | "encoder" | "decoder" }): Promise<Attention>;

  /** Returns bytes: of the model file, in use by the model and its session, and of all WebAssembly memory, which never
      shrinks. */
  memory(): Promise<{ model: number; used: number; total: number }>;

  /** Frees the memory. Calls that wait are rejected. */
  close(): void;
}

/* The protocol between load and the Worker. load sends { id, call: "load", model: 1, args: [...] }; it chooses the model's
   number, and it leaves out functions and signals, which cannot be sent. { id, cancel: true } cancels a call. The Worker
   sends { id, value } or { id, error: { name, message, status } } at the end of a call, and { id, event: [...] } during a
   call for progress, sentence and stream. */
