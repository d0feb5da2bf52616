// Translates the sentence in which somebody types, so that its translation does not move above the place of the edit: the words up
// to this place are a text that comes (Translator.live), whose stable translation stays, and the rest is translated behind it.

const WIDE = "\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef"; // scripts without spaces
const WORDS = new RegExp(`^.*[\\s${WIDE}]`, "su");
const MOST_SERVED = 1000; // characters of a line that the server reads as a text that comes

/** Returns the beginning that two texts have in common, up to the end of a word. */
function inCommon(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  if (n === a.length && (n === b.length || /\W/.test(b[n]))) return a;
  return WORDS.exec(a.slice(0, n))?.[0].trimEnd() ?? "";
}

/** Returns whether the model read all of a text, so that the translation has nothing that stands around the sentence. */
function isWhole({ source, sourcePieces }) {
  return sourcePieces.length > 0 && !source.slice(0, sourcePieces[0].begin).trim() && !source.slice(sourcePieces.at(-1).end).trim();
}

export class Typing {
  begin; // where the sentence begins in the text
  #model;
  #live; // a promise of the Live that reads the sentence up to the edit, or undefined
  #read; // what #live has got
  #reading; // a promise that this is read
  #stable; // its stable translation
  #fixed; // what stays of the translation that was shown when the edit began; undefined: it began with #stable, so #stable stays

  /** Forgets the sentence. */
  close() {
    this.#live?.then((live) => live.close(), () => undefined);
    this.#live = undefined;
  }

  /** Translates a sentence { text, begin } at whose character `caret` somebody has typed. shown: the translation that the sentence
      had before. Returns the translation, whose first `stable` characters do not change while somebody types on. */
  async translate(model, sentence, caret, shown, how) {
    const isAnother = model !== this.#model || sentence.begin !== this.begin;
    [this.#model, this.begin] = [model, sentence.begin];
    if (!model.translate) return byServer(model, sentence, shown, how);
    if (isAnother) this.close();
    try {
      return await this.#here(model, sentence.text, caret, shown, how);
    } catch {
      how.signal.throwIfAborted();
      this.close(); // what cannot be read as a text that comes is translated as a whole, or has its own error
      return (await model.translateAll([sentence.text], how))[0];
    }
  }

  async #here(model, text, caret, shown, how) {
    const before = WORDS.exec(text.slice(0, caret) + (caret > text.length ? " " : ""))?.[0] ?? "";
    if (!this.#live || !before.startsWith(this.#read)) {
      this.close();
      [this.#read, this.#stable, this.#fixed] = ["", "", null];
      this.#live = model.live({ source: how.source, target: how.target });
      this.#live.catch(() => undefined); // #feed fails, too
      this.#reading = Promise.resolve();
    }
    await this.#feed(before.slice(this.#read.length));
    const old = shown?.text ?? "";
    if (this.#fixed === null) this.#fixed = !old || old.startsWith(this.#stable) ? undefined : inCommon(this.#stable, old);
    const fixed = this.#fixed ?? this.#stable;
    const whole = await model.translate(text, { ...how, draft: shown?.ids });
    if (!isWhole(whole)) return { ...whole, stable: 0 };
    if (whole.text.startsWith(fixed)) return { ...whole, stable: fixed.length };
    const behind = await model.translate(text, { ...how, prefix: fixed, draft: whole.ids });
    return { ...behind, plain: true, stable: fixed.length };
  }

  #feed(words) {
    if (words) {
      const live = this.#live;
      this.#read += words;
      this.#reading = this.#reading.then(async () => {
        const lines = await (await live).feed(words);
        if (live === this.#live) this.#stable = lines.at(-1)?.stable_text ?? this.#stable;
      });
    }
    return this.#reading;
  }
}

/** Translates a line by the server's /live. A line that was translated as a whole before is so again, and so is one that /live does
    not take. */
async function byServer(server, { text }, shown, how) {
  if (text.length <= MOST_SERVED && (!shown || shown.stable !== undefined)) {
    const line = await liveLine(server, text, how).catch(() => undefined);
    how.signal.throwIfAborted();
    if (line) return line;
  }
  return (await server.translateAll([text], how))[0];
}

function liveLine(server, text, { source, target, signal }) {
  return new Promise((resolve, reject) => {
    let stable = 0, last;
    const show = (line) => {
      if (!line.done) stable = line.stable_text.length;
      last = line;
    };
    const live = server.live({ source, target }, show, (error) =>
      (error || !last?.done ? reject(error) : resolve({ source: text, text: last.text, stable })));
    signal.addEventListener("abort", () => (live.close(), reject(signal.reason)), { once: true });
    live.feed(text);
    live.finish();
  });
}
