"""Counts rare names that are right with and without a list of them, and the other words that are wrong. Needs flite (apt-get
install flite) and what make test-whisper puts into build/whisper.

    python tests/transcribe/own_words.py FOLDER [--model base.int8] [--engines none,words,faster,hotwords] [--second]

FOLDER has the packages that make test-whisper fetches. flite speaks 100 sentences with a name each. Engines:
    none       transcribe without a list
    words      transcribe --words-file with all names
    faster     faster-whisper; hotwords: with all names as its hotwords
--second speaks other sentences with the names, with another voice. --verbose prints the words that are wrong with a list only."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/compare"))
from word_errors import align, words_of  # noqa: E402

BUILD = ROOT / "build" / "whisper"
NAMES = """
    Zelenko Marovic Tandrup Okonjo Belarski Quintana Hadfield Brenthurst Tolliver Wickremasinghe Lindqvist Abernethy Kestrova
    Dunmore Farrukh Grimaldi Hovland Iverson Jablonski Kilbride Lomborg Mandrake Nakamura Oberholt Pellegrin Radcliffe
    Sorenstam Talmadge Umbridge Valdovinos Wexford Yardley Zamfir Ashgrove Birkett Corrigan Delacroix Esterhazy Fennimore
    Garamond Haldane Ingersoll Janssen Kavanagh Langstrom Mulvaney Northcott Orlova Pemberton Quayle Rosmarin Stanislav
    Tremaine Ullmann Vandermeer Whitlock Ximena Yarwood Zubrin Altmire Bosworth Castellan Drummond Elphinstone Fairbairn
    Galbraith Hollander Isolde Jorgensen Kirkpatrick Lavender Montague Nettleton Ormsby Prendergast Quillfeather Rutherford
    Silverbrook Thackeray Underhay Vasquez Winterbourne Yelverton Zoltan Adomako Bellweather Crowhurst Dashwood Emberly
    Frobisher Glendower Hathersage Inverness Kirwan Lockhart Merriweather Osgood Penhaligon Ravenscar Stokely""".split()
FIRST = ["Please send the report to {} before noon on Friday.", "We met {} at the station last night and talked about the plan.",
         "The new office of {} is on the second floor of the building.",
         "I think that {} will give the first talk of the meeting.", "Nobody told {} that the train was late again.",
         "My brother bought the old house from {} two years ago.", "Can you ask {} to bring the keys tomorrow morning?",
         "The letter from {} arrived in the afternoon.", "After the game {} went home without a word.",
         "In the end {} found the answer in a book."]
SECOND = ["There is a phone call from {} for you.", "Last summer {} travelled to the coast with two friends.",
          "The doctor said that {} has to rest for a week.", "Every Monday {} teaches a class at the school.",
          "They gave the prize to {} for a story about the sea."]


def wrong_words(said, heard, name):
    """Returns the words of a sentence that the transcript lacks, with their places. The name does not count."""
    said = words_of(said)
    right = {i for i, _ in align(said, words_of(heard))[1]}
    return {(i, word) for i, word in enumerate(said) if i not in right and word != name}


def engine(name, options, names):
    """Returns a function from the sounds to their texts."""
    if name in ("none", "words"):
        def hear(sounds):
            out = names.parent / name
            out.mkdir(exist_ok=True)
            subprocess.run([options.program, BUILD / f"{options.model}.safetensors", *sounds, "-o", out, "--vad", "0", "--silence", "0",
                            "--language", "en", *(["--words-file", names] if name == "words" else [])], check=True)
            return [(out / f"{one.stem}.txt").read_text() for one in sounds]
        return hear
    sys.path.insert(0, str(options.folder / "packages"))
    from faster_whisper import WhisperModel
    kind, _, type_ = options.model.partition(".int8")
    model = WhisperModel(str(BUILD / kind), device="cpu", cpu_threads=1, compute_type="int8" if ".int8" in options.model else "float32")
    hotwords = ", ".join(NAMES) if name == "hotwords" else None
    return lambda sounds: [" ".join(one.text for one in model.transcribe(str(sound), language="en", hotwords=hotwords)[0])
                           for sound in sounds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="base.int8")
    parser.add_argument("--engines", default="none,words,faster,hotwords")
    parser.add_argument("--second", action="store_true")
    parser.add_argument("--program", default=ROOT / "build" / "transcribe", type=Path, help="another build of transcribe")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder, sounds, said, base = Path(folder), [], [], {}
        for i, name in enumerate(NAMES):
            frames = SECOND if options.second else FIRST
            said.append(frames[i % len(frames)].format(name))
            sounds.append(folder / f"{i:03}.wav")
            voice = "awb" if options.second else ("slt", "rms")[i // 10 % 2]
            subprocess.run(["flite", "-voice", voice, "-t", said[-1], "-o", sounds[-1]], check=True)
        names = folder / "names.txt"
        names.write_text("\n".join(NAMES) + "\n")
        for one in options.engines.split(","):
            texts = engine(one, options, names)(sounds)
            right = sum(name.lower() in words_of(text) for name, text in zip(NAMES, texts))
            wrong = [wrong_words(a, b, name.lower()) for a, b, name in zip(said, texts, NAMES)]
            kind = "faster" if one in ("faster", "hotwords") else "none"
            new = [(a, sorted(w - b, key=str)) for a, w, b in zip(said, wrong, base.get(kind, wrong)) if w - b]
            base.setdefault(one, wrong)
            print(f"{options.model}, {one}: {right} names right; of {sum(len(words_of(a)) - 1 for a in said)} other words "
                  f"{sum(map(len, wrong))} wrong, {sum(len(w) for _, w in new)} of them only with the list", flush=True)
            if options.verbose:
                print(*(f"    {a} {w}" for a, w in new), sep="\n")


if __name__ == "__main__":
    main()
