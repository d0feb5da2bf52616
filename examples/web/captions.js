// Captions in two languages: what somebody says, and its translation beneath, from the messages of the server's /listen.
// Words that may still change are grey. Words that are not are never taken back, and do not move.

export class Captions {
  /** element gets the captions. languages are the codes of speech and translation. done(said, translation) is called with each text
      that has ended. */
  constructor(element, languages, done) {
    Object.assign(this, { languages, done });
    // A box for each language, because a longer line of speech would otherwise move the translation beneath.
    this.boxes = languages.map((lang) => Object.assign(document.createElement("div"), { lang, tabIndex: 0 }));
    element.replaceChildren(...this.boxes);
    this.begin("");
  }

  /** Begins the next caption. said: stable words of it that have come. sure: how many of their characters are known to be in this
      caption, because a sentence may end in stable words. Without a translation, all are in the same one. */
  begin(said) {
    Object.assign(this, { said, sure: 0, heard: "", stable: "", guess: "" });
    this.pair = this.boxes.map((box) => {
      const paragraph = Object.assign(document.createElement("p"), { dir: "auto" });
      paragraph.append("", Object.assign(document.createElement("span"), { className: "guess", ariaHidden: true })); // is not read aloud
      box.append(paragraph);
      return paragraph;
    });
    this.show();
  }

  /** Shows a message: words that were heard, or a translation of all words of the caption. */
  take({ target, text, stable, source, stable_text, done }) {
    if (target === undefined) {
      if (stable) this.said = (this.said + text).trimStart(), this.heard = "";
      else this.heard = this.said ? text : text.trimStart();
      if (this.pair.length < 2) this.sure = this.said.length;
      return this.show();
    }
    [this.stable, this.guess] = [stable_text, text.slice(stable_text.length)];
    this.sure = this.heard ? this.said.length : Math.min(this.said.length, source.length); // behind stable words, source has no guess
    if (!done) return this.show();
    const rest = this.said.slice(source.length);
    [this.said, this.heard] = [source, ""];
    this.show();
    if (source.trim()) this.done(source.trim(), text.trim());
    this.begin(rest.trimStart());
  }

  /** Ends the last caption, if the server has not done so. */
  end() {
    if (this.said.trim()) this.done(this.said.trim());
    this.said = this.heard = "";
  }

  show() {
    const speech = [this.said.slice(0, this.sure), this.said.slice(this.sure) + this.heard];
    [speech, [this.stable, this.guess]].forEach(([stable, guess], i) => {
      const paragraph = this.pair[i];
      if (!paragraph) return;
      const box = this.boxes[i], isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 60;
      const [words, rest] = paragraph.childNodes;
      if (words.data !== stable) words.data = stable;
      if (rest.textContent !== guess) rest.textContent = guess;
      paragraph.style.minHeight = `${paragraph.offsetHeight}px`; // so a guess that becomes shorter does not scroll the words back
      if (isAtEnd) box.scrollTop = box.scrollHeight; // a reader who has scrolled up stays there
    });
  }
}
