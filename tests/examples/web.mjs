// node tests/examples/web.mjs [FOLDER]: compares the module of examples/web in Node with
// build/translate. FOLDER is build/web by default.
// TRANSLATE=PROGRAM replaces build/translate. A program built with -DTRANSFORMER_KERNELS=1 (SSE2) must
// give exactly the same texts and scores.
// --cheap takes fewer sentences. Sentences and changed files are new in each run; SEED=N repeats a run.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const cheap = process.argv.includes("--cheap");
const folder = process.argv.slice(2).find((a) => !a.startsWith("-")) ?? "build/web";
const { load, serve, warm, TranslationError } = await import(pathToFileURL(`${folder}/transformer.js`));
const seed = Number(process.env.SEED ?? Date.now() % 1e6);
let state = seed;
const random = (n) => { // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
};
const any = (list) => list[random(list.length)];

const encode = (text) => new TextEncoder().encode(text);

let passed = 0, failed = 0;
function check(what, good, ...more) {
  if (good) passed++, console.log(`    ok   ${what}`);
  else failed++, console.log(`    FAIL ${what}`, ...more);
}
const same = (what, expected, got) => check(what, JSON.stringify(expected) === JSON.stringify(got), "\n", expected, "\n", got);
const refusal = async (promise) => promise.then(() => null, (error) => error);
console.log(`SEED=${seed}`);

// ---- sentences, and their translations by the command line ----

const who = ["Ich", "Du", "Tom", "Maria", "Mein Bruder", "Die alte Frau", "Unser Lehrer", "Das Kind", "Niemand", "Jeder von uns"];
const verb = ["hat", "wollte", "sah", "kaufte", "liest", "vergaß", "brachte", "findet", "sucht", "verkauft"];
const what = ["ein rotes Buch", "den Schlüssel", "einen großen Hund", "zwei Äpfel", "die Zeitung von gestern", "das neue Auto",
  "einen Brief an seine Mutter", "Wasser", "die Tür", "den Zug nach Berlin", "eine gute Idee", "einen Arzt"];
const when = ["", " heute", " gestern Abend", " im Sommer", " nach der Schule", " jeden Tag", " um 9 Uhr", " vor drei Jahren"];
const end = [".", ".", ".", "!", "?", ", aber es regnet.", ", weil er müde war.", " und ging nach Hause."];
const sentence = () => `${any(who)} ${any(verb)}${any(when)} ${any(what)}${any(end)}`;
const germanFile = "examples/models/de-en.safetensors", german = readFileSync(germanFile);
const texts = Array.from({ length: cheap ? 60 : 200 }, sentence);
texts[7] = "", texts[11] = "   ", texts[13] = "😀 “Ja”, sagte er. ａ é";

function native(input, model, ...args) {
  if (!args.some((arg) => ["--document", "--sentences", "--live"].includes(arg))) args.push("--sentences", "whole"); // as Model.translate with plain
  const run = spawnSync(process.env.TRANSLATE ?? "build/translate", [model, ...args], { input, encoding: "utf8", maxBuffer: 1 << 26 });
  if (run.error) throw run.error;
  return run.stdout.split("\n").slice(0, -1);
}

// The greedy outputs must be equal, except where the two kernel sets round a near-tie. There the module
// must find the native token almost as likely: at the first
// place where the outputs differ, the native token's log-probability must be close to the best token's.
const NEAR = 0.1;
async function compare(name, model, file, lines) {
  const expected = native(lines.join("\n") + "\n", file, "--greedy");
  const got = await model.translateAll(lines, { greedy: true, plain: true });
  let equal = 0, near = 0;
  for (let i = 0; i < lines.length; i++) {
    if (expected[i] === got[i].text) { equal++; continue; }
    let margin = Infinity;
    for (let at = 0; at <= got[i].ids.length && margin === Infinity; at++) {
      if (!expected[i].startsWith(got[i].text.slice(0, at ? got[i].pieces[at - 1].end : 0))) break;
      const ways = await model.alternatives(got[i], at, { greedy: true, plain: true, n: 4 });
      const way = ways.find((h) => h.text === expected[i]);
      if (way) margin = ways[0].logProbabilities[at] - way.logProbabilities[at];
    }
    console.log(`      ${name} ${i}: margin ${margin.toFixed(4)}: ${lines[i]} | ${expected[i]} | ${got[i].text}`);
    if (margin < NEAR) near++;
  }
  check(`${name}: ${equal} of ${lines.length} sentences as translate has them, the others near-ties: ${near}`,
    equal + near === lines.length && equal >= 0.9 * lines.length);
  return got;
}

const model = await load(german), plain = await load(german, { simd: false });
check(`kernels: ${model.info.kernels}; ${plain.info.kernels}`, model.info.kernels === "WASM SIMD128" && plain.info.kernels === "plain C");
const got = await compare("SIMD", model, germanFile, texts);
await compare("plain", plain, germanFile, texts.slice(0, cheap ? 15 : 60));
plain.close();
const chinese = await load(readFileSync("examples/models/zh-en.safetensors"));
const demo = readFileSync("examples/translate/demo.txt", "utf8").trim().split("\n");
await compare("zh-en", chinese, "examples/models/zh-en.safetensors", demo);
chinese.close();

// ---- exact: the bits of every machine ----

const { checksums } = await import("./bits.mjs"), expected = readFileSync("tests/data/bits.txt", "utf8").split("\n");
for (const language of ["de", "zh"])
  for (const simd of [true, false]) {
    const exact = await load(readFileSync(`examples/models/${language}-en.safetensors`), { exact: true, simd });
    same(`exact: ${exact.info.kernels}`, "fused", exact.info.arithmetic);
    for (const line of await checksums(exact, language, simd && !cheap ? 50 : 5)) check(`  ${line}`, expected.includes(line));
    exact.close();
  }
same("without exact", ["separate", "fused"], [model.info.arithmetic, (await load(german, { simd: false })).info.arithmetic]);

// ---- alone, in batches, in a Worker: the same ----

const bits = (t) => JSON.stringify([t.text, t.hypotheses.map((h) => [h.text, h.score, h.ids, h.logProbabilities, [...(h.alignment ?? [])]]), t.sourcePieces]);
let differ = 0;
const alone = texts.slice(0, cheap ? 20 : 60), options = { beam: 4, nBest: 3, alignment: true, plain: true };
const batch = await model.translateAll(alone, options);
for (let i = 0; i < alone.length; i++) if (bits(await model.translate(alone[i], options)) !== bits(batch[i])) differ++;
same("alone and in a batch: the same bits", 0, differ);
const { port1, port2 } = new MessageChannel();
serve(port2);
await warm({ worker: port1 });
const remote = await load(german, { worker: port1 });
let progress = 0;
const away = await remote.translateAll(alone, { ...options, progress: (n) => { progress = n; } });
same("through a port: the same bits", alone.map((_, i) => bits(batch[i])), away.map(bits));
same("progress of all", alone.length, progress);

// ---- n-best, scores, pieces, attention ----

const lines = native(alone.join("\n") + "\n", germanFile, "--beam", "4", "--n-best", "3", "--scores").map((l) => l.split("\t"));
const best = new Map();
for (const [n, score, text] of lines) best.set(Number(n), [...(best.get(Number(n)) ?? []), { score: Number(score), text }]);
let equal = 0, asked = 0, far = 0;
batch.forEach((t, i) => (best.get(i + 1) ?? []).forEach((h, rank) => {
  asked++;
  if (t.hypotheses[rank]?.text !== h.text) return;
  equal++;
  far = Math.max(far, Math.abs(t.hypotheses[rank].score - h.score));
}));
check(`n-best: ${equal} of ${asked} hypotheses as translate's, scores at most ${far.toFixed(4)} off`, asked > 50 && equal >= 0.9 * asked && far < 0.5);
let wrong = 0, off = 0;
for (const t of batch) {
  for (const h of t.hypotheses) {
    if (h.logProbabilities.length && Math.abs(h.logProbabilities.reduce((a, b) => a + b) - h.logProbability) > 1e-9) wrong++;
    if (h.pieces.length && (h.pieces[0].begin !== 0 || h.pieces.at(-1).end !== h.text.length)) wrong++;
    h.pieces.forEach((p, i) => { if (i && p.begin !== h.pieces[i - 1].end) wrong++; });
    const n = t.sourcePieces.length;
    h.ids.forEach((_, row) => {
      off = Math.max(off, Math.abs(1 - h.alignment.slice(row * n, row * n + n).reduce((a, b) => a + b)));
    });
  }
  if (t.sourcePieces.map((p) => t.source.slice(p.begin, p.end)).join("") !== t.source.trimEnd() && t.source.trim()) wrong++;
}
same("pieces tile their texts, log-probabilities add up", 0, wrong);
check(`rows of attention sum to 1, at most ${off.toExponential(1)} off`, off < 1e-5);

async function attends(name, m, t, o = {}) {
  const { layers, heads, rows, columns, weights } = await m.attention(t, o);
  let sum = 0, most = 0;
  for (let r = 0; r < weights.length; r += columns.length) {
    sum = 0;
    for (let c = 0; c < columns.length; c++) sum += weights[r + c];
    most = Math.max(most, Math.abs(1 - sum));
  }
  check(`${name}: ${layers} layers of ${heads} heads, ${rows.length} by ${columns.length}, sums ${most.toExponential(1)} off`,
    weights.length === layers * heads * rows.length * columns.length && rows.length > 0 && most < 1e-5);
  return { layers, heads, rows, columns, weights };
}
// Where the file names no heads, decoding keeps the mean over the last layer's heads.
async function sameAttention(name, m, text, o = {}) {
  const t = await m.translate(text, { ...o, greedy: true, alignment: true });
  const { layers, heads, columns, rows, weights } = await attends(`${name}, cross`, m, t, o);
  const size = rows.length * columns.length;
  let most = 0;
  t.alignment.forEach((w, i) => {
    let mean = 0;
    for (let h = 0; h < heads; h++) mean += weights[((layers - 1) * heads + h) * size + i] / heads;
    most = Math.max(most, Math.abs(mean - w));
  });
  check(`${name}: the last layer's mean is what decoding kept, ${most.toExponential(1)} off`, most < 1e-4);
  return t;
}
const t = await sameAttention("de-en", model, "Ich habe gestern ein rotes Buch gekauft.");
await attends("encoder", model, t, { kind: "encoder" });
const { weights, rows } = await attends("decoder", model, t, { kind: "decoder" });
let later = 0;
weights.forEach((w, i) => { if (i % rows.length > Math.floor(i / rows.length) % rows.length) later = Math.max(later, w); });
same("decoder: nothing that comes later", 0, later);
same("attention through a port", [...weights], [...(await remote.attention(t, { kind: "decoder" })).weights]);

// ---- streams, alternatives, prefixes ----

for (const m of [model, remote]) {
  const grown = [];
  for await (const part of m.stream(t.source, { greedy: true })) grown.push(part.text);
  check(`a stream of ${grown.length} ends with the whole`, grown.at(-1) === t.text && grown.length === t.ids.length + 1, grown);
  check("and grows", grown.every((text, i) => !i || text.startsWith(grown[i - 1])), grown);
  for await (const part of m.stream(t.source)) if (part.ids.length === 2) break;
  same("a stream that was left: the next call is good", t.text, (await m.translate(t.source, { greedy: true })).text);
}
const ways = await model.alternatives(t, 2, { greedy: true, n: 5 });
check("alternatives: begin as they should, in order, the first is the translation", ways.length === 5 && ways[0].text === t.text &&
  ways.every((h, i) => h.ids[0] === t.ids[0] && h.ids[1] === t.ids[1] && (!i || h.logProbabilities[2] <= ways[i - 1].logProbabilities[2])), ways);
same("five beginnings", 5, new Set(ways.map((h) => h.ids[2])).size);
{
  const bare = await model.translate(t.source, { greedy: true, alignment: true }), texts = [t.source, "Guten Tag.", t.source];
  const all = await model.translateAll(texts, { greedy: true });
  for (const draft of [bare.ids, bare.text, bare.text.replace("I", "We"), bare.ids.toReversed?.() ?? [], "", "\u{1f600}"]) {
    same("a draft changes nothing", bare, await model.translate(t.source, { greedy: true, alignment: true, draft }));
    same("  in a batch", all, await model.translateAll(texts, { greedy: true, drafts: [draft, undefined, draft] }));
  }
  same("  with a beam", await model.translate(t.source, { beam: 2 }), await model.translate(t.source, { beam: 2, draft: bare.ids }));
}
const begun = await model.translate(t.source, { greedy: true, prefix: "I had" });
check("a prefix", begun.text.startsWith("I had "), begun.text);
same("the same by ids", begun.text, (await model.translate(t.source, { greedy: true, prefix: begun.ids.slice(0, 2) })).text);

// ---- texts of paragraphs, beside translate --document ----

const document = "Guten Tag. Wie geht es dir?  Dr. Müller kommt um 9 Uhr.\n\n  Das ist\tgut. \nIch bin müde!\r\nEnde\n\n";
const seen = [];
const page = await model.translateText(document, { greedy: true, sentence: (i) => seen.push(i) });
same("paragraphs as translate --document", native(document, germanFile, "--document", "--greedy"), page.text.split("\n").slice(0, -1));
check("each sentence told once", seen.length === page.sentences.length && new Set(seen).size === seen.length, seen);
check("where they are", page.sentences.every((s) => document.slice(s.begin, s.end) === s.translation.source &&
  page.text.slice(s.targetBegin, s.targetEnd) === s.translation.text), page.sentences);
const edited = await model.translateText(document.replace("müde", "hungrig"), { greedy: true });
same("of an edited text only what is new", 3, edited.words);
{
  const line = "Guten Tag. Wie geht es dir?  Ja.", of = async (m, options) => (await m.translateText(line, { greedy: true, ...options })).text;
  const [split, whole] = ["split", "whole"].map((word) => native(line + "\n", germanFile, "--sentences", word, "--greedy")[0]);
  same("a line's sentences, as translate splits them", split, await of(model));
  same("  split", split, await of(model, { sentences: "split" }));
  same("  whole: the line is one text", whole, await of(model, { sentences: "whole" }));
  same("  one sentence", [{ begin: 0, end: line.length }], await model.sentences(line, { sentences: "whole" }));
}
same("the sentences alone", page.sentences.map(({ begin, end }) => ({ begin, end })), await model.sentences(document));

// ---- what people write around sentences, beside translate ----

for (const language of ["de", "zh"]) {
  const input = readFileSync(`tests/data/texts-${language}.txt`, "utf8"), file = `examples/models/${language}-en.safetensors`;
  const exact = await load(readFileSync(file), { exact: true }), sources = input.split("\n").slice(0, -1);
  const run = spawnSync(process.env.TRANSLATE ?? "build/translate", [file, "--exact"], { input, encoding: "utf8", maxBuffer: 1 << 26 });
  const expected = run.stdout.split("\n"), lines = (await exact.translateText(input)).text.split("\n");
  check(`${sources.length} lines of ${language}`, sources.length > 60 && lines.length === expected.length, lines.length, expected.length);
  sources.forEach((source, i) => expected[i] === lines[i] || same(source.slice(0, 60), expected[i], lines[i]));
  same("  are those of translate", expected, lines);
  const some = sources.slice(0, cheap ? 25 : 60), plain = await exact.translateAll(some, { plain: true });
  same("  plain ones, too", native(some.join("\n") + "\n", file, "--exact"), plain.map(({ text }) => text));
  exact.close();
}
{
  const label = "  1. „Der Hund bellt.“ 🎉", options = { greedy: true, alignment: true }, bare = await model.translate("Der Hund bellt.", options);
  const t = await model.translate(label, options);
  same("a sentence alone keeps what stands around it", `  1. “${bare.text.replace(/\.$/, "")}.” 🎉`, t.text);
  same("  its pieces are the same", bare.pieces.slice(1, -1).map((p) => bare.text.slice(p.begin, p.end)), t.pieces.slice(1, -1).map((p) => t.text.slice(p.begin, p.end)));
  same("  and those of the source", bare.sourcePieces.map((p) => bare.source.slice(p.begin, p.end).trim()),
    t.sourcePieces.map((p) => label.slice(p.begin, p.end).trim()));
  same("  in a batch and through a port", [t, t], [(await model.translateAll([label], options))[0], await remote.translate(label, options)]);
  same("  other continuations have it, too", t.text, (await model.alternatives(t, 1, { ...options, n: 2 }))[0].text);
  const grown = [];
  for await (const part of model.stream(label, options)) grown.push(part.text);
  check("  and each part of a stream", grown.length > 3 && grown.every((text) => text.startsWith("  1. ")) && grown.at(-1) === t.text, grown);
  const hidden = "Der \u2068Hund\u2069 bellt.", marked = await model.translate(hidden, { greedy: true });
  same("  characters that nobody sees go to their words", ["\u2068", "\u2069"], marked.text.match(/[\u2068\u2069]/g));
  same("  without alignment in the result", undefined, marked.alignment);
  for (const text of ["42", "---", "", "Το τρένο φεύγει.", "My brother has a new car and he likes it very much."])
    same(`  "${text}" stays`, [text, []], await model.translate(text).then(({ text, ids }) => [text, ids]));
  check("  but not if it is plain", (await model.translate("42", { plain: true })).ids.length > 0);
}

// ---- texts that come, beside translate --live --json ----

const quote = (text) => `"${text.replace(/["\\]/g, "\\$&").replace(/[\0-\x1f]/g, (c) => `\\u${c.charCodeAt().toString(16).padStart(4, "0")}`)}"`;
const lineOf = (t) => `{"source": ${quote(t.source)}, "stable_text": ${quote(t.stable_text)}, "text": ${quote(t.text)}, "done": ${t.done}}`;
const liveLines = (input, file, ...args) => native(input, file, "--live", "--json", "--exact", ...args);
const cuts = (text) => { // at random places, also within a character of two units
  const pieces = [];
  for (let at = 0; at < text.length;) pieces.push(text.slice(at, at += any([1, 1, 2, 3, 7, 20, 300])));
  return pieces;
};
async function comes(m, pieces, options) {
  const live = await m.live(options), lines = [];
  for (const piece of pieces) lines.push(...await live.feed(piece));
  lines.push(...await live.finish());
  live.close();
  return lines;
}
{
  const exact = await load(german, { exact: true }), far = await load(german, { exact: true, worker: port1 });
  const text = `${sentence()} ${sentence()}\nGuten "Tag" \\ und\tdanke 🎉.\r\n\n${sentence()} Ohne Ende`, expected = liveLines(text, germanFile);
  check(`${expected.length} lines of a text that comes`, expected.length > 20 && expected.filter((line) => /true}$/.test(line)).length === 4, expected);
  for (const m of [exact, far, exact]) same("  are those of translate --live --json", expected, (await comes(m, cuts(text))).map(lineOf));
  same("  as bytes, too", expected, (await comes(far, [encode(text).subarray(0, 9), encode(text).subarray(9)])).map(lineOf));
  const found = await comes(exact, [text]);
  let back = 0;
  found.forEach((t, i) => {
    const before = i && !found[i - 1].done ? found[i - 1].stable_text : "";
    if (!t.stable_text.startsWith(before) || !t.text.startsWith(t.stable_text) || (t.done && t.text !== t.stable_text)) back++;
  });
  same("  no word is taken back", 0, back);
  check("  words are stable before the end", found.some((t) => !t.done && t.stable_text), found);
  const letters = (lines) => lines.reduce((sum, t) => sum + t.stable_text.length, 0);
  check("  surer ones come later", letters(await comes(exact, [text], { sure: 1 })) < letters(found));
  same("half a character at the end", ["Guten Tag \ufffd"], (await comes(exact, ["Guten Tag ", "\ud83d"])).slice(-1).map((t) => t.source));

  const a = await exact.live(), b = await exact.live(), mixed = [[], []];
  for (const piece of cuts(text)) {
    mixed[0].push(...await a.feed(piece));
    await exact.translate(sentence());
    mixed[1].push(...await b.feed(piece));
  }
  mixed[0].push(...await a.finish()), mixed[1].push(...await b.finish());
  same("two texts at a time, and a translation between", [expected, expected], mixed.map((lines) => lines.map(lineOf)));
  a.close(), b.close();
  same("a closed text", ["TranslationError", "CLOSED"], await refusal(a.feed("x")).then((error) => [error?.name, error?.status]));
  await comes(exact, [text]);
  const { used } = await exact.memory();
  for (let i = 0; i < 5; i++) await comes(exact, [text]);
  same("its memory is given back", used, (await exact.memory()).used);
  const zh = readFileSync("examples/models/zh-en.safetensors"), demo = readFileSync("examples/translate/demo.txt", "utf8").split("\n").slice(0, 5).join("\n");
  const chinese = await load(zh, { exact: true });
  same("Chinese", liveLines(demo, "examples/models/zh-en.safetensors"), (await comes(chinese, cuts(demo))).map(lineOf));
  for (const [kind, message, call] of [
    [TypeError, "piece is number, expected string or Uint8Array", (live) => live.feed(3)],
    [RangeError, "sure is 2, expected 0 to 1", () => exact.live({ sure: 2 })],
    [TypeError, "beam is no option of live", () => far.live({ beam: 2 })]]) {
    const error = await refusal(exact.live().then(call));
    check(message, error instanceof kind && error.message === message, error);
  }
  same("a language that there is not", "TFM_E_TOKEN", (await refusal(far.live({ target: "xx" })))?.status);
  exact.close(), far.close(), chinese.close();
}

// ---- cancelling ----

for (const m of [model, remote]) {
  const stop = new AbortController(), began = performance.now();
  const work = refusal(m.translateAll(texts.concat(texts), { beam: 4, signal: stop.signal }));
  const waits = refusal(m.translate(t.source, { signal: stop.signal }));
  setTimeout(() => stop.abort(), 30);
  const name = (await work)?.name, ms = performance.now() - began;
  check(`cancelled after ${ms.toFixed(0)} ms`, name === "AbortError" && (await waits)?.name === "AbortError" && ms < 2000);
  same("and the next call is good", t.text, (await m.translate(t.source, { greedy: true })).text);
  same("refused before it begins", "AbortError", (await refusal(m.translate("x", { signal: AbortSignal.abort() })))?.name);
}

// ---- wrong arguments are named ----

{
  const [a, b] = [TypeError, RangeError], of = (m) => [
    [a, "text is number, expected string", () => m.translate(3)],
    [a, "text is undefined, expected string", () => m.translate()],
    [a, "text is Array, expected string", () => m.translateText(["Ja."])],
    [a, "text is null, expected string", () => m.sentences(null)],
    [a, "text is Object, expected string", () => m.stream({}).next()],
    [a, "texts is string, expected an array of strings", () => m.translateAll("Guten Tag.")],
    [a, "texts[1] is number, expected string", () => m.translateAll(["Ja.", 5])],
    [a, "texts[1] is undefined, expected string", () => m.translateAll(["Ja.", , "Nein."])],
    [a, "options is string, expected object", () => m.translate("x", "de")],
    [a, "options is null, expected object", () => m.translateAll(["x"], null)],
    [a, "beam is string, expected number", () => m.translate("x", { beam: "a" })],
    [a, "beam is string, expected number", () => m.translate("x", { beam: "4" })],
    [b, "beam is -1, expected 0 to 2147483647", () => m.translateAll(["x"], { beam: -1 })],
    [b, "beam is 1.5, expected an integer", () => m.translateText("x", { beam: 1.5 })],
    [b, "nBest is NaN, expected 0 to 2147483647", () => m.translate("x", { nBest: NaN })],
    [b, "maxLength is Infinity, expected 0 to 2147483647", () => m.translate("x", { maxLength: Infinity })],
    [b, "maxLength is 2147483648, expected 0 to 2147483647", () => m.stream("x", { maxLength: 2 ** 31 }).next()],
    [b, "lengthPenalty is 101, expected -100 to 100", () => m.translate("x", { lengthPenalty: 101 })],
    [b, "repetitionPenalty is -1, expected 0 to 1e+30", () => m.translate("x", { repetitionPenalty: -1 })],
    [a, "noRepeatNgram is bigint, expected number", () => m.translate("x", { noRepeatNgram: 3n })],
    [a, "greedy is number, expected boolean", () => m.translate("x", { greedy: 1 })],
    [a, "plain is number, expected boolean", () => m.translateText("x", { plain: 1 })],
    [a, "alignment is string, expected boolean", () => m.translate("x", { alignment: "no" })],
    [a, "source is number, expected string", () => m.translate("x", { source: 1 })],
    [a, "target is Array, expected string", () => m.translate("x", { target: ["en"] })],
    [a, "prefix is number, expected string or an array of ids", () => m.translate("x", { prefix: 7 })],
    [a, "prefix[1] is string, expected number", () => m.translate("x", { prefix: [7, "8"] })],
    [b, "draft[0] is -7, expected 0 to 2147483647", () => m.translate("x", { draft: [-7] })],
    [a, "drafts is string, expected an array", () => m.translateAll(["x"], { drafts: "y" })],
    [a, "drafts[0] is boolean, expected string or an array of ids", () => m.translateAll(["x"], { drafts: [true] })],
    [b, "drafts has 2 elements, texts has 1", () => m.translateAll(["x"], { drafts: ["y", "z"] })],
    [a, "signal is Object, expected an AbortSignal", () => m.translate("x", { signal: {} })],
    [a, "progress is number, expected function", () => m.translateAll(["x"], { progress: 5 })],
    [a, "sentence is boolean, expected function", () => m.translateText("x", { sentence: true })],
    [a, "bean is no option of translate, did you mean beam?", () => m.translate("x", { bean: 4 })],
    [a, "n_best is no option of translateAll, did you mean nBest?", () => m.translateAll(["x"], { n_best: 4 })],
    [a, "progress is no option of translateText", () => m.translateText("x", { progress() {} })],
    [a, "colour is no option of stream", () => m.stream("x", { colour: 1 }).next()],
    [a, "translation is string, expected a translation", () => m.alternatives("x", 1)],
    [a, "translation.source is undefined, expected string", () => m.attention({ ids: [1] })],
    [a, "translation.ids is undefined, expected an array of ids", () => m.attention({ source: "x" })],
    [a, "position is undefined, expected number", () => m.alternatives({ source: "x", ids: [1] })],
    [b, "position is 2, expected 0 to 1", () => m.alternatives({ source: "x", ids: [1] }, 2)],
    [b, "n is -2, expected 0 to 2147483647", () => m.alternatives({ source: "x", ids: [1] }, 1, { n: -2 })],
    [b, "minProbability is 2, expected 0 to 1", () => m.alternatives({ source: "x", ids: [1] }, 1, { minProbability: 2 })],
    [b, 'kind is "self", expected cross, encoder, decoder', () => m.attention({ source: "x", ids: [1] }, { kind: "self" })],
  ];
  const module = [
    [a, "model is undefined, expected an ArrayBuffer or a Uint8Array", () => load()],
    [a, "model is number, expected an ArrayBuffer or a Uint8Array", () => load(5)],
    [a, "model is string, expected an ArrayBuffer or a Uint8Array", () => load("de-en.safetensors")],
    [a, "model is Promise, expected an ArrayBuffer or a Uint8Array", () => load(Promise.resolve(german))],
    [a, "exact is number, expected boolean", () => load(german, { exact: 1 })],
    [a, "simd is string, expected boolean", () => warm({ simd: "no" })],
    [a, "worker is string, expected a Worker", () => load(german, { worker: "worker.js" })],
    [a, "wroker is no option of load, did you mean worker?", () => load(german, { wroker: port1 })],
    [a, "exact is no option of warm", () => warm({ exact: true })],
    [a, "options is number, expected object", () => load(german, 5)],
  ];
  for (const [name, calls] of [["", of(model)], ["through a port: ", of(remote)], ["", module]])
    for (const [kind, message, call] of calls) {
      let error = null;
      try { await call(); } catch (caught) { error = caught; }
      check(name + message, error instanceof kind && error.message === message && error.status === "TFM_E_ARGUMENT", error);
    }
  same("undefined and null are absent", (await model.translate("Danke.")).text,
    (await model.translate("Danke.", { beam: undefined, source: null, prefix: null, draft: undefined })).text);
  for (const [bytes, says] of [["<!DOCTYPE html><title>404</title>", /an HTML page/], ["version https://git-lfs.github.com/spec/v1\n", /git lfs pull/]]) {
    const error = await refusal(load(encode(bytes)));
    check(`not a model: ${error?.message}`, error instanceof TranslationError && says.test(error.message), error);
  }
}

// ---- faults of texts and options ----

const long = "und ".repeat(3000), mixed = await remote.translateAll(["Guten Tag.", long, "Danke."], { greedy: true });
same("a text that is too long is that text's fault", [undefined, "TFM_E_TOO_LONG", undefined], mixed.map((m) => m.error?.status));
check("with a message, as an Error", mixed[1].error instanceof TranslationError && /\d/.test(mixed[1].error.message), mixed[1].error);
same("the others are translated", ["Good day.", "Thanks."], [mixed[0].text, mixed[2].text]);
same("alone it is refused", "TFM_E_TOO_LONG", (await refusal(model.translate(long)))?.status);
same("a beam that is too wide", "TFM_E_ARGUMENT", (await refusal(model.translate("a", { beam: 10000 })))?.status);
same("a language that there is not", "TFM_E_TOKEN", (await refusal(model.translate("a", { target: "xx" })))?.status);
same("lone surrogates", "string", typeof (await model.translate("a \ud800 b")).text);

// ---- hostile files ----

const valid = readFileSync("tests/data/models/toy.safetensors"), size = Number(valid.readBigUInt64LE(0));
const header = JSON.parse(valid.subarray(8, 8 + size)), data = valid.subarray(8 + size);
const file = (text, bytes = data) => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text), bytes]);
};
const changed = (change) => {
  const copy = structuredClone(header);
  change(copy);
  return file(JSON.stringify(copy));
};
const config = (change) => changed((h) => {
  const c = JSON.parse(h.__metadata__["transformer.config"]);
  change(c);
  h.__metadata__["transformer.config"] = JSON.stringify(c);
});
const length = (n) => { const copy = Buffer.from(valid); copy.writeBigUInt64LE(n); return copy; };
const tensor = Object.keys(header).find((n) => header[n].shape?.length === 2), vocabulary = "src_vocabulary";
const hostile = {
  "nothing": Buffer.alloc(0), "four bytes": valid.subarray(0, 4), "the length alone": valid.subarray(0, 8),
  "half a header": valid.subarray(0, 8 + (size >> 1)), "no data": valid.subarray(0, 8 + size), "one byte less": valid.subarray(0, -1),
  "one byte more": Buffer.concat([valid, Buffer.alloc(1)]), "length 0": length(0n), "length 2^63": length(1n << 63n),
  "length 2^64-1": length((1n << 64n) - 1n), "length 2^32": length(1n << 32n), "an array": file("[]"), "an empty header": file("{}"),
  "deep": file("[".repeat(100000)), "a key twice": file(JSON.stringify(header).replace(/^{/, `{"${tensor}":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`)),
  "no metadata": changed((h) => delete h.__metadata__), "no config": changed((h) => { h.__metadata__ = {}; }),
  "a tensor is missing": changed((h) => delete h[tensor]), "a tensor too many": changed((h) => { h["x\u0007"] = { dtype: "F32", shape: [0], data_offsets: [0, 0] }; }),
  "2^40 rows": changed((h) => { h[tensor].shape[0] = 2 ** 40; }), "2^31 by 2^31": changed((h) => { h[tensor].shape = [2 ** 31, 2 ** 31]; }),
  "offsets backwards": changed((h) => h[tensor].data_offsets.reverse()), "offsets overlap": changed((h) => { h[tensor].data_offsets[0]--; }),
  "negative shape": changed((h) => { h[tensor].shape[0] = -1; }), "another type": changed((h) => { h[tensor].dtype = "F64"; }),
  "no heads": config((c) => delete c.n_heads), "2^31 - 1 heads": config((c) => { c.n_heads = 2 ** 31 - 1; }), "0 heads": config((c) => { c.n_heads = 0; }),
  "a start beyond the vocabulary": config((c) => { c.start = 10 ** 9; }), "an unknown key": config((c) => { c.rotary = 1; }),
  "an unknown activation": config((c) => { c.activation = "maxout"; }), "layers that are not there": config((c) => { c.n_encoder_layers = 1000; }),
  "not UTF-8": (() => { const copy = Buffer.from(valid), at = header[vocabulary]?.data_offsets; if (at) copy[8 + size + at[0]] = 0xff; return copy; })(),
};
let refused = 0;
const source = readFileSync("tests/data/toy.zh", "utf8").split("\n")[0];
const toy = await load(valid), right = (await toy.translate(source)).text;
toy.close();
for (const [name, bytes] of Object.entries(hostile)) {
  const error = await refusal(load(bytes, { worker: port1 }));
  if (error instanceof TranslationError && /^TFM_E_/.test(error.status) && error.message && !/[\x00-\x1f]/.test(error.message)) refused++;
  else console.log(`      ${name}: ${error}`);
}
check(`${refused} of ${Object.keys(hostile).length} hostile files are refused with a message`, refused === Object.keys(hostile).length && refused >= 30);
const after = await load(valid, { worker: port1 });
same("and the next model is good", right, (await after.translate(source)).text);
after.close();
let loads = 0, others = 0;
for (let i = 0; i < (cheap ? 30 : 300); i++) {
  const bytes = Buffer.from(valid);
  for (let n = 1 + random(4); n; n--) bytes[random(2) ? 8 + random(size) : random(bytes.length)] = random(256);
  try {
    const m = await load(bytes);
    loads++;
    await m.translate(source).catch((error) => { if (!(error instanceof TranslationError) || error.status === "TRAP") throw error; });
    m.close();
  } catch (error) {
    if (!(error instanceof TranslationError) || error.status === "TRAP") others++, console.log("      ", error);
  }
}
check(`files with bytes changed at random: ${loads} load, none traps`, !others);

// ---- attention and alternatives where the start token is the pad (Marian, T5), or a language comes
// first (M2M100) ----

for (const [name, change, o] of [
  ["a start that is the pad", (c) => { c.tgt_pad = c.start; }, {}],
  ["a start of zeros", (c) => { c.start_embedding = "zero"; }, {}],
  ["a forced language", (c) => Object.assign(c, { languages: { fra: 5, deu: 3 }, tgt_language: "forced" }), { target: "deu" }],
]) {
  const m = await load(config(change));
  const small = await sameAttention(name, m, source, { ...o, maxLength: 8 });
  for (const at of small.ids.length > 2 ? [0, 1, 2] : []) {
    const first = (await m.alternatives(small, at, { ...o, greedy: true, n: 3, maxLength: 8 }))[0];
    same(`${name}: the first alternative at ${at} is the translation`, small.ids, first.ids);
  }
  if (o.target) same("and without it", "TFM_E_STATE", (await refusal(m.translate(source)))?.status);
  m.close();
}

// ---- memory ----

const before = await model.memory();
let sums = [];
for (let i = 0; i < (cheap ? 4 : 20); i++) {
  await model.translateAll(Array.from({ length: 50 }, sentence));
  for (let k = 0; k < 50; k++) await model.translate(sentence());
  sums.push(await model.memory());
}
check(`memory over ${100 * sums.length} sentences: ${before.total} bytes before, ${sums[0].total} after 100, ${sums.at(-1).total} at the end`,
  sums.at(-1).total === sums[0].total && sums.at(-1).used <= sums[0].used * 1.01, sums);
model.close();
remote.close(), remote.close();
for (const [name, m] of [["closed", model], ["closed, through the port", remote]])
  for (const call of [() => m.translate("a"), () => m.translateAll(["a"]), () => m.translateText("a"), () => m.sentences("a"), () => m.stream("a").next(),
    () => m.alternatives({ source: "a", ids: [1] }, 0), () => m.attention({ source: "a", ids: [1] }), () => m.memory()]) {
    const error = await refusal(call());
    same(`${name}: ${error?.message}`, ["TranslationError", "CLOSED", "the model is closed: load it again"], [error?.name, error?.status, error?.message]);
  }
port1.close();

// ---- the sizes in the README, of clang 14 ----

{
  const rows = readFileSync("examples/web/README.md", "utf8"), files = ["transformer-simd", "transformer"].map((name) => readFileSync(`${folder}/${name}.wasm`));
  const said = (row) => [...rows.match(new RegExp(`^\\| ${row}.*$`, "m"))[0].matchAll(/(\d+) kB/g)].map((one) => 1000 * one[1]);
  const near = (what, all, sizes) => check(`${what}: ${sizes}`, all.length === sizes.length && all.every((one, i) => Math.abs(one / sizes[i] - 1) < 0.03), all);
  near("WebAssembly files", said("WebAssembly file"), files.map((file) => file.length));
  near("compressed", said("compressed"), files.flatMap((file) => [gzipSync(file, { level: 9 }).length, brotliCompressSync(file).length]));
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
