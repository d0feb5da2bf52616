// The page: choice of models, text, translation, attention. transformer.js translates in a Worker; if server.py serves
// the page, the server translates, and the page needs no WebAssembly.
import { Server } from "./server.js";
import { load } from "./transformer.js";
import { Typing } from "./typing.js";

const SAMPLES = {
  de: "Unser Zug hatte heute zwanzig Minuten Verspätung. Wenn es morgen wieder regnet, bleiben wir einfach zu " +
    "Hause.\n\nMeine Schwester arbeitet seit drei Jahren in diesem Krankenhaus. Könntest du mir bitte die Butter geben?",
  zh: "火车晚了十分钟。如果明天下雨，我们就待在家里。\n\n他每天晚上都喝一杯牛奶。孩子们在公园里玩。",
};
const TYPING_MS = 80; // a pause in typing that starts a translation
const TYPING_MS_SERVER = 300;
const LONG = 200; // a text of this many sentences starts a second Worker; for less its start takes too long
const BATCH_MS = 500; // time of a batch, after which its translations are shown
const LARGEST_BATCH = 256; // sentences
const asked = new URLSearchParams(location.search);
const WORD = asked.get("sentences") === "whole" ? "whole" : undefined; // page?sentences=whole
const IS_LIVE = asked.get("typing") !== "whole"; // page?typing=whole: what one types is translated like a text that is pasted
const KEPT_SENTENCES = 1000; // translations that are cached; for a longer text twice its sentences
const LARGEST_FILE = 2 ** 31; // bytes; WebAssembly has 2^32 bytes for the model and all other memory

const $ = (id) => document.getElementById(id);
const [source, marks, target, message] = ["source", "marks", "target", "message"].map($);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
const languages = new Intl.DisplayNames(["en"], { type: "language" });

/** Makes an element of the given tag.class, properties and children. */
function make(tag, properties = {}, ...inside) {
  const [name, ...classes] = tag.split(".");
  const element = Object.assign(document.createElement(name), properties);
  if (classes.length) element.className = classes.join(" ");
  element.append(...inside);
  return element;
}

function say(text) { // announces text to screen readers
  $("announce").textContent = text;
}

function complain(text) { // shows an error message; "" removes it
  message.textContent = text;
  message.hidden = !text;
}

// ---- models ---------------------------------------------------------------------------------------------------------

let worker;
let served = false; // whether server.py serves the page
let model; // a Translator of transformer.js, a Server, or undefined
let modelBytes; // a function that promises the model's bytes again
let name = {}; // the model's title, and its languages from and to if its file name has them
let kept = new Map(); // sentence: its translation, least recently used first
let chosen = new Map(); // sentence: the alternative that the reader chose
let loadings = 0;

function describe(file) {
  const [, from, to] = /([a-z]{2,3})-([a-z]{2,3})[^/]*$/.exec(file) ?? [];
  return { title: from ? `${languages.of(from)} → ${languages.of(to)}` : file, from, to };
}

/** Returns the bytes of a model that comes with the page, from the cache or the network, and shows progress. */
async function download({ file, bytes, check }, title, progress) {
  const url = new URL(`${file}?${check}`, document.baseURI).href;
  const cache = await globalThis.caches?.open("models").catch(() => undefined); // pages without https have no caches
  const hit = await cache?.match(url);
  if (hit) return hit.arrayBuffer();
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${file}: the server answered with status ${response.status}`);
  const parts = [];
  let size = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    progress(`${title}: ${megabytes(size)} of ${megabytes(bytes)}`, size / bytes);
  }
  if (size !== bytes) throw new Error(`${file}: ${size} bytes came, not ${bytes}`);
  const blob = new Blob(parts);
  if (cache) {
    for (const old of await cache.keys()) if (old.url.split("?")[0] === url.split("?")[0]) await cache.delete(old);
    await cache.put(url, new Response(blob)).catch(() => undefined); // without room it is not cached
  }
  return blob.arrayBuffer();
}

function progress(text, share) {
  $("loading").hidden = text === undefined;
  if (text === undefined) return;
  $("loading-text").textContent = text;
  if (share === undefined) $("progress").removeAttribute("value");
  else $("progress").value = share;
}

/** Makes a file the page's model. If it is not a model, shows a message and keeps the old model. getBytes: promises the
    file's bytes, or a Server. */
async function use(button, described, getBytes) {
  const mine = ++loadings;
  complain("");
  progress(`${described.title} …`);
  button?.setAttribute("aria-busy", "true");
  try {
    const bytes = await getBytes(progress);
    if (mine !== loadings) return false;
    worker ??= startWorker();
    const next = await load(bytes, { worker });
    if (mine !== loadings || !next.info.hasText) {
      next.close();
      if (mine === loadings) throw new Error("it takes ids, not text: it has no tokenizer");
      return false;
    }
    running?.abort();
    model?.close();
    model = next;
    modelBytes = () => getBytes(() => undefined);
    name = described;
    forget(); // translations are no drafts for another model
    for (const each of document.querySelectorAll("#choices button")) each.setAttribute("aria-pressed", each === button);
    $("own").classList.toggle("on", !button);
    $("own-name").textContent = button ? "A model file of your own" : described.title;
    showModel();
    return true;
  } catch (error) {
    if (mine === loadings) complain(`${described.title} cannot be used: ${error.message}`);
    return false;
  } finally {
    button?.removeAttribute("aria-busy");
    if (mine === loadings) progress();
  }
}

function startWorker() {
  const started = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
  started.addEventListener("error", (event) => {
    complain(`The Worker ended. ${event.message ?? ""} Choose a model again.`);
    started.terminate();
    worker = model = undefined;
  });
  return started;
}

/** Loads the model a second time, in its own Worker. Returns undefined if there is no memory or no core for it. */
async function loadSecond(signal) {
  if (!(navigator.hardwareConcurrency > 1)) return undefined;
  const own = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
  signal.addEventListener("abort", () => own.terminate());
  return modelBytes().then((bytes) => load(bytes, { worker: own })).catch(() => undefined);
}

function showModel() {
  const { info } = model;
  source.lang = name.from ?? "";
  target.lang = name.to ?? "";
  target.replaceChildren();
  $("sample").hidden = !SAMPLES[name.from];
  if (SAMPLES[name.from] && Object.values(SAMPLES).includes(source.value)) source.value = SAMPLES[name.from];
  $("languages").hidden = !info.languages.length;
  for (const id of ["from", "to"])
    $(id).replaceChildren(...info.languages.map((code) => make("option", { value: code }, code)));
  $("from").parentElement.hidden = !info.needsSource;
  $("to").parentElement.hidden = !info.needsTarget;
  $("swap").hidden = !info.needsSource || !info.needsTarget;
  options("layer", Math.max(info.decoderLayers, info.encoderLayers), false);
  $("layer").value = info.decoderLayers;
  options("head", info.heads, true);
  $("kernels").textContent = info.kernels;
  $("speed").textContent = "";
  say(`${name.title} is loaded`);
  typed(0);
}

function options(id, count, mean) {
  const numbers = Array.from({ length: count }, (_, i) => make("option", { value: i + 1 }, String(i + 1)));
  $(id).replaceChildren(...(mean ? [make("option", { value: 0 }, "mean")] : []), ...numbers);
}

async function listModels() {
  let list = [];
  try {
    list = await (await fetch("models.json")).json();
  } catch {
    complain("models.json, the list of models, is not there. A file of your own can be used.");
  }
  served = list.some((entry) => entry.sources);
  showPlace();
  if (served) return useServer();
  const buttons = list.map((entry) => {
    const described = describe(entry.file);
    const button = make("button", { type: "button", value: entry.file }, described.title, make("small", {}, megabytes(entry.bytes)));
    const open = (progress) => download(entry, described.title, progress);
    button.setAttribute("aria-pressed", false);
    button.addEventListener("click", async () => {
      if (!source.value && SAMPLES[described.from]) setText(SAMPLES[described.from]);
      if (await use(button, described, open)) remember(entry.file);
    });
    return [entry, described, button];
  });
  $("choices").prepend(...buttons.map(([, , button]) => button));
  worker ??= startWorker(); // starts while the model is downloaded
  navigator.serviceWorker?.register("sw.js").catch(() => undefined); // without it the page needs the network
  // Load the model of the last visit if it is cached
  for (const [entry, described, button] of buttons) {
    const url = new URL(`${entry.file}?${entry.check}`, document.baseURI).href;
    if (entry.file === remember() && (await globalThis.caches?.match(url)) && !loadings)
      use(button, described, (progress) => download(entry, described.title, progress));
  }
}

// ---- the server's languages and documents ---------------------------------------------------------------------------

/** Returns codes of the server's languages in the order of their names. */
function byName(codes) {
  return [...codes].sort((a, b) => model.names.get(a).localeCompare(model.names.get(b), "en"));
}

/** Shows the server's languages in two lists: where there are several sources, the first entry detects the language. */
async function useServer() {
  try {
    model = await Server.open();
  } catch (error) {
    return complain(error.message);
  }
  const sources = byName(model.targets.keys());
  const option = (code) => make("option", { value: code }, model.names.get(code));
  $("from").replaceChildren(...(sources.length > 1 ? [make("option", { value: "auto" }, "Detect language")] : []), ...sources.map(option));
  $("languages").hidden = $("served").hidden = false;
  $("microphone").hidden = !model.hears;
  $("formats").textContent = model.formats.join(" ");
  $("upload").accept = model.formats.join(",");
  const [from, to] = remember()?.split(" ") ?? [];
  $("from").value = from ?? model.first?.source.code;
  if ($("from").selectedIndex < 0) $("from").selectedIndex = 0;
  showTargets(to ?? model.first?.target.code);
  chooseLanguages();
}

/** Shows the languages into which the chosen source can be translated. */
function showTargets(wanted = $("to").value) {
  const from = $("from").value;
  const codes = byName(from === "auto" ? new Set([...model.targets.values()].flat()) : model.targets.get(from));
  $("to").replaceChildren(...codes.map((code) => make("option", { value: code }, model.names.get(code))));
  if (codes.includes(wanted)) $("to").value = wanted;
}

function chooseLanguages() {
  const [from, to] = [$("from").value, $("to").value];
  const plain = (code) => code.split(/[-_]/)[0];
  name = { title: `${model.names.get(from) ?? "Any language"} → ${model.names.get(to)}`, from: from === "auto" ? undefined : plain(from), to: plain(to) };
  source.lang = name.from ?? "";
  target.lang = name.to;
  target.replaceChildren();
  $("sample").hidden = !SAMPLES[name.from];
  $("way").textContent = "";
  showSwap();
  remember(`${from} ${to}`);
  say(name.title);
  forget();
  typed(0);
}

/** Returns [from, to] as they are after a swap, or undefined if no model translates in that direction. */
function swapped() {
  const [from, to] = [$("from").value, $("to").value];
  if (!served) return [to, from];
  const back = from === "auto" ? detectedBefore : from;
  return model.targets.get(to)?.includes(back) ? [to, back] : undefined;
}

function showSwap() {
  $("swap").disabled = !swapped();
  $("swap").title = swapped() ? "Swap languages" : "No model translates in the other direction";
}

/** Swaps the languages. The translation, if it is complete, becomes the text. */
function swap() {
  const after = swapped();
  if (!after) return;
  if (sentences.length && sentences.every(({ translation }) => translation && !translation.error)) source.value = translated();
  $("from").value = after[0];
  if (served) showTargets(after[1]), chooseLanguages();
  else $("to").value = after[1], $("from").dispatchEvent(new Event("change"));
}

/** Returns the languages of a translation, after the server has detected that of the text. */
async function detected(how, text) {
  if (!served || how.source !== "auto") return how;
  if (!text.trim()) return { ...how, source: how.target };
  const found = await model.detect(text, how.target, how.signal);
  if (!found) throw new Error(`no model translates this text into ${model.names.get(how.target)}`);
  const sure = found.confidence ? ` (${Math.round(found.confidence)} %)` : "";
  $("way").textContent = `Detected: ${model.names.get(found.language)}${sure}`;
  return { ...how, source: found.language };
}

function showWay(how) {
  const detection = how.detected ? $("way").textContent.split(" · ")[0] : "";
  const way = model.way ? `by way of ${model.way.slice(1, -1).map((code) => model.names.get(code)).join(", ")}` : "";
  $("way").textContent = [detection, way].filter(Boolean).join(" · ");
}

let uploading; // AbortController of the document that is being translated

async function translateDocument(file) {
  uploading?.abort();
  const mine = (uploading = new AbortController());
  const { signal } = mine;
  $("cancel").hidden = false;
  complain("");
  $("done").hidden = true;
  progress(`${file.name} is being translated …`);
  let busy = true; // an answer about progress may come after the document
  try {
    const show = ({ status, sentences, sentences_done: done, seconds_remaining: left }) => {
      if (mine !== uploading || signal.aborted || !busy) return;
      progress(status === "queued" ? `${file.name} waits for its turn …` : `${file.name}: ${done} of ${sentences} sentences, ${left} s left`,
        status === "queued" ? undefined : done / sentences);
    };
    const { address, notes } = await model.translateFile(file, { source: $("from").value, target: $("to").value, signal, progress: show })
      .finally(() => (busy = false));
    if (signal.aborted) return;
    Object.assign($("download"), { href: address, textContent: `Download ${decodeURIComponent(address.split("/").at(-1))}` });
    $("notes").textContent = notes.length ? `Left as it is: ${notes.join("; ")}` : "";
    $("done").hidden = false;
    say(`${file.name} is translated`);
  } catch (error) {
    if (!signal.aborted) complain(error.message.startsWith(`${file.name}: `) ? error.message : `${file.name}: ${error.message}`);
  } finally {
    if (mine === uploading) progress(), ($("cancel").hidden = true);
  }
}

let microphone; // a promise of the Microphone that hears now

/** Shows what is said and its translation as captions, or ends this. Each text that has ended becomes a line behind the text, and keeps
    its translation. */
async function speak() {
  if (microphone) return (await microphone.catch(() => undefined))?.stop();
  complain("");
  const button = $("microphone");
  const languages = { source: $("from").value, target: $("to").value };
  const isOn = (on) => {
    button.setAttribute("aria-pressed", on);
    $("captions").hidden = !on;
    $("panes").hidden = on;
    for (const id of ["from", "to", "swap"]) $(id).disabled = on;
    if (!on) showSwap();
  };
  const line = (said, translation) => {
    source.value += (/[^\n]$/.test(source.value) ? "\n" : "") + said;
    if (translation) keep(said, { source: said, text: translation });
  };
  let captions;
  const ended = (error) => {
    microphone = undefined;
    captions?.end();
    isOn(false);
    typed(0);
    if (error) complain(`Microphone: ${error}`);
    say("The microphone is off");
  };
  isOn(true);
  $("captions").replaceChildren(make("p.guess", {}, "Speak."));
  const shown = languages.source === "auto" ? [""] : [name.from, name.to]; // without its language, speech is translated when it has ended
  microphone = Promise.all([import("./captions.js"), import("./microphone.js")]).then(([{ Captions }, { Microphone }]) =>
    Microphone.open(model.listening(languages), (message) => (captions ??= new Captions($("captions"), shown, line)).take(message), ended));
  await microphone.then(() => say("The microphone is on"), (error) => ended(error.message));
}

/** Says where texts go, and hides what the server does not do. */
function showPlace() {
  $("where").textContent = served ? `The server ${location.host} translates. The page sends it what you type or say.`
    : "Translates in this page. What you type stays on this device.";
  $("engine").textContent = served ? "The engine is one C header, which runs on the server." :
    "The engine is one C header compiled to WebAssembly. The two models are small demonstrations for short, everyday " +
    "sentences. After the first visit the page works offline.";
  for (const id of ["choices", "attention", "target-help"]) $(id).hidden = served;
  if (served) target.removeAttribute("aria-describedby");
}

function remember(file) {
  try {
    if (file) localStorage.setItem("model", file);
    return localStorage.getItem("model");
  } catch {
    return null; // the browser may forbid storage
  }
}

function useFile(file) {
  if (served) return translateDocument(file);
  return use(undefined, { ...describe(file.name), title: file.name }, () => {
    if (file.size >= LARGEST_FILE)
      throw new Error(`it has ${megabytes(file.size)}, a page can take ${megabytes(LARGEST_FILE)}`);
    return file.arrayBuffer();
  });
}

// ---- translation while the reader types -----------------------------------------------------------------------------

let running; // AbortController of the current translation
let timer;
let detectedBefore; // the source language of the last translation by the server
let sentences = []; // the text's sentences: { begin, end, text, translation, error }
const typing = new Typing();
let caret; // where the reader has typed, or undefined if the text came as a whole
let edited; // the sentence there, whose translation may still change

function forget() {
  kept = new Map();
  chosen = new Map();
  sentences = [];
  edited = undefined;
  typing.close();
}

function typed(pause = served ? TYPING_MS_SERVER : TYPING_MS) {
  mark();
  closeMenu();
  running?.abort(); // the text has changed
  clearTimeout(timer);
  timer = setTimeout(run, pause);
}

function setText(text) {
  source.value = text;
  caret = undefined;
  typed(0);
}

const language = ({ plain } = {}) => ({ plain: plain || WORD === "whole", ...(model.info.languages.length && { source: $("from").value, target: $("to").value }) });

async function run() {
  if (!model) return;
  const { signal } = (running = new AbortController());
  const over = new AbortController(); // ends the second Worker, which frees its memory
  const text = source.value;
  try {
    const wanted = { alignment: true, signal, ...language() };
    const how = await detected(wanted, text);
    if (served && detectedBefore && how.source !== detectedBefore) kept = new Map();
    detectedBefore = how.source;
    if (served) showSwap();
    if (served) model.way = undefined;
    const found = (await model.sentences(text, { sentences: WORD })).map(({ begin, end }) => ({ begin, end, text: text.slice(begin, end) }));
    if (signal.aborted) return;
    for (const each of found) each.translation = chosen.get(each.text) ?? recall(each.text);
    const drafts = takeDrafts(sentences, found);
    const place = await translateTyped(found, text, how);
    sentences = found;
    edited = place;
    if (!found.length) $("speed").textContent = "";
    const missing = [...new Set(found.filter((each) => !each.translation).map((each) => each.text))];
    const models = [model];
    if (missing.length >= LONG && !served) loadSecond(over.signal).then((second) => second && models.push(second));
    let [words, ms, shown, showing] = [0, 0, -1000, 0];
    show();
    for (let at = 0, count = 1; at < missing.length;) { // one sentence first, to show it soon; then batches of BATCH_MS
      const part = missing.slice(at, at + count);
      const started = performance.now();
      const share = Math.ceil(part.length / models.length);
      const shares = models.map((each, i) => {
        const texts = part.slice(i * share, (i + 1) * share);
        return each.translateAll(texts, { ...how, drafts: texts.map((text) => drafts.get(text)) });
      });
      const translations = (await Promise.all(shares)).flat();
      const took = performance.now() - started;
      ms += took;
      at += part.length;
      count = Math.ceil(Math.min(8 * count, LARGEST_BATCH, (part.length * BATCH_MS) / took));
      part.forEach((sentence, i) => keep(sentence, translations[i]));
      if (signal.aborted) return;
      for (const each of found) each.translation ??= chosen.get(each.text) ?? recall(each.text);
      words += part.reduce((sum, sentence) => sum + countWords(sentence), 0);
      if (at < missing.length && performance.now() - shown < 200 + 5 * showing) continue; // showing takes time
      showing = -performance.now();
      show();
      shown = performance.now();
      showing += shown;
      showSpeed(words, ms, at);
    }
    if (served && missing.length) showWay({ detected: wanted.source === "auto" });
    const faults = found.filter((each) => each.translation.error);
    complain(faults.length ? `${faults.length} of ${found.length} not translated: ${faults[0].translation.error.message}` : "");
    if (place) say(place.translation.text);
    if (missing.length) say(missing.slice(0, 20).map((sentence) => recall(sentence)?.text).join(" "));
    const memory = await model.memory();
    $("memory").textContent = memory ? `memory ${megabytes(memory.total)}, ${megabytes(memory.used)} in use` : "";
    document.documentElement.dataset.done = text.length; // tests wait for it
  } catch (error) {
    if (signal.aborted) return;
    complain(error.message);
    if (error.status === "TRAP") model = undefined; // the model is closed; the reader can choose another
  } finally {
    over.abort();
  }
}

/** Translates the sentence in which the reader types, and returns it, if there is one. */
async function translateTyped(found, text, how) {
  const place = caret === undefined ? undefined : found.findLast(({ begin }) => begin <= caret);
  if (!place || text.slice(place.end, caret).includes("\n") || chosen.has(place.text)) return undefined;
  const started = performance.now();
  const translate = async (sentence, at) => {
    const shown = sentences.find(({ begin }) => begin === sentence.begin)?.translation;
    sentence.translation = await typing.translate(model, sentence, at, shown, how);
    keep(sentence.text, sentence.translation);
  };
  const left = found.find((each) => each.begin === typing.begin && each.begin < place.begin && !each.translation);
  if (left) await translate(left, left.text.length + 1); // the reader has left it before it was translated to its end
  await translate(place, caret - place.begin);
  showSpeed(countWords(place.text), performance.now() - started, 1);
  return place;
}

/** Returns, for each sentence without a translation, the ids that were the translation at its place before an edit, so that
    little changes while the reader types. A draft is handed on while typing cancels translations. */
function takeDrafts(before, found) {
  const still = new Set(found.map((each) => each.text)), drafts = new Map();
  found.forEach((each, i) => {
    if (each.translation) return;
    const old = [before[i], before[before.length - found.length + i]].find((one) => one && !still.has(one.text));
    each.draft = old?.translation?.ids ?? old?.draft;
    drafts.set(each.text, each.draft);
  });
  return drafts;
}

function recall(sentence) {
  const translation = kept.get(sentence);
  if (translation) kept.delete(sentence), kept.set(sentence, translation);
  return translation;
}

function keep(sentence, translation) {
  kept.set(sentence, translation);
  if (kept.size > Math.max(KEPT_SENTENCES, 2 * sentences.length)) kept.delete(kept.keys().next().value);
}

const wordsOf = new Intl.Segmenter(undefined, { granularity: "word" });

function countWords(text) {
  let count = 0;
  for (const { isWordLike } of wordsOf.segment(text)) count += isWordLike;
  return count;
}

function showSpeed(words, ms, count) {
  const rate = Math.round((words / ms) * 1000).toLocaleString("en");
  const unit = `${served ? "paragraph" : "sentence"}${count === 1 ? "" : "s"}`;
  $("speed").textContent = `${count} ${unit} in ${Math.round(ms)} ms, ${rate} words/s`;
}

// ---- showing the translation ----------------------------------------------------------------------------------------

const shownAs = new WeakMap(); // translation: its element, which is made only once
const placeOf = new WeakMap(); // a word's element: { the sentence's element, its translation, begin, end }

/** Shows the translation as paragraphs, one per line. Elements that are already right are not touched. */
function show() {
  const made = [[]]; // the contents of each paragraph
  let last = 0;
  for (const each of sentences) {
    for (const _ of source.value.slice(last, each.begin).matchAll(/\r\n?|\n/g)) made.push([]);
    made.at(-1).push(each);
    last = each.end;
  }
  const focused = document.activeElement?.closest?.("#target .word");
  const used = new Set();
  made.forEach((inside, i) => {
    let paragraph = target.children[i];
    if (!paragraph) target.append((paragraph = make("p", { dir: "auto" })));
    const before = contentOf.get(paragraph) ?? [];
    const same = before.length === inside.length && inside.every((each, j) => each.translation === before[j]);
    contentOf.set(paragraph, inside.map((each) => each.translation));
    const elements = same ? [...paragraph.children] : inside.map((each) => elementOf(each.translation, each.text, used));
    elements.forEach((element, j) => (used.add(element), sentenceOf.set(element, inside[j])));
    if (same) return;
    const spaced = elements.flatMap((element, j) => [j ? between(elements[j - 1].textContent) : "", element]);
    paragraph.replaceChildren(...spaced);
  });
  while (target.childElementCount > made.length) target.lastChild.remove();
  if (focused?.isConnected && focused !== document.activeElement) focused.focus(); // moving an element takes its focus away
  if (!target.querySelector('[tabindex="0"]')) target.querySelector(".word")?.setAttribute("tabindex", 0);
  $("copy").disabled = !sentences.length;
  shade();
  if ($("attention").open) draw();
}

/** Shows words in grey that may still change while the reader types. */
function shade() {
  for (const element of target.querySelectorAll(".open")) element.classList.remove("open");
  const element = edited && shownAs.get(edited.translation);
  element?.classList.add("open");
  for (const word of element?.querySelectorAll(".word") ?? [])
    word.classList.toggle("stable", placeOf.get(word).end <= edited.translation.stable);
}

/** Returns the translation as it is shown. */
const translated = () => [...target.children].map((paragraph) => paragraph.textContent).join("\n");

const contentOf = new WeakMap(); // paragraph: its translations

function elementOf(translation, text, used) {
  if (!translation) return make("span.waiting", {}, "…");
  if (translation.error) return make("span.fault", { title: translation.error.message }, text);
  let element = shownAs.get(translation);
  if (!element || used.has(element) || element.isConnected) shownAs.set(translation, (element = makeSentence(translation)));
  return element;
}

const sentenceOf = new WeakMap(); // element of a sentence: its entry in sentences

/** Returns the text between two sentences of a line: a space, or nothing for scripts without spaces. */
function between(before) {
  return /[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]$/.test(before) ? "" : " ";
}

function makeSentence(translation) {
  const element = make("span");
  if (!translation.pieces) { // no attention is known
    const { text, stable = 0 } = translation;
    element.append(...(stable ? [make("span.stable", {}, text.slice(0, stable))] : []), text.slice(stable));
    return element;
  }
  for (const { segment, index, isWordLike } of wordsOf.segment(translation.text)) {
    if (!isWordLike) {
      element.append(segment);
      continue;
    }
    const word = make("span.word", { tabIndex: -1, role: "button", ariaHasPopup: "menu" }, segment);
    placeOf.set(word, { element, translation, begin: index, end: index + segment.length });
    element.append(word);
  }
  return element;
}

const overlaps = (piece, { begin, end }) => piece.begin < end && piece.end > begin;

/** Returns how much a word of a translation attended to each source word: [{ begin, end, text, weight }], largest first. */
function lookedAt(place) {
  const { translation } = place;
  const rows = translation.pieces.flatMap((piece, row) => (overlaps(piece, place) ? [row] : []));
  if (!rows.length || !translation.alignment) return [];
  const columns = translation.sourcePieces.length;
  const words = [];
  for (const { segment, index, isWordLike } of wordsOf.segment(translation.source))
    if (isWordLike) words.push({ begin: index, end: index + segment.length, text: segment, weight: 0 });
  translation.sourcePieces.forEach((piece, column) => {
    const word = words.find((each) => overlaps(piece, each));
    for (const row of rows) if (word) word.weight += translation.alignment[row * columns + column] / rows.length;
  });
  return words.filter((word) => word.weight > 0.08).sort((a, b) => b.weight - a.weight);
}

/** Marks words of the source text; without arguments, removes the marks. */
function mark(offset = 0, words = []) {
  const text = source.value;
  const nodes = [];
  let last = 0;
  for (const { begin, end, weight } of [...words].sort((a, b) => a.begin - b.begin)) {
    const under = make("mark", {}, text.slice(offset + begin, offset + end));
    under.style.setProperty("--weight", (0.12 + 0.4 * Math.min(weight, 1)).toFixed(3));
    nodes.push(text.slice(last, offset + begin), under);
    last = offset + end;
  }
  marks.replaceChildren(...nodes, `${text.slice(last)}\n`); // "\n", because an empty last line has a height too
}

function point(word) {
  const place = placeOf.get(word);
  const sentence = place && sentenceOf.get(place.element);
  if (!sentence || source.value.slice(sentence.begin, sentence.end) !== sentence.text) return;
  const words = lookedAt(place);
  mark(sentence.begin, words);
  word.ariaDescription = words.length
    ? `looked at ${words.map(({ text, weight }) => `${text} ${Math.round(100 * weight)} %`).join(", ")}` : "";
}

// ---- other ways to go on --------------------------------------------------------------------------------------------

const menu = $("alternatives");
let opener; // the word that opened the menu

async function openMenu(word) {
  closeMenu();
  const place = placeOf.get(word);
  const { translation } = place;
  const position = translation.pieces.findIndex((piece) => overlaps(piece, place));
  const sentence = sentenceOf.get(place.element);
  if (position < 0 || !model) return;
  opener = word;
  word.ariaExpanded = true;
  let found;
  try {
    found = await model.alternatives(translation, position, { n: 8, alignment: true, ...language(translation) });
  } catch (error) {
    if (opener === word) closeMenu(), complain(error.message);
    return;
  }
  if (opener !== word || !word.isConnected) return;
  const likely = found.filter(({ logProbabilities }, i) => i < 4 || logProbabilities[position] > -6);
  menu.replaceChildren(...likely.filter(({ pieces }) => pieces.length > position).map((each) => {
    const item = makeItem(each, position, place.begin);
    item.ariaChecked = each.text === translation.text;
    const { source, sourcePieces } = translation;
    item.addEventListener("click", () => choose(sentence, { ...each, source, sourcePieces }, position));
    return item;
  }));
  if (!menu.childElementCount) menu.append(make("p", {}, "No other way to go on is likely."));
  menu.hidden = false;
  const box = word.getBoundingClientRect();
  menu.style.top = `${box.bottom + scrollY + 4}px`;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - menu.offsetWidth - 16)) + scrollX}px`;
  (menu.querySelector("[aria-checked=true]") ?? menu.querySelector("button"))?.focus({ preventScroll: true });
}

/** Makes a menu item of a hypothesis from piece number position on: the word, the rest, the piece's probability. */
function makeItem({ text, pieces, logProbabilities }, position, begin) {
  const rest = text.slice(Math.min(begin, pieces[position].begin)).trimStart();
  const head = [...wordsOf.segment(rest)].find(({ isWordLike }) => isWordLike);
  const cut = head ? head.index + head.segment.length : rest.length;
  const percent = 100 * Math.exp(logProbabilities[position]);
  const shown = percent < 0.1 ? "< 0.1" : percent.toFixed(percent < 1 ? 1 : 0);
  return make("button", { type: "button", role: "menuitemradio", tabIndex: -1, dir: "auto" },
    make("b", {}, rest.slice(0, cut)), make("span", {}, rest.slice(cut)), make("small", {}, `${shown} %`));
}

function closeMenu(refocus) {
  if (!opener) return;
  opener.ariaExpanded = null;
  if (refocus) opener.focus();
  opener = undefined;
  menu.hidden = true;
}

function choose(sentence, translation, position) {
  closeMenu();
  chosen.set(sentence.text, translation);
  for (const each of sentences) if (each.text === sentence.text) each.translation = translation;
  show();
  const words = [...(shownAs.get(translation)?.querySelectorAll(".word") ?? [])];
  (words.find((word) => placeOf.get(word).end > (translation.pieces[position]?.begin ?? 0) + 1) ?? words[0])?.focus();
}

// ---- attention as a picture -----------------------------------------------------------------------------------------

const MOST_PIECES = 100; // most rows, and most columns, in a picture
let pictured; // the sentence in the picture
let drawing = 0;
const attentionOf = new WeakMap(); // translation: its attention by kind

/** Returns the sentence of the word that was pointed at last, or else the sentence at the cursor. */
function sentenceInView() {
  if (pictured && sentences.includes(pictured)) return pictured;
  return sentences.find((each) => each.end >= source.selectionStart) ?? sentences.at(-1);
}

async function draw() {
  const mine = ++drawing;
  const sentence = sentenceInView();
  const translation = sentence?.translation;
  const picture = $("picture");
  if (!translation?.pieces) return picture.replaceChildren(), ($("attention-of").textContent = "");
  const kind = $("kind").value;
  if (!attentionOf.has(translation)) attentionOf.set(translation, {});
  let attention;
  try {
    attention = attentionOf.get(translation)[kind] ??= await model.attention(translation, { kind, ...language(translation) });
  } catch (error) {
    if (mine === drawing) picture.replaceChildren(make("p", {}, error.message));
    return;
  }
  if (mine !== drawing) return;
  for (const option of $("layer").options) option.hidden = option.value > attention.layers;
  if ($("layer").value > attention.layers) $("layer").value = attention.layers;
  $("attention-of").textContent = translation.source;
  const [layer, head] = [Number($("layer").value), Number($("head").value)];
  picture.replaceChildren(heatMap(attention, layer, head, picture.clientWidth));
  picture.dataset.shows = `${kind} ${layer} ${head}`;
}

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Draws one head of a layer, both counted from 1; head 0 is the mean of all heads. Rows attend to columns. */
function heatMap({ heads, weights, ...sides }, layer, head, room) {
  const [rows, columns] = [sides.rows, sides.columns].map((side) => side.map(({ label }) => label.replaceAll(" ", "▁")));
  const [m, n] = [rows.length, columns.length];
  const at = (i, j) => {
    const one = (h) => weights[(((layer - 1) * heads + h) * m + i) * n + j];
    if (head) return one(head - 1);
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += one(h);
    return sum / heads;
  };
  const [high, wide] = [Math.min(m, MOST_PIECES), Math.min(n, MOST_PIECES)];
  const width = (label) => [...label].reduce((sum, c) => sum + (c > "\u2e80" ? 13 : 7.5), 0);
  const left = Math.max(...rows.slice(0, high).map(width)) + 14;
  const longest = Math.max(...columns.slice(0, wide).map(width));
  const top = Math.ceil(longest * 0.8) + 16;
  const right = Math.ceil(width(columns[wide - 1]) * 0.6) + 8;
  const cell = Math.max(18, Math.min(32, Math.floor((room - left - right) / wide)));
  const [across, down] = [left + wide * cell, top + high * cell];
  const picture = svg("svg", { width: across + right, height: down + 2, role: "img" });
  const strongest = [];
  const cells = svg("g", {});
  for (let i = 0; i < high; i++) {
    let best = 0;
    for (let j = 0; j < wide; j++) {
      const weight = at(i, j);
      if (weight > at(i, best)) best = j;
      const [x, y] = [left + j * cell + 1, top + i * cell + 1];
      const box = svg("rect", { class: "cell", x, y, width: cell - 2, height: cell - 2, rx: 2, "fill-opacity": weight.toFixed(3) });
      box.append(svg("title", {}, `${rows[i]} → ${columns[j]}: ${weight.toFixed(3)}`));
      cells.append(box);
    }
    strongest.push(`${rows[i]} at ${columns[best]}, ${at(i, best).toFixed(2)}`);
  }
  picture.setAttribute("aria-label", `Each row looks most at: ${strongest.join("; ")}`);
  picture.append(svg("rect", { class: "ground", x: left, y: top, width: wide * cell, height: high * cell }), cells);
  for (let i = 0; i < high; i++)
    picture.append(svg("text", { x: left - 8, y: top + (i + 0.5) * cell + 4.5, "text-anchor": "end" }, rows[i]));
  for (let j = 0; j < wide; j++) {
    const transform = `translate(${left + (j + 0.5) * cell + 2} ${top - 8}) rotate(-52)`;
    picture.append(svg("text", { transform }, columns[j]));
  }
  return picture;
}

// ---- events ---------------------------------------------------------------------------------------------------------

source.addEventListener("input", ({ inputType }) => {
  const isTyped = /^(insert(Text|Composition|Line|Paragraph)|delete)/.test(inputType);
  caret = isTyped && IS_LIVE ? source.selectionEnd : undefined;
  typed();
});
source.addEventListener("blur", () => {
  edited = undefined;
  shade();
});
for (const event of ["keyup", "click"]) source.addEventListener(event, () => {
  pictured = undefined;
  if ($("attention").open) draw();
});
$("sample").addEventListener("click", () => setText(SAMPLES[name.from]));
$("microphone").addEventListener("click", speak);
$("clear").addEventListener("click", () => (setText(""), source.focus()));
$("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(translated()).then(() => say("Copied"), () => getSelection().selectAllChildren(target));
});
$("swap").addEventListener("click", swap);
$("cancel").addEventListener("click", () => uploading?.abort());
$("upload").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) translateDocument(file);
});
for (const id of ["from", "to"]) $(id).addEventListener("change", () => {
  if (served) return (id === "from" && showTargets()), chooseLanguages();
  forget();
  typed(0);
});

const wordAt = (event) => event.target.closest?.(".word");
target.addEventListener("pointerover", (event) => (wordAt(event) ? point(wordAt(event)) : mark()));
target.addEventListener("pointerleave", () => mark());
target.addEventListener("focusout", () => mark());
target.addEventListener("focusin", (event) => {
  const word = wordAt(event);
  if (!word) return;
  for (const each of target.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
  word.tabIndex = 0;
  point(word);
  const sentence = sentenceOf.get(placeOf.get(word).element);
  if (sentence === pictured) return;
  pictured = sentence;
  if ($("attention").open) draw();
});
target.addEventListener("click", (event) => {
  const word = wordAt(event);
  if (word) word.focus(), openMenu(word);
});
target.addEventListener("keydown", (event) => {
  const word = wordAt(event);
  if (!word) return;
  const words = [...target.querySelectorAll(".word")];
  const forward = getComputedStyle(word).direction === "rtl" ? -1 : 1;
  const all = words.length;
  const steps = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: 1, ArrowUp: -1, Home: -all, End: all };
  const step = steps[event.key];
  if (step) words[Math.max(0, Math.min(words.length - 1, words.indexOf(word) + step))].focus();
  else if (event.key === "Enter" || event.key === " ") openMenu(word);
  else return;
  event.preventDefault();
});
menu.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button")];
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -items.length, End: items.length }[event.key];
  if (event.key === "Escape" || event.key === "Tab") closeMenu(true);
  else if (step) items[Math.max(0, Math.min(items.length - 1, items.indexOf(document.activeElement) + step))]?.focus();
  else return;
  event.preventDefault();
});
document.addEventListener("pointerdown", (event) => {
  if (opener && !menu.contains(event.target) && wordAt(event) !== opener) closeMenu();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenu(true));

for (const id of ["kind", "layer", "head"]) $(id).addEventListener("change", draw);
$("attention").addEventListener("toggle", () => $("attention").open && draw());

$("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = ""; // so the same file can be chosen again
  if (file) useFile(file);
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.documentElement.classList.add("dropping");
});
for (const event of ["drop", "dragleave"])
  addEventListener(event, () => document.documentElement.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) useFile(file);
});

typed(0);
listModels();
