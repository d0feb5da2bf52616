// The checksums of tests/library/test_bits.c, computed by the module of examples/web. web.mjs runs this in Node, and
// web/test_bits.py in browsers.

// The words of test_bits.c
const german = ("Der Hund schläft nicht heute eine Frau liest das Buch und wir gehen morgen nach Hause Wetter schön kalt Zug Minuten " +
  "zwanzig hatte Kinder spielen im").split(" ");
const chinese = "我 是 学生 他 喜欢 今天 孩子 在 公园 玩 不 很 好 的 书".split(" ");

function line(words, space, end, i) {
  let seed = (Math.imul(i, 2654435761) + 12345) >>> 0;
  const next = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 16;
  return Array.from({ length: 1 + (next() % 24) }, () => words[next() % words.length]).join(space) + end;
}

/** Returns the lines of tests/data/bits.txt for a translator of this language ("de" or "zh") and both searches that the module
    has. */
export async function checksums(model, language, lines) {
  const found = [];
  for (const kind of ["greedy", "beam"]) {
    const beam = kind === "beam" ? 4 : 1, number = new DataView(new ArrayBuffer(8));
    let sum = 14695981039346656037n; // FNV-1a
    const add = (set) => {
      set();
      for (let k = 0; k < 8; k++) sum = BigInt.asUintN(64, (sum ^ BigInt(number.getUint8(k))) * 1099511628211n);
    };
    for (let i = 0; i < lines; i++) {
      const text = language === "zh" ? line(chinese, "", "。", i) : line(german, " ", ".", i);
      const tokens = (await model.translate(text, { greedy: true, maxLength: 1 })).sourcePieces.length;
      const options = { greedy: true, beam, nBest: beam, maxLength: 2 * tokens + 8, lengthPenalty: beam > 1 ? 0.6 : 0 };
      for (const h of (await model.translate(text, options)).hypotheses) {
        for (const id of h.ids) add(() => number.setBigUint64(0, BigInt(id), true));
        for (const x of [h.score, h.logProbability]) add(() => number.setFloat64(0, x, true));
      }
    }
    found.push(`${language}-en ${kind} ${lines} ${sum.toString(16).padStart(16, "0")}`);
  }
  return found;
}
