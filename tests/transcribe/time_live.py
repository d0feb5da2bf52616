"""Measures live text: how long after the end of a word its stable text is there, word errors beside the whole file, and
CPU time. Needs what make test-whisper puts into build/whisper, and build/live (make build/live). compare.py checks a row.

    python tests/transcribe/time_live.py MODEL [OPTION=VALUE ...]

OPTION is rule (0 AlignAtt, 1 LocalAgreement, 2 both), without_drafts or a number of live_options. The clock is that of
build/live: sound at the speed of speech, and CPU time of the runs. With run=0.055 each run takes 55 ms on that clock, so
the texts do not depend on the machine's load. With clips=more the clips are those of more_clips.py. The text of each
clip is on standard error."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/compare"))
from word_errors import align, words_of  # noqa: E402

BUILD = ROOT / "build" / "whisper"
CLIPS = [BUILD / f"{name}.wav" for name in ("austen", "cards", "jfk", "en")]


def whole(model, clip):
    """The words of the whole file and where they end."""
    path = BUILD / f"{model}.{clip.stem}.words.json"
    if not path.exists():
        path.write_text(subprocess.run([ROOT / "build/transcribe", BUILD / f"{model}.safetensors", clip, "--words", "--beam", "1",
                                        "--format", "json"], capture_output=True, text=True, check=True).stdout)
    found = []
    for line in path.read_text().splitlines():
        for one in json.loads(line)["words"]:
            found += [(word, one["end"]) for word in words_of(one["word"])]
    return found


def measure(model, *options):
    """Hears the clips, and returns the figures by name."""
    more = "clips=more" in options
    clips = sorted((BUILD / "more").glob("*.wav")) if more else [clip for clip in CLIPS if clip.exists()]
    texts = clips[0].with_name("texts.json")
    texts = json.loads(texts.read_text()) if texts.exists() else {}
    delays: list[float] = []
    errors = total = said_live = said_whole = said = runs = steps = tokens = 0
    sound = cpu = 0.0
    for clip in clips:
        expected = whole(model, clip)
        command = [ROOT / "build/live", BUILD / f"{model}.safetensors", clip, *options]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        moments: list[float] = []
        text = ""
        for line in lines[:-1]:
            moment, _, _, stable = line.split("\t")
            text += stable
            moments += [float(moment)] * (len(words_of(text)) - len(moments))
        counts = lines[-1].split()
        sound, cpu, runs = sound + float(counts[1]), cpu + float(counts[3]), runs + int(counts[5])
        steps, tokens = steps + int(counts[7]), tokens + int(counts[9])
        found = words_of(text)
        wrong, pairs = align(found, [word for word, _ in expected])
        print(f"  {clip.stem}: {wrong} of {len(expected)} words other: {text}", file=sys.stderr)
        errors, total = errors + wrong, total + len(expected)
        delays += [moments[i] - expected[j][1] for i, j in pairs]
        if clip.stem in texts:
            reference = words_of(texts[clip.stem])
            said += len(reference)
            said_live += align(found, reference)[0]
            said_whole += align([word for word, _ in expected], reference)[0]
    delays.sort()
    return {"median": 1000 * statistics.median(delays), "late": 1000 * delays[len(delays) * 95 // 100], "other": errors,
            "words": total, "live": said_live, "whole": said_whole, "said": said, "cpu": 100 * cpu / sound, "runs": runs,
            "tokens": tokens / runs, "steps": steps / runs}


def main():
    print("{0} {1}: median {median:.0f} ms, 95 % {late:.0f} ms, {other} of {words} words other than whole; errors live {live}, "
          "whole {whole} of {said}; CPU {cpu:.0f} %, {runs} runs, {tokens:.1f} tokens and {steps:.1f} steps a run".format(
              sys.argv[1], " ".join(sys.argv[2:]), **measure(*sys.argv[1:])))


if __name__ == "__main__":
    main()
