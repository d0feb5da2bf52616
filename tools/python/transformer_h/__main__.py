"""Translates a document: python -m transformer_h MODEL FILE [-o OUT]"""

import sys
from pathlib import Path

from . import Counts, Error, Model
from .commands import Parser, Progress, run
from .documents import FORMATS, SUFFIXES, Interrupted, translate


def main() -> int:
    parser = Parser(prog="python -m transformer_h", description="Translates a document. Formats, pictures "
                                     "and all that is not text stay as they are.")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a model file; of two, the second translates what the "
                        "first has translated")
    parser.add_argument("file", metavar="FILE", help="a document: " + " ".join(SUFFIXES))
    parser.add_argument("-o", "--output", metavar="OUT", help="the translated document (default: FILE with .translated "
                        "before its suffix)")
    parser.add_argument("--format", choices=FORMATS, metavar="FORMAT", help="what FILE is, if its name and first bytes do not say it: "
                        + " ".join(FORMATS))
    parser.add_argument("--source-language", metavar="CODE", help="for models that translate from several languages")
    parser.add_argument("--target-language", metavar="CODE", help="for models that translate into several languages")
    parser.add_argument("--lang", metavar="CODE", help="the language that the translated document says it is in, such as en or "
                        "en-GB (default: that of --target-language)")
    parser.add_argument("--terms", metavar="FILE", help="the translation uses the terms of FILE, as translate --terms")
    parser.add_argument("--beam", type=int, metavar="N", help="keep N hypotheses at each step (default: the model's)")
    parser.add_argument("--sentences", choices=("split", "whole"), help="split paragraphs into sentences, or translate each "
                        "as one text (default: split, unless the model file says that the model reads whole texts)")
    parser.add_argument("--plain", action="store_true", help="give each sentence to the model as it is: without this option, labels, "
                        "brackets and the like stay around it, if the model file says that the model reads sentences")
    parser.add_argument("--no-protect", dest="protect", action="store_false", help="do not copy addresses, numbers with units and code")
    parser.add_argument("--all-languages", action="store_true", help="translate also sentences that are already in the language of the "
                        "translation")
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads (default: the cores)")
    given = vars(parser.parse_args())
    models, file, out = given.pop("models"), given.pop("file"), given.pop("output")
    progress, counts = Progress(), Counts()

    def say(text: str) -> None:
        progress.clear()
        print(f"transformer_h: {file}: {text}", file=sys.stderr)

    try:
        with progress.stage("loading"):
            loaded = [Model(each) for each in models]
        with progress.stage(f"translating {file}", unit="characters") as stage:
            left = translate(
                loaded, file, out or Path(file).with_suffix(".translated" + Path(file).suffix),
                taken=lambda what: say(f"taken as {what}"),
                counted=lambda n: say(f"units translated: {n['translated']}, left alone: {n['left']}, without a translation "
                                      f"that can be used: {n['failed']}"),
                reached=stage.reach, counts=counts, **{name: value for name, value in given.items() if value is not None})
    except (Error, ImportError, OSError, TypeError, ValueError) as e:
        print(f"transformer_h: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as e:
        print("transformer_h: interrupted" + (f": {e}, and the rest is as it was" if isinstance(e, Interrupted) else ""), file=sys.stderr)
        return 130
    if str(counts):
        say(str(counts))
    for what in left:
        say(f"left as it is: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(run("transformer_h", main))
