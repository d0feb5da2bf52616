"""make test-spark: runs examples/cluster/spark.py on a real local cluster (a master and two workers, which
are processes of their own) over 20,000 lines in 8 partitions. Some lines are faulty. The test kills a
Python worker and an executor on the way. Every byte must equal the command line's output for the same
lines."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
if not shutil.which("java") and "JAVA_HOME" not in os.environ:
    print("test_spark: 0 passed, 0 failed, 12 skipped (needs Java: apt-get install default-jre-headless)")
    sys.exit()
sys.path[:0] = [str(TOP / "examples" / "cluster"), str(TOP / "build" / "python")]
os.environ["PYTHONPATH"] = str(TOP / "build" / "python")
import pyspark  # noqa: E402

os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable
import spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

MODEL = TOP / "examples/models/de-en.safetensors"
DIR = TOP / "build/spark"
ROWS, PARTITIONS = int(os.environ.get("ROWS", "20000")), 8
CONF = {"spark.executor.memory": "512m", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.heartbeatInterval": "2s"}
passed = failed = 0


def check(what: str, good: bool, told: object = "") -> None:
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"    ok   {what}" if good else f"    FAIL {what}\n      {told}", flush=True)


def some_lines() -> list[bytes]:
    """Returns German sentences, from the shared data if they are there, and faulty values that real tables
    have."""
    shared = next((path for path in (TOP / "../shared", TOP / "../../shared")
                   if (path / "data/de-en/train.tsv").exists()), None)
    if shared:
        rows = (shared / "data/de-en/train.tsv").read_bytes().split(b"\n")
        lines = [row.split(b"\t")[0] for row in rows[:7 * ROWS:7]]
    else:
        words = [["Tom", "Maria", "Der Junge", "Meine Mutter", "Unser Lehrer"],
                 ["sieht", "kauft", "sucht", "findet", "braucht", "verkauft", "liebt", "hat"],
                 ["den Hund", "ein Buch", "das Haus", "eine Katze", "den Schlüssel", "ein Auto"],
                 [f"am {n}. Mai" for n in range(1, 32)], ["nicht", "immer", "wieder"]]
        lines = []
        for n in range(ROWS):
            parts = []
            for one in words:
                n, at = divmod(n, len(one))
                parts.append(one[at])
            lines.append((" ".join(parts) + ".").encode())
    lines[100], lines[ROWS // 3], lines[ROWS - 1] = b"Guten \xff Tag.", b"", b"\xc3"
    lines[ROWS // 2] = b"sehr " * 9000  # more than 4,096 tokens
    return lines


def descendants(word: bytes) -> list[int]:
    """Returns the descendants of this process with that text in their command line, the youngest last."""
    parent, names = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
            names[int(entry)] = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            pass

    def below(pid: int) -> bool:
        while pid in parent and pid != os.getpid():
            pid = parent[pid]
        return pid == os.getpid()

    found = [pid for pid in names if word in names[pid] and below(pid)]
    return sorted(pid for pid in found if word != b"pyspark.daemon" or parent[pid] in found)


def kill_some(context, killed: list[str]) -> None:
    """Kills a Python worker after the first task, and an executor after the third."""
    for word, done in ((b"pyspark.daemon", 1), (b"CoarseGrainedExecutorBackend", 3)):
        while True:
            tracker = context.statusTracker()
            infos = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
            if any(one and one.numTasks == PARTITIONS and one.numCompletedTasks >= done for one in infos):
                break
            if context._jsc is None:
                return
            time.sleep(0.05)
        for pid in descendants(word)[-1:]:
            os.kill(pid, signal.SIGKILL)
            killed.append(f"{word.decode()} {pid}")


def main() -> None:
    DIR.mkdir(parents=True, exist_ok=True)
    lines = some_lines()
    (DIR / "in").write_bytes(b"\n".join(lines) + b"\n")
    with open(DIR / "in", "rb") as source, open(DIR / "out", "wb") as out:
        plain = subprocess.run([TOP / "build/translate", MODEL, "--threads", "2", "--keep-going"], stdin=source,
                               stdout=out, stderr=subprocess.PIPE, check=True)
    expected = (DIR / "out").read_bytes().split(b"\n")[:-1]
    said = {int(n): text.removesuffix(" (--max-source)") for n, text in
            re.findall(r"^translate: line (\d+): (.*)$", plain.stderr.decode(), re.MULTILINE)
            if not text.startswith("stopped at its limit")}

    session = SparkSession.builder.master("local-cluster[2,1,1024]").appName("test-spark").config(map=CONF).getOrCreate()
    context = session.sparkContext
    context.setLogLevel("OFF")
    context.addPyFile(str(TOP / "examples/cluster/spark.py"))

    rows = [(f"key {n:05d}", bytearray(line)) for n, line in enumerate(lines)] + [("key null", None)]
    table = session.createDataFrame(context.parallelize(rows, PARTITIONS), "key string, text binary")
    translated = spark.translated(table, "text", str(MODEL))
    plan = translated._jdf.queryExecution().executedPlan().toString()
    check("one pass for both columns", plan.count("ArrowEvalPython") == 1 and "pythonUDF1" not in plan, plan)
    killed: list[str] = []
    killer = threading.Thread(target=kill_some, args=(context, killed), daemon=True)
    killer.start()
    began = time.time()
    got = {row.key: row for row in translated.collect()}
    print(f"    {len(got)} rows in {time.time() - began:.0f} s; killed: {', '.join(killed)}")
    stages = [context.statusTracker().getStageInfo(one) for job in context.statusTracker().getJobIdsForGroup()
              for one in context.statusTracker().getJobInfo(job).stageIds]
    check("a Python worker and an executor were killed, and tasks failed with them",
          len(killed) == 2 and sum(one.numFailedTasks for one in stages if one) >= 2, (killed, stages))

    check("keys are kept", set(got) == {key for key, _ in rows}, len(got))
    wrong = [n for n, want in enumerate(expected)
             if (got[f"key {n:05d}"].translation or "").encode() != want]
    check(f"{ROWS} lines, the bytes of the command line", not wrong, wrong[:5])
    errors = {n + 1: got[f"key {n:05d}"].error for n in range(ROWS) if got[f"key {n:05d}"].error}
    check("three failed rows: null, and the command line's messages beside them",
          len(errors) == 3 and errors == said and all(got[f"key {n - 1:05d}"].translation is None for n in errors),
          (errors, said))
    check("null stays null, blank is blank", got["key null"][2:] == (None, None) and
          got[f"key {ROWS // 3:05d}"][2:] == ("", None), got["key null"])
    check("texts are as they were", all(bytes(got[f"key {n:05d}"].text) == line for n, line in enumerate(lines)))

    # A worker must load the model once for all its tasks and queries.
    path = str(MODEL)

    def of_worker(_):
        import os
        import spark
        yield os.getpid(), id(spark.loaded(path)), len(spark._models)

    seen = context.parallelize(range(16), 16).mapPartitions(of_worker).collect()
    check("a Python worker has one model, and keeps it", len(seen) == 16 and len(set(seen)) == len({one[0] for one in seen})
          <= 4 and all(one[2] == 1 for one in seen), seen)

    # a packed file that is mapped; strings instead of bytes; options
    few = [(key, bytes(text).decode()) for key, text in rows[200:400]]
    table = session.createDataFrame(few, "key string, text string").repartition(3)
    subprocess.run([TOP / "build/quantize", MODEL, DIR / "packed.safetensors", "int8", "--packed"], check=True,
                   stdout=subprocess.DEVNULL)
    got = {row.key: row.translation for row in
           spark.translated(table, "text", str(DIR / "packed.safetensors"), map=True, beam=2).collect()}
    plain = subprocess.run([TOP / "build/translate", MODEL, "--beam", "2"], input="\n".join(one for _, one in few),
                           text=True, capture_output=True, check=True).stdout.split("\n")
    check("a packed file, mapped, with a beam", [got[key] for key, _ in few] == plain[:-1])

    # the command line as a stage of the pipeline
    texts = [one for _, one in few]
    piped = context.parallelize(texts, 4).pipe(f"{TOP / 'build/translate'} {MODEL} --keep-going", checkCode=True)
    check("rdd.pipe", piped.collect() == [one.decode() for one in expected[200:400]])
    session.stop()

    # the example as a script, which ships the model to the workers
    (DIR / "few.json").write_text("".join(json.dumps({"key": key, "text": text}) + "\n" for key, text in few))
    subprocess.run(["rm", "-rf", DIR / "few.out"], check=True)
    told = subprocess.run([Path(os.environ["SPARK_HOME"]) / "bin/spark-submit", "--master", "local-cluster[2,1,1024]",
                           *(part for one in CONF.items() for part in ("--conf", "=".join(one))), "--files", MODEL,
                           TOP / "examples/cluster/spark.py", MODEL.name, DIR / "few.json", DIR / "few.out", "--column", "text",
                           "--format", "json"], cwd=DIR, capture_output=True, text=True)
    check("spark-submit with --files", told.returncode == 0,
          "\n".join(one for one in told.stderr.splitlines() if " INFO " not in one)[-3000:])
    out = [json.loads(line) for part in (DIR / "few.out").glob("part-*") for line in part.read_text().splitlines()]
    check("  the same", sorted((one["key"], one["text"], one["translation"]) for one in out) ==
          [(key, text, want.decode()) for (key, text), want in zip(few, expected[200:400])], out[:2])
    subprocess.run(["rm", "-rf", Path(os.environ["SPARK_HOME"]) / "work"], check=True)  # the workers' logs


main()
print(f"test_spark: {passed} passed, {failed} failed")
sys.exit(failed > 0)
