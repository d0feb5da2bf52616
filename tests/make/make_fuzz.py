"""Writes the first inputs of the fuzz targets that read more than one thing: tests/fuzz/corpus/NAME.

    python3 tests/make/make_fuzz.py [tests/fuzz/corpus]

fuzz_whisper.h says what the bytes of whisper mean, which transcribe reads too, and each target's first lines what its own mean."""

import sys
from pathlib import Path

TEXTS = 36  # of fuzz_whisper.h; the end token follows, and then the times
END = TEXTS


def at(seconds):
    return TEXTS + 1 + round(seconds * 50)


def whisper(flags, seed, tokens, changes=(), sound=(0, 12, 1, 2, 200, 7)):
    flat = [number for change in changes for number in change]
    return bytes([flags, seed, len(tokens), *tokens, len(changes), *flat, *sound])


HELLO = [at(0), 0, 4, 2, at(0.5), at(0.5), 8, 4, 11, at(0.9), END]
WHISPER = {
    "plain": whisper(8 | 64, 1, HELLO),
    "words": whisper(4 | 8 | 64, 1, HELLO),
    "words_of_heads": whisper(8 | 64, 3, HELLO),
    "languages": whisper(1 | 8, 1, HELLO, [(3, 1, 0)]),
    "language_code": whisper(1 | 8 | 64, 1, HELLO, [(3, 4, 0)]),
    "clean_up": whisper(2 | 8 | 64, 1, [at(0), *[30, 2] * 40, 34, 3, 3, 6, 7, at(0.8), END]),
    "characters": whisper(8 | 64, 1, [at(0), 5, 6, 7, 25, 26, 27, 5, 34, 33, at(0.8), END]),
    "controls": whisper(64, 0, [at(0), 19, 20, 21, 22, 23, 24, 29, at(0.8), END]),
    "arrows": whisper(64, 0, [at(0), 28, 16, 28, 17, 18, at(0.8), at(0.8), 32, 12, at(0.9), END]),
    "long": whisper(8 | 64, 1, [at(0), *[35] * 90, at(0.8), END]),
    "no_times": whisper(16 | 64, 0, [0, 4, 2, 0, 4, 2, END]),
    "short": whisper(8 | 64, 1, [at(0), at(0.02), at(0.02), 0, at(0.04), END]),
    "beam": whisper(32 | 64, 2, HELLO),
    "fallback": whisper(1, 2, HELLO),
    "prompt": whisper(128 | 1, 2, HELLO),
    "rate": whisper(8 | 64, 1, HELLO, (), (7, 9, 3, 77)),
    "no_end": whisper(8 | 64, 0, [at(0), 0, 4, at(0.2)], (), (0, 255, 9, 1)),
    "shapes": whisper(8, 0, HELLO, [(4, 3, 7), (5, 9, 1), (7, 5, 1)]),
    "special": whisper(8, 0, HELLO, [(0, 1, 0), (0, 10, 255), (0, 15, 2)]),
}
# The bytes before the file are of tests/fuzz/live.c: pieces and settings, rule and history, two options, their values.
RULES = 8 + 2  # both rules, no history
LIVE = {
    "plain": bytes([8 | 3, RULES, 0x11, 0x88]) + whisper(8, 1, [9, 0, 4, 0, 2, END, END]),
    "languages": bytes([8 | 2, RULES, 0x22, 0x88]) + whisper(1 | 8, 1, [9, 4, END, END]),
    "history": bytes([8 | 3, 0x80 | 1, 0x11, 0x88]) + whisper(8, 1, [0, 4, 2] * 20 + [END], (), (0, 255, 9, 1, 200, 7)),
    "loop": bytes([3, RULES, 0x11, 0x88]) + whisper(8, 1, [4], (), (0, 255, 9, 1, 200, 7)),
    "full": bytes([2, RULES, 0x99, 0xD8]) + whisper(8, 1, [4], (), (0, 255, 9, 1, 200, 7)),
    "step": bytes([8 | 1, RULES, 0x00, 0x55]) + whisper(8, 1, [9, 0, 4, END], (), (0, 255, 9, 1, 200, 7)),
    "detector": bytes([8 | 3, 8, 0x22, 0x77]) + whisper(8, 1 | 128, [9, 0, 4, END]),
    "words": bytes([8 | 16 | 32 | 3, RULES, 0x11, 0x88]) + whisper(1 | 8, 1, [9, 0, 4, END]),
}
CUES = {
    "arrow": b"\1a --> b\0\2---> x\0\3--->",
    "times": b"\00000:00:01,000 --> 00:00:02,000\n\n7\n00:00:01,000 --> 00:00:02,000\nagain",
    "markup": b"\2<b>AT&T</b> {\\an8}\\N &lt; &amp;",
    "controls": b"\3\x1b[31m\x7f\xc2\x9b\xe2\x80\xa8\r\n\x85",
    "stamps": b"\x011:2:3,4 5:6:7.8 9:10:11,12",
    "blank": b"\2 \t\n\0\3\0\1",
}
TERMS = {
    "plain": b"\2\5dog\tHund\n!A\tB\n# x\n\0The dog saw A. Dr. Who! \"Yes?\" he said.",
    "protected": b"\0\11a\tb\n\0See https://example.org/a?b=c or x@y.org, 12 kg `code` \xf0\x9f\x98\x80. NEXT ONE.",
    "capitals": b"\1\2big dog\tgro\xc3\x9fer Hund\n\0THE BIG DOG AND A BIG DOG. \xc3\x84RGER!",
    "unspaced": b"\3\7\xe5\xad\xa6\xe7\x94\x9f\tstudent\n\0\xe6\x88\x91\xe6\x98\xaf\xe5\xad\xa6\xe7\x94\x9f\xe3\x80\x82\xe5\xa5\xbd\xef\xbc\x81",
    "faulty": b"\2\2a\tb\na\tc\n\0a",
}
OPTIONS = {
    "plain": b"in\0-n5\0--share=0.5\0--flag=more\0a\0b\0--\0-x",
    "help": b"-h",
    "near": b"--cuont\x003\0",
    "values": b"--seed\x0018446744073709551615\0-p\0x\0--count\x00101\0",
    "control": b"--\x1b[31m\xc2\x9b=\0",
}


def main(folder):
    for name, inputs in (("whisper", WHISPER), ("live", LIVE), ("cues", CUES), ("terms", TERMS), ("options", OPTIONS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for title, data in inputs.items():
            (folder / name / title).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fuzz/corpus"))
