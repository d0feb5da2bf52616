"""make test-scale: runs examples/cluster/ray_data.py and examples/cluster/dask_bag.py over 2,000 lines, and
compares every byte and every failed line's message with the command line's."""

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
DIR = TOP / "build/scale"
MODEL = TOP / "examples/models/de-en.safetensors"
ROWS = 2000
passed = failed = 0


def check(what: str, good: bool, told: object = "") -> None:
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"    ok   {what}" if good else f"    FAIL {what}\n      {told}", flush=True)


def run(name: str, *arguments: object) -> None:
    told = subprocess.run([sys.executable, TOP / "examples" / "cluster" / name, *map(str, arguments)], capture_output=True, text=True)
    check(name, told.returncode == 0, told.stderr[-3000:])


def main() -> None:
    import pandas as pd
    subprocess.run(["rm", "-rf", DIR], check=True)
    DIR.mkdir(parents=True)
    lines = [f"{who} {does} {what}." for who in ("Tom", "Maria", "Der Junge", "Meine Mutter", "Das Kind")
             for does in ("sieht", "kauft", "sucht", "hat") for what in ("den Hund", "ein Buch", "das Haus", "eine Katze")
             for what in (f"{what} am {n}. Mai" for n in range(1, 26))]
    lines[77], lines[1500] = "", "sehr " * 9000
    plain = subprocess.run([TOP / "build/translate", MODEL, "--keep-going"], input="\n".join(lines) + "\n", text=True,
                           capture_output=True, check=True).stdout.split("\n")[:-1]
    error = "text has 9001 tokens, there is room for 4096"

    pd.DataFrame({"key": range(ROWS), "text": lines}).to_parquet(DIR / "in.parquet", row_group_size=300)
    run("ray_data.py", MODEL, DIR / "in.parquet", DIR / "ray", "text")
    table = pd.read_parquet(DIR / "ray").sort_values("key")
    check("  keys and texts are kept", list(table.key) == list(range(ROWS)) and list(table.text) == lines)
    check("  the bytes of the command line", [one if isinstance(one, str) else "" for one in table.translation] == plain)
    check("  one failed row", [(row.key, row.error) for row in table.itertuples() if isinstance(row.error, str)] ==
          [(1500, error)] and not isinstance(table.translation.iloc[1500], str))

    for part in range(4):
        (DIR / f"in-{part}.txt").write_text("".join(one + "\n" for one in lines[part * 500:(part + 1) * 500]))
    run("dask_bag.py", MODEL, DIR / "in-*.txt", DIR / "out-*.tsv")
    written = [(DIR / f"out-{part}.tsv").read_text() for part in range(4)]
    check("  each file has 500 whole lines", [(one.count("\n"), one[-1:]) for one in written] == [(500, "\n")] * 4)
    out = [line.split("\t") for one in written for line in one.split("\n") if "\t" in line]
    check("  the bytes of the command line", [one for one, _ in out] == plain, len(out))
    check("  one failed row", [(at, one) for at, (_, one) in enumerate(out) if one] == [(1500, error)])


if __name__ == "__main__":  # Dask's processes import this file
    main()
    print(f"test_scale: {passed} passed, {failed} failed")
    sys.exit(failed > 0)
