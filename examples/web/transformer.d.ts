/* transformer.js: translation in the browser, or any host of WebAssembly. All text offsets are of
   UTF-16 units, as JavaScript's strings have them.

       import { load } from "./transformer.js";
       const model = await load(await (await fetch("de-en.safetensors")).arrayBuffer());
       (await model.translate("Guten Tag.")).text;

   `load(bytes, { worker: new Worker("worker.js", { type: "module" }) })` gives the same object,
   whose work is done in that Worker. Calls on one model wait for each other, in order. */

export interface LoadOptions {
  /** Does the work; may hold several models. None: the work is done here, in slices of 10 ms. */
  worker?: Worker;
  /** The WebAssembly; default transformer-simd.wasm, or transformer.wasm where there is no SIMD, beside this module. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
  /** false: without SIMD. Default: where there is SIMD. */
  simd?: boolean;
  /** true: the bytes move to the Worker and are gone here. */
  transfer?: boolean;
}

/** In a Worker, or at the other end of any MessagePort that is given as a worker. worker.js is this in one line. */
export function serve(port: MessagePort | DedicatedWorkerGlobalScope): void;

/** Starts the Worker and compiles the WebAssembly, while the model's bytes are still on their way. */
export function warm(options?: Pick<LoadOptions, "worker" | "wasm" | "simd">): Promise<void>;

/** Copies the model into memory of its own, which close() gives back. A model file that is none is a TranslationError. */
export function load(model: ArrayBuffer | Uint8Array, options?: LoadOptions): Promise<Translator>;

export class TranslationError extends Error {
  /** "TFM_E_CONFIG" ...: the library's; "TRAP" where WebAssembly ended a call: the model is closed then; "CLOSED"; "WORKER"
      where there is none to answer. */
  readonly status: string;
}

export interface ModelInfo {
  version: string; // the library's
  kernels: string; // "WASM SIMD128" or "plain C"
  bytes: number; // the file's
  encoderLayers: number;
  decoderLayers: number;
  heads: number;
  width: number; // d_model
  sourceVocabulary: number;
  targetVocabulary: number;
  hasText: boolean; // without, it takes ids only, and this module cannot use it
  ssruLayers: number; // decoder layers without self-attention
  languages: string[]; // the codes that it knows; translate needs source and target of them where needs* say so
  needsSource: boolean;
  needsTarget: boolean;
  compileMs: number;
  loadMs: number;
}

/** 0 or absent: the model file's own choice, and where it has none the library's default (greedy). */
export interface Options {
  beam?: number; // up to 16
  nBest?: number; // up to beam
  lengthPenalty?: number;
  maxLength?: number; // target tokens
  noRepeatNgram?: number;
  repetitionPenalty?: number;
  greedy?: boolean; // not as the model file says
  source?: string; // language codes
  target?: string;
  /** Keeps attention: hypotheses have alignment. */
  alignment?: boolean;
  /** What the translation begins with: a text, or ids of another hypothesis. */
  prefix?: string | ArrayLike<number>;
  /** Cancels, between two tokens: the promise is rejected with signal.reason (an AbortError). */
  signal?: AbortSignal;
}

export interface Piece {
  /** Of a target as the vocabulary has it ("▁house"), of a source as the text has it (" Haus"); "[start]", "[end]" or a
      language's code where it is of no text. */
  label: string;
  /** Its part of the text: text.slice(begin, end); empty where it is of no text. */
  begin: number;
  end: number;
}

export interface Hypothesis {
  text: string;
  score: number; // what they are ordered by
  logProbability: number;
  finish: "ended" | "length" | "stuck" | "stopped" | "running";
  ids: number[];
  pieces: Piece[]; // of text, one an id
  logProbabilities: number[]; // of each id, and behind them of the end
  /** With options.alignment: [ids.length][source pieces], row by row; a row's sum is 1. */
  alignment?: Float32Array;
}

export interface Translation extends Hypothesis { // the best
  source: string;
  sourcePieces: Piece[];
  hypotheses: Hypothesis[]; // nBest of them, the best one first
  error?: TranslationError; // of translateAll: why this text has no translation (text is "")
}

export interface Attention {
  kind: "cross" | "encoder" | "decoder";
  layers: number;
  heads: number;
  rows: Piece[]; // who looks: the target's, "[end]" last; of "encoder" the source's
  columns: Piece[]; // what is looked at: the source's; of "decoder" "[start]" and the target's
  weights: Float32Array; // [layers][heads][rows][columns]; a row's sum is 1
}

export interface Sentence {
  begin: number; // of the text
  end: number;
  targetBegin: number; // of Document.text
  targetEnd: number;
  translation: Translation;
}

export interface Document {
  text: string;
  sentences: Sentence[];
  words: number; // of the source, between whitespace, of what was translated now
  ms: number;
}

export interface Translator {
  readonly info: ModelInfo;

  /** One sentence. */
  translate(text: string, options?: Options): Promise<Translation>;

  /** Many, in batches; in their order. progress(done): how many are. A text at fault has an error, the others are translated. */
  translateAll(texts: string[], options?: Options & { progress?: (done: number) => void }): Promise<Translation[]>;

  /** A text whose lines are paragraphs, cut into sentences: what translate --document makes of it. Sentences that the
      call before had, with the same options, are not translated again. sentence(index, translation) as each one is done,
      in any order. Its faults are in each sentence's translation.error. */
  translateText(text: string, options?: Options & { sentence?: (index: number, translation: Translation) => void }): Promise<Document>;

  /** Where the sentences of a text are. */
  sentences(text: string): Promise<{ begin: number; end: number }[]>;

  /** One sentence while it grows: after each token the text so far; the last one is whole. Ending the loop cancels. */
  stream(text: string, options?: Options): AsyncIterableIterator<Translation>;

  /** Ways to go on at piece number position of a translation: up to n (16 at most), the most probable next piece first, each
      with the rest of its sentence. minProbability of that piece (its log-probability is logProbabilities[position]). */
  alternatives(translation: { source: string; ids: ArrayLike<number> }, position: number,
    options?: Options & { n?: number; minProbability?: number }): Promise<Hypothesis[]>;

  /** The attention of all layers and heads, of a translation. "decoder": not of layers that are SSRUs. */
  attention(translation: { source: string; ids: ArrayLike<number> }, options?: Options & { kind?: "cross" | "encoder" | "decoder" }): Promise<Attention>;

  /** Bytes: of the model file, of what the model and its session use now, and of all WebAssembly memory (which never shrinks). */
  memory(): Promise<{ model: number; used: number; total: number }>;

  /** Gives the memory back. Calls that wait are rejected. */
  close(): void;
}

/* The Worker's protocol, which load speaks by itself. To it: { id, call: "load", model: 1, args: [...] }, the model's
   number chosen by who asks, with functions and signals left out; { id, cancel: true }. From it: { id, value }, { id,
   error: { name, message, status } }, and while a call goes on { id, event: [...] } for progress, sentence and stream. */
