#!/usr/bin/env python3
"""Puts load on examples/server/server.py, and compares it with build/translate on the same sentences and
options: make load-server

    PYTHONPATH=build/python python tests/examples/server/load.py [--seconds 60] [--clients 64] [--lines FILE]
    PYTHONPATH=build/python python tests/examples/server/load.py --mixed 200 [--seconds 60] [--threads 1]

There is one run with requests of 1 sentence and one with requests of 32. Each client sends its next request
as soon as the last is answered. The clients work in rounds, and after each round translate does the same
work. Each response must equal translate's output byte for byte. The script prints the CPU time (user and
system) per sentence of both, and how long requests took. The exit status is 1 if a request is lost or its
response differs, or if the server needs over 1.25 times translate's CPU time with 32 sentences.

With --mixed, that many clients are there at once, a third of each kind: one translates documents, one sends sentence after sentence,
and one speaks, which the model of tests/data/transcribe hears at the speed of speech. The script prints how long the clients
of each kind waited: for a document, for a sentence, or from the end of the sound to the end of its text. The exit status is 1 if
an answer is refused or differs, or if a client got none, or waited over five times as long as the middle one of its kind.
--hostile adds one client that sends a book, a text without a letter, and requests whose answers it does not read.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import socket
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GERMAN = ROOT / "examples/models/de-en.safetensors"
TRANSLATE = ROOT / "build/translate"


@contextlib.contextmanager
def server(*options, models=(f"de:en={GERMAN}",), port=None, log=None, stdout=subprocess.DEVNULL,
           program=ROOT / "examples/server/server.py"):
    """Starts a server on a free port. Returns its process and port. log: the file for its messages."""
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    run = subprocess.Popen([sys.executable, program, *models, "--port", str(port),
                            *map(str, options)], stdout=stdout, stderr=log)
    try:
        while True:
            assert run.poll() is None, "the server does not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.05)
        yield run, port
    finally:
        if run.poll() is None:
            run.kill()
        run.wait()


def translated(lines, *options, model=GERMAN):
    """Returns the output of translate --document, which is what the server gives."""
    done = subprocess.run([TRANSLATE, model, "--document", *map(str, options)], check=True,
                          input="".join(f"{line}\n" for line in lines).encode(), stdout=subprocess.PIPE)
    return done.stdout.decode().split("\n")[:-1]


def made_up(n):
    """Returns sentences of mixed lengths, made of adjacent words of the demo's sentences."""
    rng = random.Random(5)
    lines = (ROOT / "examples/translate/demo-de.txt").read_text(encoding="utf-8").split("\n")[:-1]
    after = {}
    for line in lines:
        words = ["", *line.split()]
        for a, b in zip(words, words[1:]):
            after.setdefault(a, []).append(b)
    made = []
    for _ in range(n):
        words = [rng.choice(after[""])]
        while len(words) < 40 and not (words[-1][-1] in ".!?" and rng.random() < 0.8):
            words.append(rng.choice(after.get(words[-1]) or rng.choice(list(after.values()))))
        made.append(" ".join(words))
    return made


def server_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def client(port, requests, until, log):
    """Sends requests one after another, and puts (texts, translations, seconds) into the log."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        texts = next(requests)
        body = json.dumps({"q": texts, "source": "de", "target": "en"}, ensure_ascii=False).encode()
        began = time.perf_counter()
        writer.write(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length:")[1].split()[0])
        answer = json.loads(await reader.readexactly(size))
        log.append((texts, answer.get("translatedText") if " 200 " in head[:16] else answer,
                    time.perf_counter() - began))
    writer.close()


async def load(port, requests, seconds, clients):
    log, until = [], time.perf_counter() + seconds
    await asyncio.gather(*(client(port, requests, until, log) for _ in range(clients)))
    return log


def measure(options, lines, sentences):
    def endless():
        rng = random.Random(sentences)
        while True:
            yield rng.choices(lines, k=sentences)
    requests, times, n, wrong, spent = endless(), [], 0, 0, [0.0, 0.0]
    # A request has one text or a list of several.
    with server("--threads", options.threads, "--timeout", 600) as (run, port):
        # The first requests make the server's sessions.
        asyncio.run(load(port, requests, 1, options.clients))
        for _ in range(options.rounds):
            before = server_seconds(run.pid)
            log = asyncio.run(load(port, requests, options.seconds / options.rounds, options.clients))
            spent[0] += server_seconds(run.pid) - before
            asked = [text for texts, _, _ in log for text in texts]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            expected = iter(translated(asked, "--threads", options.threads))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[1] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            wrong += sum(found != [next(expected) for _ in texts] for texts, found, _ in log)
            n += len(asked)
            times += [seconds for _, _, seconds in log]
    times.sort()
    ratio = spent[0] / spent[1]
    print(f"{options.clients} clients, {sentences} sentences a request: {len(times)} requests in {options.seconds} s, "
          f"{wrong} lost or wrong; median {1e3 * times[len(times) // 2]:.0f} ms, "
          f"p95 {1e3 * times[len(times) * 95 // 100]:.0f} ms; CPU time a sentence {1e3 * spent[0] / n:.3f} ms, "
          f"translate {1e3 * spent[1] / n:.3f} ms, ratio {ratio:.3f}", flush=True)
    return wrong == 0 and (sentences < 32 or ratio <= 1.25)


# ---- clients of several kinds ---------------------------------------------------------------------


WHISPER = ROOT / "tests/data/transcribe/whisper.safetensors"
SENTENCES = 20  # of a document


async def asked(connection, path, body=None, kind="application/json"):
    """Returns the status and the body of an answer."""
    reader, writer = connection
    writer.write(f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
                 f"Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    return int(head[9:12]), await reader.readexactly(int(head.split("content-length:")[1].split()[0]))


async def sends_sentences(port, rng, known):
    connection = await asyncio.open_connection("127.0.0.1", port)
    while True:
        line = rng.choice(list(known))
        began = time.perf_counter()
        status, data = await asked(connection, "/translate", json.dumps({"q": line, "source": "de", "target": "en"}).encode())
        yield time.perf_counter() - began, status == 200 and json.loads(data)["translatedText"] == known[line]


async def sends_documents(port, rng, known):
    connection = await asyncio.open_connection("127.0.0.1", port)
    while True:
        lines = rng.choices(list(known), k=SENTENCES)
        parts = {'name="source"': "de", 'name="target"': "en", 'name="file"; filename="a.txt"': "\n\n".join(lines)}
        body = "".join(f"--line\r\nContent-Disposition: form-data; {key}\r\n\r\n{value}\r\n" for key, value in parts.items())
        began = time.perf_counter()
        status, data = await asked(connection, "/translate_file", f"{body}--line--\r\n".encode(), "multipart/form-data; boundary=line")
        spent, good = time.perf_counter() - began, False
        if status == 200:
            path = json.loads(data)["translatedFileUrl"].split("/", 3)[3]
            good = (await asked(connection, f"/{path}"))[1].decode() == "\n\n".join(known[line] for line in lines)
        yield spent, good


async def speaks(port, rng, known):
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed
    with wave.open(str(ROOT / "tests/data/transcribe/noise.wav")) as file:
        sound = file.readframes(file.getnframes())
    expected = None
    while True:
        found, at = [], 0
        async with connect(f"ws://127.0.0.1:{port}/listen?format=s16le&rate=16000", open_timeout=60) as one:
            async def read():
                with contextlib.suppress(ConnectionClosed):
                    async for line in one:
                        found.append(line)
            reading = asyncio.ensure_future(read())
            for at in range(0, len(sound), 16000):
                await one.send(sound[at:at + 16000])
                await asyncio.sleep(0.5)  # so long is the piece
            began = time.perf_counter()
            await one.send(b"")
            await reading
            stable = [line for line in found if '"stable": true' in line]
            expected = expected or stable
            yield time.perf_counter() - began, one.close_code == 1000 and stable == expected


async def attacks(port, rng, known):
    """One client that sends what is dear: a book, a text without a letter, and requests without reading the answers."""
    connection = await asyncio.open_connection("127.0.0.1", port)
    line, marks = next(iter(known)), "1! " * 16000
    while True:
        book = "\n\n".join(f"{i} {line}" for i in range(4000))
        body = "".join(f"--line\r\nContent-Disposition: form-data; {key}\r\n\r\n{value}\r\n" for key, value in (
            ('name="source"', "de"), ('name="target"', "en"), ('name="file"; filename="a.txt"', book)))
        began = time.perf_counter()
        good = (await asked(connection, "/translate_file", f"{body}--line--\r\n".encode(), "multipart/form-data; boundary=line"))[0] == 200
        good &= (await asked(connection, "/translate", json.dumps({"q": marks, "source": "de", "target": "en"}).encode()))[0] == 200
        piled = []
        for _ in range(10):
            with contextlib.suppress(OSError):
                piled.append(await asyncio.open_connection("127.0.0.1", port))
                piled[-1][1].write(b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        await asyncio.sleep(2)
        for _, writer in piled:
            writer.transport.abort()
        yield time.perf_counter() - began, good


KINDS = {"documents": sends_documents, "sentences": sends_sentences, "speech": speaks}


async def mixed(port, clients, seconds, known, hostile=False):
    """Returns for each kind a list of the (seconds, whether the answer is right) of each client."""
    kinds = {**KINDS, "hostile": attacks} if hostile else KINDS
    found = {kind: [[] for _ in range(1 if kind == "hostile" else clients // len(KINDS))] for kind in kinds}

    async def run(kind, i):
        async for one in kinds[kind](port, random.Random(f"{kind}{i}"), known):
            found[kind][i].append(one)

    tasks = [asyncio.ensure_future(run(kind, i)) for kind in found for i in range(len(found[kind]))]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for each in tasks:
        each.cancel()
    for each in done:
        each.result()
    await asyncio.wait(tasks)
    return found


class Memory(threading.Thread):
    """Looks every half second how much memory a process has."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen, self.over = pid, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.5):
            status = Path(f"/proc/{self.pid}/status").read_text()
            self.seen.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)

    def end(self):
        self.over.set()
        self.join()
        n = max(len(self.seen) // 10, 1)
        return " ".join(str(max(self.seen[i:i + n])) for i in range(0, len(self.seen), n))


def measure_mixed(options, lines):
    lines = [line for line in dict.fromkeys(lines) if line][:2000]
    known, clients = dict(zip(lines, translated(lines, "--threads", options.threads))), options.mixed
    with server("--threads", options.threads, "--timeout", 600, "--file-timeout", 600, "--speech", WHISPER, "--listeners", clients,
                "--read-timeout", 60) as (run, port):
        before, watch = server_seconds(run.pid), Memory(run.pid)
        found = asyncio.run(mixed(port, clients, options.seconds, known, options.hostile))
        spent, memory = server_seconds(run.pid) - before, watch.end()
    good = True
    print(f"{clients} clients, {options.seconds} s, {spent:.1f} s of CPU time; the server's MB in each tenth of the time, at most: {memory}\n"
          f"| kind | clients | answers | wrong | fewest of a client | median s | p95 s | slowest s | a client's mean: least, middle, most |")
    for kind, each in found.items():
        times = sorted(seconds for one in each for seconds, _ in one)
        wrong = sum(not right for one in each for _, right in one)
        means = sorted(sum(seconds for seconds, _ in one) / len(one) for one in each if one)
        fewest = min(map(len, each))
        good &= not wrong and fewest > 0 and means[-1] < 5 * max(means[len(means) // 2], 0.2)
        if times:
            print(f"| {kind} | {len(each)} | {len(times)} | {wrong} | {fewest} | {times[len(times) // 2]:.2f} | "
                  f"{times[len(times) * 95 // 100]:.2f} | {times[-1]:.2f} | {means[0]:.2f} {means[len(means) // 2]:.2f} {means[-1]:.2f} |", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description="load on examples/server/server.py")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sentences", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--lines", help="German sentences; without: words of the demo")
    parser.add_argument("--mixed", type=int, metavar="N", help="N clients of several kinds at once")
    parser.add_argument("--hostile", action="store_true", help="with --mixed: one client more, which sends what is dear")
    options = parser.parse_args()
    lines = made_up(4000)
    if options.lines:
        lines = [line.split("\t")[0].strip() for line in open(options.lines, encoding="utf-8") if line.strip()]
    if options.mixed:
        sys.exit(not measure_mixed(options, lines))
    good = [measure(options, lines, n) for n in options.sentences]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
