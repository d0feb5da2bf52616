"""Documents that take all time or memory, on examples/server/server.py: make test-server

The handler of documents is replaced by one that hangs, so that the tests do not depend on faults that are mended."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import urllib.request
from pathlib import Path

import pytest
from load import ROOT, server
from test_files import docx, send  # noqa: F401  (docx: skips without lxml)

SERVER = ROOT / "examples/server"
ATTACKS = ROOT.parent / "shared/cases/attack"
PROCESS = f"""
import os, signal, sys, time
sys.path.insert(0, {str(SERVER)!r})
import document_process
from transformer_h import documents

class Planted(documents.File):
    def __init__(self, data, name, *more, **options):
        kind, kept = name.partition(".")[0], []
        if kind == "deaf":
            for each in (signal.SIGALRM, signal.SIGXCPU):
                signal.signal(each, signal.SIG_IGN)
        while kind == "sleep":
            time.sleep(1000)
        while kind in ("spin", "deaf"):
            pass
        while kind == "grow":
            kept.append(bytearray(1 << 20))
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == "fault":
            raise ZeroDivisionError("planted")
        super().__init__(data, name, *more, **options)

    def join(self, *given):
        while self.name.startswith("late"):
            pass
        return super().join(*given)

documents.File = Planted
document_process.main()
"""
PLANTED = f"""
import sys
sys.path.insert(0, {str(SERVER)!r})
import files
files.PROGRAM = sys.argv.pop(1)
import server
server.main()
"""


@contextlib.contextmanager
def planted(folder, *options, **more):
    (folder / "process.py").write_text(PROCESS)
    (folder / "planted.py").write_text(PLANTED)
    with server(*options, models=(str(folder / "process.py"), f"de:en={ROOT}/examples/models/de-en.safetensors"),
                program=folder / "planted.py", **more) as found:
        yield found


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile has none
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


def runs(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end while it is read
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def gone(pids, seconds=10):
    end = time.monotonic() + seconds
    while any(map(runs, pids)):
        assert time.monotonic() < end, "a process is left"
        time.sleep(0.05)


class Starts(threading.Thread):
    """Starts Python with the modules of a document, as the server does for each. How long this takes says how busy the
    machine is, while something else is measured."""

    def run(self):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import transformer_h.documents"], check=True)
        self.seconds = time.monotonic() - began

    @classmethod
    def during(cls, act):
        """Returns how long act takes, and how long a start takes meanwhile."""
        began, start = time.monotonic(), cls()
        start.start()
        act()
        spent = time.monotonic() - began
        start.join()
        return spent, start.seconds


def in_time(port, seconds=2):
    """Translates a document and a text, each within two seconds. One more second is for the machine of the tests. A busy machine
    may take as long as for three starts of Python."""
    def ask_document():
        assert send(port, "a.txt", b"Guten Tag.")[0] == 200

    def ask_text():
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/translate", b"q=Guten+Tag.&source=de&target=en").status == 200

    for ask in (ask_document, ask_text):
        spent, start = Starts.during(ask)
        assert spent < max(seconds, 3 * start), (spent, start)


def test_documents_that_take_all_time_or_memory(tmp_path, monkeypatch):
    """Each gets a message that names the limit. Others are answered meanwhile, and the places for documents are free again."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with open(tmp_path / "log", "wb") as log, planted(tmp_path, "--file-seconds", 6, "--file-memory", 1200000000, log=log) as (run, port):
        in_time(port, 10)  # the first document reads the files of Python's modules
        for kinds, status, message in (
                (("sleep", "spin", "deaf"), 400, "takes more than 6 seconds (--file-seconds)"), (("late",), 400, "takes more than 6 seconds"),
                (("grow",), 400, "takes more than 400000000 bytes of memory (--file-memory)"), (("crash",), 400, "memory"),
                (("fault",), 500, "the server failed")):
            found, spent = {}, {}

            def ask(kind):
                began = time.monotonic()
                found[kind] = send(port, f"{kind}.txt", b"Guten Tag.")
                spent[kind] = time.monotonic() - began
            threads = [threading.Thread(target=ask, args=(kind,)) for kind in kinds]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            in_time(port)
            for thread in threads:
                thread.join()
            assert max(spent.values()) < 14 or os.getloadavg()[0] > os.cpu_count(), spent  # a busy machine gives them less CPU
            for kind in kinds:
                assert found[kind][0] == status and message in found[kind][1]["error"], found
        gone(children(run.pid))
        for _ in range(5):
            in_time(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            counts = response.read().decode()
        assert 'transformer_documents_stopped_total{limit="seconds"} 4.0' in counts
        assert 'transformer_documents_stopped_total{limit="memory"} 2.0' in counts
    assert "planted" in (tmp_path / "log").read_text()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("usages,refused,status", [
    ([None] * 100, False, 0),  # it has ended, and the busy server has not read all that it wrote
    ([(0.1, True)] * 100, False, None),  # starved: it would compute if it had a CPU
    ([(0.1 * i, False) for i in range(100)], False, None),  # slow: it has some CPU between two looks
    ([(0.1, False)] * 100, True, None),  # it waits for what does not come
    ([(0.1, True), (2.0, True)], True, None),  # it has had its seconds
    ([None], True, None)])  # a system that does not say it
def test_a_process_on_a_busy_machine(monkeypatch, usages, refused, status):
    """The seconds of a document are seconds of CPU. A document is not refused because others keep the CPU."""
    monkeypatch.syspath_prepend(str(SERVER))
    files = pytest.importorskip("files")
    from models import Refused
    given = iter(usages)

    def usage(pid):
        now = next(given)
        return now and files.Usage(*now)

    monkeypatch.setattr(files, "usage", usage)
    monkeypatch.setattr(files, "LOOKS", 0.01)
    options = types.SimpleNamespace(file_seconds=2.0, file_timeout=10)
    stopped = types.SimpleNamespace(documents_stopped=types.SimpleNamespace(labels=lambda _: types.SimpleNamespace(inc=lambda: None)))
    process = files.Process(options, stopped, 1)
    process.run, process.left = types.SimpleNamespace(pid=1, returncode=status), 0.01

    async def answer():
        await asyncio.sleep(0.2)
        return "made"

    if refused:
        with pytest.raises(Refused, match="takes more than 2 seconds"):
            asyncio.run(process.within(answer()))
    else:
        assert asyncio.run(process.within(answer())) == "made"


def test_usage(monkeypatch):
    """What /proc says of a process that computes, and of one that sleeps."""
    monkeypatch.syspath_prepend(str(SERVER))
    files = pytest.importorskip("files")
    if not Path("/proc/self/stat").exists():
        assert files.usage(os.getpid()) is None
        return
    while time.process_time() < 0.05:
        pass
    assert 0.03 < files.usage(os.getpid()).spent <= time.process_time() + 0.1 and files.usage(os.getpid()).is_ready
    with subprocess.Popen(["sleep", "30"]) as sleeps:
        time.sleep(0.2)
        assert not files.usage(sleeps.pid).is_ready
        sleeps.kill()
    assert files.usage(2 ** 30) is None


def test_a_client_that_leaves_ends_the_process(tmp_path):
    with planted(tmp_path, "--file-seconds", 100) as (run, port):
        body = b'--line\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        form = (body % (b"source", b"de") + body % (b"target", b"en") + b'--line\r\nContent-Disposition: form-data; name="file"; '
                b'filename="sleep.txt"\r\n\r\nTag\r\n--line--\r\n')
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=line\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(form), form))
            end = time.monotonic() + 20
            while not (found := children(run.pid)):
                assert time.monotonic() < end
                time.sleep(0.05)
        gone(found)
        in_time(port, 10)


@pytest.mark.parametrize("kind", ["sleep", "spin", "deaf"])
def test_sigterm_ends_the_server(tmp_path, kind):
    """Within the limit of documents, also if one never ends; and a server that is killed leaves no process."""
    with planted(tmp_path, "--file-timeout", 3, "--timeout", 1, "--read-timeout", 1, "--file-seconds", 100) as (run, port):
        threading.Thread(target=attempt, args=(port, f"{kind}.txt"), daemon=True).start()
        wait_for(lambda: children(run.pid))
        found, began = children(run.pid), time.monotonic()
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=20)
        assert time.monotonic() - began < 3 + 1 + 1 + 3
        gone(found)


def attempt(port, name):
    with contextlib.suppress(OSError, ValueError):
        send(port, name, b"Guten Tag.")


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_killed_server_leaves_no_process(tmp_path):
    with planted(tmp_path, "--file-timeout", 2, "--file-seconds", 2) as (run, port):
        threading.Thread(target=attempt, args=(port, "sleep.txt"), daemon=True).start()
        wait_for(lambda: children(run.pid))
        found = children(run.pid)
        run.kill()
        gone(found, 20)


def test_deepls_jobs_end(tmp_path):
    with planted(tmp_path, "--file-seconds", 2) as (run, port):
        body = b'--line\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        form = (body % (b"target_lang", b"EN-US") + b'--line\r\nContent-Disposition: form-data; name="file"; '
                b'filename="spin.txt"\r\n\r\nTag\r\n--line--\r\n')

        def ask(path, data, kind):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": kind, "Authorization": "DeepL-Auth-Key x"})
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        job = ask("/v2/document", form, "multipart/form-data; boundary=line")
        found = {}

        def ended():
            found.update(ask(f"/v2/document/{job['document_id']}", json.dumps({"document_key": job["document_key"]}).encode(), "application/json"))
            return found["status"] not in ("queued", "translating")
        wait_for(ended)
        assert found["status"] == "error" and "takes more than 2 seconds" in found["error_message"]
        gone(children(run.pid))


def test_sigterm_drops_documents_that_nobody_waits_for(tmp_path):
    """Sentences of a document that a DeepL client sent do not keep the server from ending."""
    many = "".join(f"Heute ist der {i}. Tag, an dem es in der Stadt geregnet hat.\n\n" for i in range(20000)).encode()
    with server("--threads", 1, "--queue", 100000) as (run, port):
        body = b'--line\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        form = (body % (b"target_lang", b"EN-US") + b'--line\r\nContent-Disposition: form-data; name="file"; '
                b'filename="a.txt"\r\n\r\n' + many + b"\r\n--line--\r\n")
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v2/document", form, {
                "Content-Type": "multipart/form-data; boundary=line", "Authorization": "DeepL-Auth-Key x"})) as response:
            assert response.status == 200
        wait_for(lambda: b"sentences_waiting 0.0" not in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read())
        found = children(run.pid)
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=20)
        gone(found)


@pytest.mark.skipif(not ATTACKS.is_dir(), reason="the attacks are not here")
def test_attacks():
    with server() as (run, port):
        threads = []
        for name in ("hang.docx", "run.pptx", "run_tabs.docx", "enc40000.epub"):
            data, found = (ATTACKS / name).read_bytes(), {}
            threads.append((name, found, threading.Thread(target=lambda name=name, data=data, found=found: found.update(
                dict(zip(("status", "content"), send(port, name, data)))))))
        for _, _, thread in threads[:3]:
            thread.start()
        in_time(port, 10)
        for _, _, thread in threads[:3]:
            thread.join()
        threads[3][2].start()
        threads[3][2].join()
        for name, found, _ in threads:
            assert found["status"] == 200, (name, found)
        assert threads[0][1]["content"]["notes"] == ["1 sentence divided, because it has no end in sight"]
        gone(children(run.pid))


def test_systems_without_limits(tmp_path):
    """Without the module resource and without alarms, the server's deadline ends the process."""
    (tmp_path / "resource.py").write_text("raise ImportError\n")
    with planted(tmp_path, "--file-seconds", 2) as (run, port):
        (tmp_path / "process.py").write_text("import signal\ndel signal.alarm\n" + PROCESS)
        status, content = send(port, "deaf.txt", b"Tag")
        assert status == 400 and "takes more than 2 seconds" in content["error"]
        gone(children(run.pid))
