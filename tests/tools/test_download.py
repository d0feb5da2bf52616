#!/usr/bin/env python3
"""Tests transformer-model and what tools/convert.py downloads: python tests/tools/test_download.py, after make

A server on this machine speaks as Mozilla's and Argos's servers do. Its models are small random students.
Where fxtranslate is installed, Mozilla's own client reads the same records and files, and must choose the
same. Nothing here opens a connection to another machine. Needs what tools/requirements-oracles.txt lists.
"""

import contextlib
import hashlib
import http.server
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path
from unittest import mock

import sentencepiece
import zstandard

import seeds
import test_convert
from marian_student import Student
from test_convert import ROOT, TRANSLATE
from test_marian import LINES, learn_pieces
from convert import download, main as converter, published, releases
from convert.untrusted import ConvertError, read_safetensors

try:
    import fxtranslate
except ImportError:
    fxtranslate = None

COLLECTION = "/v1/buckets/main/collections/translations-models-v2/records"


class Server(http.server.ThreadingHTTPServer):
    """Serves files by their path. faults maps a path to a function that answers in its place, if it
    returns true."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.log, self.ranges = {}, {}, [], True
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def requests(self, word):
        return [one for one in self.log if word in one[0]]

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, address):
        pass  # a client that was interrupted


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path = re.sub(r"^http://[^/]*", "", self.path).split("?")[0]  # a proxy gets whole addresses
        self.server.log.append((self.path, self.headers.get("Range")))
        fault = self.server.faults.get(path)
        if fault and fault(self):
            return
        self.answer(self.server.files.get(path))

    def answer(self, body, cut=None):
        """Sends the range that was asked for; of it only the first bytes if cut says how many."""
        span = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "") if self.server.ranges else None
        first = int(span[1]) if span else 0
        if body is None or first >= len(body) > 0:
            return self.send_error(404 if body is None else 416)
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        self.wfile.write(body[first:][:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


def record(pair, kind, data, version="3.0", architecture="tiny", **fields):
    """Returns the record of a file, and what its attachment holds."""
    packed = zstandard.ZstdCompressor().compress(data)
    name = f"{kind}.{pair[0]}{pair[1]}.{'spm' if 'vocab' in kind else 'bin'}"
    location = f"main-workspace/translations-models-v2/{version}-{architecture}-{name}.zst"
    one = {"id": name, "name": name, "fileType": kind, "sourceLanguage": pair[0], "targetLanguage": pair[1],
           "version": version, "architecture": architecture, "decompressedSize": len(data),
           "decompressedHash": hashlib.sha256(data).hexdigest(), "filter_expression": "", "schema": 1, "last_modified": 1,
           "attachment": {"hash": hashlib.sha256(packed).hexdigest(), "size": len(packed), "filename": name + ".zst",
                          "location": location, "mimetype": "application/zstd"}}
    return {**one, **fields}, packed


def here(arguments):
    """Returns the arguments of the command, which writes models into the folder at hand unless they name another."""
    return [*map(str, arguments), *(("-o", ".") if arguments[0] == "get" and "-o" not in arguments else ())]


class DownloadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pieces = learn_pieces(300)
        cls.other_pieces = learn_pieces(260)
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        folder = Path(home.name)
        cls.students, cls.first = {}, None
        for seed in range(1, 5):
            student = Student(cls.size(cls.pieces), 64, seed, never=[1])
            student.write(folder / "model.bin")
            cls.first = cls.first or student
            cls.students[seed] = (folder / "model.bin").read_bytes(), student.shortlist()[0]
        student = Student(cls.size(cls.other_pieces), 64, 9, never=[1], sources=cls.size(cls.pieces))
        student.write(folder / "model.bin")
        cls.students["two"] = (folder / "model.bin").read_bytes(), None

    @staticmethod
    def processor(pieces):
        return sentencepiece.SentencePieceProcessor(model_proto=pieces)

    @classmethod
    def size(cls, pieces):
        return cls.processor(pieces).vocab_size()

    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.folder = Path(home.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.server = Server()
        self.addCleanup(self.server.close)
        self.records = []
        self.environment = {
            "XDG_CACHE_HOME": str(self.folder / "cache"), "XDG_DATA_HOME": str(self.folder / "data"), "FXTRANSLATE_RECORDS_URL": self.server.url + COLLECTION,
            "ARGOS_PACKAGE_INDEX": self.server.url + "/argos/", "TRANSFORMER_MODEL_OFFLINE": "", "no_proxy": "127.0.0.1"}
        for patch in (mock.patch.dict(os.environ, self.environment), mock.patch.object(download, "PAUSES", (0, 0, 0))):
            patch.start()
            self.addCleanup(patch.stop)
        self.cache = self.folder / "cache/transformer.h/models"
        self.server.files["/v1/"] = json.dumps(
            {"capabilities": {"attachments": {"base_url": self.server.url + "/attachments/"}}}).encode()
        self.publish([])

    def publish(self, files):
        """Adds records and their attachments to what the server has."""
        for one, packed in files:
            self.records.append(one)
            self.server.files["/attachments/" + one["attachment"]["location"]] = packed
        self.server.files[COLLECTION] = json.dumps({"data": self.records}).encode()

    def student(self, pair=("de", "en"), seed=1, lex=True, **fields):
        model, shortlist = self.students[seed]
        kinds = {"model": model, "srcvocab": self.pieces, "trgvocab": self.other_pieces} if seed == "two" else {
            "model": model, "vocab": self.pieces, **({"lex": shortlist} if lex else {})}
        made = [record(pair, kind, data, **fields) for kind, data in kinds.items()]
        self.publish(made)
        return {one["fileType"]: one for one, _ in made}

    def path(self, one):
        return "/attachments/" + one["attachment"]["location"]

    def run_command(self, *arguments, status=0):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            got = published.main(here(arguments))
        self.err = err.getvalue()
        self.assertEqual(got, status, self.err)
        return out.getvalue()

    def refused(self, *arguments):
        """Runs the command, which must fail and leave no model file and no part of a download. Returns its message."""
        self.run_command(*arguments, status=1)
        self.assertEqual(list(self.folder.glob("*.safetensors*")), [])
        self.nothing_temporary()
        return self.err

    def nothing_temporary(self):
        self.assertEqual([one for one in self.cache.rglob("*") if one.name.startswith(".")], [])

    def start(self, *arguments, **options):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]),
                       **options.pop("environment", {})}
        return subprocess.Popen([sys.executable, "-m", "convert.published", *here(arguments)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def check_same(self, files, pieces, out, pair=None, **metadata):
        """out must be what tools/convert.py makes of a folder that has these files, apart from the metadata."""
        folder = self.folder / "by_hand"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in {**files, **pieces}.items():
            (folder / name).write_bytes(data)
        expected = self.folder / "by_hand.out"
        pair = dict(zip(("source_language", "target_language"), pair or Path(out).stem.split("-", 1)))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(converter.main([str(folder), str(expected), "--no-check", *(f"--set={k}={v}" for k, v in pair.items())]), 0)
        (found, about), (tensors, config) = read_safetensors(Path(out)), read_safetensors(expected)
        self.assertEqual(set(found), set(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(found[name].tobytes(), tensor.tobytes(), name)
        self.assertEqual(about, {**config, **metadata})
        return expected

    def translate(self, *models):
        done = subprocess.run([TRANSLATE, *map(str, models)], input="".join(line + "\n" for line in LINES),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Get(DownloadTest):
    def test_a_pair(self):
        records = self.student()
        self.assertEqual(self.run_command("get", "de-en"), "de-en.safetensors\n")
        self.assertIn("firefox:de-en 3.0 tiny: licence MPL-2.0, https://mozilla.org/MPL/2.0/", self.err)
        expected = self.check_same(
            {"model.deen.bin": self.students[1][0], "lex.deen.bin": self.students[1][1]}, {"vocab.deen.spm": self.pieces},
            "de-en.safetensors", license="MPL-2.0", source="Firefox Translations de-en 3.0 tiny",
            revision=records["model"]["attachment"]["hash"])
        self.assertEqual(self.translate("de-en.safetensors"), self.translate(expected))
        self.nothing_temporary()

    def test_convert_py(self):
        """tools/convert.py takes the same name, with its own options."""
        self.student()
        done = subprocess.run([sys.executable, ROOT / "tools/convert.py", "firefox:de-en", "x.safetensors", "--dtype", "f16",
                               "--set", "source=here"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors, about = read_safetensors(Path("x.safetensors"))
        self.assertEqual(tensors["src_embedding.weight"].dtype, "<f2")
        self.assertEqual((about["license"], about["source"]), ("MPL-2.0", "here"))
        self.assertIn("licence MPL-2.0", done.stderr)
        for arguments, reason in ((["firefox:de-xx"], "no model has the language xx"), (["firefox:de-en", "--revision", "1"],
                                  "--revision"), (["de-en", "--offline"], "--architecture and --offline")):
            done = subprocess.run([sys.executable, ROOT / "tools/convert.py", *arguments, "y.safetensors"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(reason, done.stderr)
            self.assertFalse(Path("y.safetensors").exists())

    def test_two_vocabularies(self):
        self.student(("en", "zh-Hans"), "two")
        self.run_command("get", "EN-zh-hans", "-o", "out.safetensors")
        self.check_same({"model.bin": self.students["two"][0]},
                        {"srcvocab.x.spm": self.pieces, "trgvocab.x.spm": self.other_pieces}, "out.safetensors", ("en", "zh-Hans"), license="MPL-2.0",
                        source="Firefox Translations en-zh-Hans 3.0 tiny", revision=self.records[0]["attachment"]["hash"])
        self.assertIn("there is zh-Hans", self.refused("get", "en-zh") if Path("out.safetensors").unlink() is None else "")

    def test_through_english(self):
        self.student(("de", "en"), 1)
        self.student(("en", "fr"), 2)
        self.student(("fr", "en"), 3)
        self.assertIn("give a folder with -o", self.refused("get", "de-fr", "-o", "x.safetensors"))
        done = subprocess.run([sys.executable, ROOT / "tools/convert.py", "firefox:de-fr", "x.safetensors"], capture_output=True,
                              text=True)
        self.assertIn("convert firefox:de-en and firefox:en-fr", done.stderr)
        self.assertEqual(self.run_command("get", "de-fr"), "de-en.safetensors\nen-fr.safetensors\n")
        Path("models").mkdir()
        self.assertEqual(self.run_command("get", "firefox:de-fr", "-o", "models"),
                         "models/de-en.safetensors\nmodels/en-fr.safetensors\n")
        first, both = self.translate("de-en.safetensors"), self.translate("de-en.safetensors", "en-fr.safetensors")
        pipe = subprocess.run([TRANSLATE, "en-fr.safetensors"], input=first, capture_output=True, text=True)
        self.assertEqual(both, pipe.stdout)
        self.assertIn("no model, and no two models", self.refused_after("get", "fr-de"))

    def test_the_users_folder(self):
        """Without -o a model goes where translate finds it by its name."""
        self.student(("de", "en"), 1)
        self.student(("en", "fr"), 2)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(published.main(["get", "de-fr"]), 0)
            folder = self.folder / "data/transformer-h/models"
            self.assertEqual(out.getvalue(), f"{folder}/de-en.safetensors\n{folder}/en-fr.safetensors\n")
            self.assertIn("to translate: translate de-fr <", err.getvalue())
            self.assertEqual(self.translate("de-fr"), self.translate(*out.getvalue().split()))
            self.assertEqual(published.main(["get", "de-en"]), 0)
            self.assertIn("to translate: translate de-en <", err.getvalue())
            self.assertEqual(self.translate("de-en"), self.translate(folder / "de-en.safetensors"))

    def refused_after(self, *arguments):
        for one in self.folder.glob("*.safetensors"):
            one.unlink()
        return self.refused(*arguments)

    def test_python(self):
        """download() gives a path in the cache, or two, and needs no network for a pair that is there."""
        self.student(("de", "en"), 1)
        self.student(("en", "fr"), 2)
        path = published.download("de", "en", quiet=True)
        self.assertTrue(path.is_file() and path.name == "de-en.safetensors")
        asked = len(self.server.log)
        self.assertEqual(published.download("de", "en", quiet=True), path)
        self.assertEqual(len(self.server.log), asked)
        two = published.download("de", "fr", quiet=True)
        self.assertEqual([one.name for one in two], ["de-en.safetensors", "en-fr.safetensors"])
        self.assertEqual(published.download("de", "fr", quiet=True, offline=True), two)
        self.student(("de", "en"), 3, version="3.1")
        self.assertEqual(published.download("de", "en", quiet=True), path)
        newer = published.download("de", "en", quiet=True, update=True)
        self.assertIn("3.1", str(newer))
        with mock.patch.object(published, "converter_version", lambda: "new"):  # made anew, the old one goes
            other = published.download("de", "en", quiet=True)
        self.assertEqual([one.parent.name for one in newer.parent.parent.rglob("*.safetensors")], ["converted-new"])
        self.assertTrue(other.is_file())
        for arguments in (("de", "xx"), ("de", "en", "nothing")):
            with self.assertRaises(ConvertError):
                published.download(*arguments[:2], **({"source": arguments[2]} if arguments[2:] else {}), quiet=True)

    def test_which_release(self):
        """The newest supported version wins, then the best architecture; files of other releases do not mix in."""
        self.student(seed=1, version="3.0", architecture="base")
        self.student(seed=2, version="3.2", architecture="tiny")
        self.student(seed=3, version="3.10", architecture="tiny")
        self.student(seed=4, version="3.10", architecture="base-memory")
        self.student(seed=1, version="4.0", architecture="base")
        self.student(seed=1, version="2.9", architecture="base")
        self.student(seed=1, version="3.11", architecture="base", filter_expression="env.channel == 'nightly'")
        for at, expression in enumerate(("env.appinfo.OS == 'Android' ", "env.channel == 'default' || env.channel == 'nightly'",
                                         "env.locale != 'de'", "true", "env.appinfo.OS != 'Android' && env.channel == 'beta'")):
            self.student(seed=1, version=f"3.{20 + at}", architecture="base", filter_expression=expression)
        self.publish([record(("de", "en"), "model", b"alone", version="3.12")])  # no vocabulary
        self.publish([record(("de", "en"), "qualityModel", b"other", version="3.10")])
        for arguments, seed, said in (([], 4, "3.10 base-memory"), (["--architecture", "tiny"], 3, "3.10 tiny"),
                                      (["--architecture", "base"], 1, "3.0 base")):
            self.run_command("get", "de-en", *arguments)
            name = f"Firefox Translations de-en {said}"
            self.check_same({"model.bin": self.students[seed][0], "lex.bin": self.students[seed][1]},
                            {"vocab.spm": self.pieces}, "de-en.safetensors", source=name, license="MPL-2.0",
                            revision=read_safetensors(Path("de-en.safetensors"))[1]["revision"])
        for version, expression in (("3.13", "env.appinfo.OS != 'Android'"),
                                    ("3.14", "env.appinfo.OS != 'Android' || env.channel != 'release'")):
            self.student(seed=1, version=version, filter_expression=expression)
            self.assertIn(f"firefox:de-en {version} ", self.run_command("info", "de-en"))
        Path("de-en.safetensors").unlink()
        self.assertIn("no big; there is base and base-memory and tiny", self.refused("get", "de-en", "--architecture", "big"))

    def test_a_vocabulary_without_an_architecture(self):
        model, vocab = (record(("de", "en"), kind, data) for kind, data in (
            ("model", self.students[1][0]), ("vocab", self.pieces)))
        vocab[0]["architecture"] = None
        self.publish([model, vocab])
        self.run_command("get", "de-en")

    def test_other_servers(self):
        """The base address of the files is the server's; without it Mozilla's."""
        records = self.student()
        base = releases.Firefox().releases()[0].files[0].url
        self.assertEqual(base, self.server.url + self.path(records["model"]))
        for root in (None, b"<html>", b"[]", b'{"capabilities": {"attachments": {}}}', b'{"capabilities": 1}'):
            self.server.files["/v1/"] = root
            self.assertTrue(releases.Firefox().releases()[0].files[0].url.startswith(
                "https://firefox-settings-attachments.cdn.mozilla.net/main-workspace/"), root)
        self.server.files["/list"] = self.server.files[COLLECTION]
        self.assertTrue(releases.Firefox(self.server.url + "/list").releases())
        for url, reason in ((self.server.url + "/none", "404"), ("http://127.0.0.1:1/", "refused"), ("file:///etc/passwd",
                            "not an http"), ("http://no.such.host.invalid/", "--offline"), ("nonsense", "not an http")):
            self.assertIn(reason, self.refused("list", "--records-url", url))
        for data in (b"", b"{", b"[]", b"{}", b"<html>", b'{"data": 3}', b"[" * 100000):
            self.server.files["/bad"] = data
            self.assertIn("/bad", self.refused("get", "de-en", "--records-url", self.server.url + "/bad"))

    def test_a_redirect(self):
        records = self.student()
        path = self.path(records["model"])
        self.server.files["/elsewhere"] = self.server.files.pop(path)

        def redirect(handler):
            handler.send_response(302)
            handler.send_header("Location", "/elsewhere")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True

        self.server.faults[path] = redirect
        self.run_command("get", "de-en")
        self.assertEqual(len(self.server.requests("elsewhere")), 1)
        for begin, end, allowed in (("https://a/", "http://a/", False), ("https://a/", "https://b/", True),
                                    ("http://a/", "file:///etc/passwd", False), ("http://a/", "https://b/", True)):
            def follow():
                return download._Redirects().redirect_request(urllib.request.Request(begin), None, 302, "", {}, end)
            if allowed:
                self.assertEqual(follow().full_url, end)
            else:
                self.assertRaises(ConvertError, follow)

    def test_a_proxy(self):
        """The name of the host does not resolve, so only the proxy can have answered."""
        self.student()
        self.server.files["/v1/"] = self.server.files["/v1/"].replace(self.server.url.encode(), b"http://models.invalid")
        with mock.patch.dict(os.environ, {"http_proxy": self.server.url, "no_proxy": ""}):
            self.run_command("get", "de-en", "--records-url", "http://models.invalid" + COLLECTION)
        self.assertTrue(all(path.startswith("http://models.invalid/") for path, _ in self.server.log))

    def test_progress(self):
        """On a terminal the amount is shown, elsewhere not."""
        self.student()
        if not hasattr(os, "openpty"):
            self.skipTest("no pseudo-terminals here")
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "w") as terminal, mock.patch.object(sys, "stderr", terminal):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(published.main(["get", "de-en"]), 0)
            terminal.flush()
            shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertRegex(shown, r"\rmodel\.deen\.bin: \d\.\d MB of \d\.\d MB, ")
        self.run_command("remove", "--all")
        self.run_command("get", "de-en")
        self.assertNotIn("\r", self.err)
        self.run_command("get", "de-en", "--quiet")
        self.assertEqual(self.err, "")


class Manners(DownloadTest):
    def test_a_connection_that_breaks(self):
        """The rest is asked for by Range; a server without ranges sends all again."""
        records = self.student()
        path = self.path(records["model"])
        size = len(self.server.files[path])
        for ranges in (True, False):
            answers = iter((size // 3, size // 3, None) if ranges else (size // 3, None))

            def broken(handler):
                cut = next(answers)
                handler.answer(self.server.files[path], cut)
                return True

            self.server.ranges, self.server.log[:] = ranges, []
            self.server.faults[path] = broken
            self.run_command("get", "de-en")
            self.assertIn("the connection broke", self.err)
            asked = [one for _, one in self.server.requests(path)]
            self.assertEqual(asked, [None, f"bytes={size // 3}-", f"bytes={size // 3 * 2}-"] if ranges else
                             [None, f"bytes={size // 3}-"])
            self.run_command("remove", "de-en")
        self.server.faults[path] = lambda handler: handler.answer(self.server.files[path], 0) or True
        self.assertIn("the connection ended after 0 of", self.err_of_broken())
        answers = iter((500, 503))
        self.server.faults[path] = lambda handler: (code := next(answers, 0)) and (handler.send_error(code) or True)
        self.run_command("get", "de-en")

    def err_of_broken(self):
        Path("de-en.safetensors").unlink()
        self.run_command("get", "de-en", status=1)
        self.assertFalse(Path("de-en.safetensors").exists())
        return self.err

    def test_ctrl_c(self):
        """SIGINT in the middle of a file: nothing broken is left, and the next run continues."""
        records = self.student()
        path, waiting = self.path(records["model"]), threading.Event()
        data = self.server.files[path]

        def stall(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data[:len(data) // 2])
            handler.wfile.flush()
            waiting.wait(60)
            handler.close_connection = True
            return True

        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            self.server.faults[path] = stall
            # a job in the background of a script, as .ci/run's rows are, ignores SIGINT
            run = self.start("get", "de-en", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            part = self.wait_for(lambda: [one for one in self.cache.rglob("*.part") if one.stat().st_size == len(data) // 2])
            run.send_signal(number)
            _, err = run.communicate(timeout=60)
            self.assertEqual(run.returncode, status)
            self.assertNotIn("Traceback", err)
            if number == signal.SIGINT:
                self.assertIn("interrupted; the next run continues", err)
            self.assertEqual(list(self.folder.glob("*.safetensors*")), [])
            self.assertEqual([one for one in self.cache.rglob("*") if one.is_file() and one.suffix != ".lock"], part)
            del self.server.faults[path]
            self.server.log.clear()
            self.run_command("get", "de-en")
            self.assertEqual([one for _, one in self.server.requests(path)], [f"bytes={len(data) // 2}-"])
            self.nothing_temporary()
            Path("de-en.safetensors").unlink()
            self.run_command("remove", "de-en")
        waiting.set()

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return condition()

    def test_two_processes(self):
        """The second one waits, and finds the files in the cache."""
        records = self.student()
        path = self.path(records["model"])
        together = threading.Barrier(2)

        def slow(handler):
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait(1.5)  # only one process may ask
            return False

        self.server.faults[path] = slow
        runs = [self.start("get", "de-en", "-o", f"{at}.safetensors") for at in range(3)]
        for run in runs:
            _, err = run.communicate(timeout=120)
            self.assertEqual(run.returncode, 0, err)
        for one in records.values():
            self.assertEqual(len(self.server.requests(self.path(one))), 1)
        self.assertEqual(len({Path(f"{at}.safetensors").read_bytes() for at in range(3)}), 1)
        self.nothing_temporary()

    def test_a_full_disk(self):
        """RLIMIT_FSIZE makes a write fail as a full disk does."""
        self.student()
        for limit in (30000, len(self.students[1][0]) + 1000):  # in the download, and in the model file
            run = self.start("get", "de-en", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            _, err = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 1, err)
            self.assertRegex(err, "no space for model.deen.bin: File too large" if limit == 30000 else "File too large")
            self.assertNotIn("Traceback", err)
            self.assertEqual(list(self.folder.glob("*.safetensors*")), [])
            self.nothing_temporary()
        self.run_command("get", "de-en")

    def test_files_that_are_wrong(self):
        """Every fault is named, and leaves nothing; with the right file the next run works."""
        records = self.student()
        good = dict(self.server.files)
        model = records["model"]
        path, packed = self.path(model), self.server.files[self.path(model)]
        other = packed[:50] + bytes([packed[50] ^ 1]) + packed[51:]

        def attachment(data, **fields):
            said = {**model["attachment"], "hash": hashlib.sha256(data).hexdigest(), "size": len(data)}
            return {**model, "attachment": said, **fields}

        plain = zstandard.ZstdDecompressor().decompress(packed)
        bomb = zstandard.ZstdCompressor().compress(bytes(1 << 26))
        wrong = zstandard.ZstdCompressor().compress(plain[:-1] + b"x")
        for data, change, reason in (
                (packed + b"x", model, f"{len(packed) + 1} bytes, and its list says {len(packed)}"),
                (packed[:-1], model, f"{len(packed) - 1} bytes, and its list says {len(packed)}"),
                (other, model, "its SHA-256 is"),
                (wrong, attachment(wrong), "unpacked: its SHA-256 is"),
                (packed[:-9], attachment(packed[:-9]), "unpacked: "),
                (plain, attachment(plain), "not what zstd packs"),
                (bomb, attachment(bomb), f"more than {len(plain)} bytes unpacked"),
                (packed, {**model, "decompressedSize": len(plain) + 1}, "and its list says"),
                (packed, {**model, "decompressedSize": len(plain) - 1}, "bytes unpacked"),
                (packed, {**attachment(packed), "decompressedHash": "0" * 64}, "unpacked: its SHA-256 is"),
                (packed, {**model, "decompressedHash": None, "attachment": {**model["attachment"], "hash": None}},
                 "has no SHA-256"),
                (None, model, "404")):
            self.server.files[path] = data
            self.server.files[COLLECTION] = json.dumps({"data": [change, records["vocab"]]}).encode()
            self.assertIn(reason, self.refused("get", "de-en"))
            with self.assertRaises(ConvertError):
                published.download("de", "en", quiet=True)
        self.server.files.update(good)
        self.run_command("get", "de-en")

    def test_a_missing_hash(self):
        """One of the two is enough."""
        records = self.student()
        model = records["model"]
        for change in ({"decompressedHash": None}, {"decompressedHash": None, "decompressedSize": None},
                       {"attachment": {key: value for key, value in model["attachment"].items() if key not in ("hash", "size")}}):
            self.server.files[COLLECTION] = json.dumps({"data": [{**model, **change}, records["vocab"]]}).encode()
            self.run_command("get", "de-en")
            self.run_command("remove", "de-en")

    def test_offline(self):
        records = self.student()
        for offline in (["--offline"], []):
            with mock.patch.dict(os.environ, {"TRANSFORMER_MODEL_OFFLINE": "" if offline else "1"}):
                self.assertIn("no model of firefox is in the cache", self.refused("get", "de-en", *offline))
                self.assertEqual(self.server.log, [])
        self.run_command("get", "de-en")
        expected = Path("de-en.safetensors").read_bytes()
        self.server.log.clear()
        self.run_command("get", "de-en", "--offline")
        self.assertEqual(Path("de-en.safetensors").read_bytes(), expected)
        self.assertIn("de-en", self.run_command("list", "--offline"))
        self.assertIn("in the cache: ", self.run_command("info", "de-en", "--offline"))
        Path("de-en.safetensors").unlink()
        self.assertIn("no model has the language fr", self.refused("get", "de-fr", "--offline"))
        self.assertEqual(self.server.log, [])
        model = next(self.cache.rglob("model.deen.bin"))
        data = model.read_bytes()
        for damaged in (data[:-1], data[:-1] + bytes([data[-1] ^ 1]), None):
            model.unlink() if damaged is None else model.write_bytes(damaged)
            self.assertIn("not whole in the cache", self.refused("get", "de-en", "--offline"))
        for note in (b"", b"[]", b"{}", b'{"source": "firefox", "version": "../..", "from": "de"}'):
            next(self.cache.rglob("release.json")).write_bytes(note)
            self.refused("get", "de-en", "--offline")
        self.run_command("get", "de-en")  # gets again what is damaged
        self.assertEqual(Path("de-en.safetensors").read_bytes(), expected)
        asked = len(self.server.requests(self.path(records["vocab"])))
        self.run_command("get", "de-en")  # asks for the list alone
        self.assertEqual(len(self.server.requests(self.path(records["vocab"]))), asked)

    def test_published_again(self):
        """Other files under the same version."""
        self.student(seed=1)
        self.run_command("get", "de-en")
        self.records.clear()
        self.student(seed=2)
        self.run_command("get", "de-en")
        self.check_same({"model.bin": self.students[2][0], "lex.bin": self.students[2][1]}, {"vocab.spm": self.pieces},
                        "de-en.safetensors", license="MPL-2.0", source="Firefox Translations de-en 3.0 tiny",
                        revision=self.records[0]["attachment"]["hash"])

    def test_measured_quality_is_that_of_the_cards(self):
        for source, pair, size, licence, quality, where in published.MEASURED:
            card = (ROOT / where.rpartition(" ")[2]).read_text(encoding="utf-8")
            self.assertEqual((ROOT / source / f"{'-'.join(pair)}.safetensors").stat().st_size, size)
            self.assertIn(f"[{licence}]", card)
            row = next(line for line in card.splitlines() if line.startswith("| Tatoeba test v2021-08-07"))
            bleu, chrf = re.match(r"BLEU ([\d.]+), chrF ([\d.]+) ", quality).groups()
            self.assertEqual(row.split("|")[-2].strip(), f"{bleu}, {chrf}")

    def test_list_info_remove(self):
        self.student(("de", "en"))
        self.student(("en", "zh-Hans"), "two", architecture="base")
        self.run_command("get", "de-en")
        listed = self.run_command("list").splitlines()
        self.assertEqual([re.split("  +", line)[:3] for line in listed], [["de-en", "3.0", "tiny"], ["en-zh-Hans", "3.0", "base"]])
        self.assertTrue(listed[0].endswith("cached"))
        self.assertEqual(len(self.run_command("list", "zh").splitlines()), 1)
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.run_command("list", "--table").splitlines()]
        self.assertEqual({len(row) for row in table}, {6})
        self.assertEqual([row[:2] + row[3:4] for row in table[2:]], [
            ["de-en", "examples/models", "CC BY 2.0 FR"], ["de-en", "firefox:de-en 3.0 tiny", "MPL-2.0"],
            ["en-zh-Hans", "firefox:en-zh-Hans 3.0 base", "MPL-2.0"], ["zh-en", "examples/models", "CC BY 2.0 FR"]])
        self.assertEqual([row[4:] for row in table[2:] if row[1].startswith("firefox")], [["", ""]] * 2)  # nobody measured them
        self.assertTrue(all(re.fullmatch(r"[\d.,]+ [kM]B", row[2]) for row in table[2:]), table)
        self.assertEqual(len(self.run_command("list", "--table", "zh").splitlines()), 4)
        self.run_command("list", "xx", status=1)
        told = self.run_command("info", "de-en")
        for part in ("MPL-2.0", "model.deen.bin", self.records[0]["attachment"]["hash"], "in the cache"):
            self.assertIn(part, told)
        self.assertIn("not in the cache", self.run_command("info", "en-zh-Hans"))
        for arguments, reason in ((["remove"], "or --all"), (["remove", "en-fr"], "there is firefox:de-en"),
                                  (["remove", "../../.."], "not in the cache"), (["remove", "argos:de-en"], "not in the cache")):
            self.run_command(*arguments, status=1)
            self.assertIn(reason, self.err)
        self.assertRegex(self.run_command("remove", "firefox:de-en"), r"firefox:de-en removed, \d")
        self.assertEqual([one for one in self.cache.rglob("*") if one.is_file() and one.suffix != ".lock"], [])
        self.assertIn("nothing is in the cache", self.run_command("remove", "--all"))

    def test_hostile_records(self):
        """Records with random changes: a message or a model, and no file outside the cache's folders."""
        records = self.student()
        generator = random.Random(seeds.SEED)
        values = [None, "", "../..", "a/b", "\x1b[2J", -1, 1 << 70, 1.5, [], {}, True, "9" * 5000, "3." + "0." * 200 + "1"]
        for _ in range(60):
            changed = json.loads(json.dumps([records["model"], records["vocab"]]))
            for one in changed:
                home = one if generator.random() < 0.6 else one["attachment"]
                home[generator.choice(sorted(home))] = generator.choice(values)
                if not isinstance(one.get("attachment"), dict):
                    one["attachment"] = generator.choice(values)
            self.server.files[COLLECTION] = json.dumps({"data": changed + values}).encode()
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.assertIn(published.main(["get", "de-en"]), (0, 1))
                self.assertIn(published.main(["list"]), (0, 1))
            self.assertNotIn("\x1b", err.getvalue())
            self.assertLessEqual({one.name for one in self.folder.iterdir()}, {"cache", "data"})
            data = self.folder / "data"
            self.assertLessEqual({one.relative_to(data).as_posix() for one in data.rglob("*")},
                                 {"transformer-h", "transformer-h/models", "transformer-h/models/de-en.safetensors"})
            self.assertLessEqual({one.name for one in self.cache.glob("firefox/*")}, {"de-en", "de-en.lock"})

    def test_a_cache_that_cannot_be_written(self):
        """A cache in a read-only place serves what is in it. Elsewhere there is a message."""
        self.student()
        self.run_command("get", "de-en")

        def refuse(path, mode="r", **options):
            if "r" not in mode:
                raise PermissionError(13, "Permission denied", str(path))
            return open(path, mode, **options)

        with mock.patch.object(download, "open", refuse, create=True):
            self.run_command("get", "de-en", "--offline")
            self.run_command("remove", "de-en")
            Path("de-en.safetensors").unlink()
            self.assertIn("Permission denied", self.refused("get", "de-en"))
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(Path("file").absolute())}):
            Path("file").write_text("")
            self.assertIn("Not a directory", self.refused("get", "de-en"))
            with self.assertRaisesRegex(ConvertError, "Not a directory"):
                releases.fetch("firefox:de-en", None, None)

    def test_a_name_on_the_hub(self):
        self.student()
        self.run_command("get", "de-en")
        folder = releases.cached_releases("firefox")[0].folder
        with mock.patch.object(published.hub, "fetch", lambda name, revision: folder):
            self.assertEqual(self.run_command("get", "Some-body/opus-de-en"), "opus-de-en.safetensors\n")
        self.assertEqual(read_safetensors(Path("opus-de-en.safetensors"))[0].keys(), read_safetensors(Path("de-en.safetensors"))[0].keys())

    def test_the_extra_of_the_package(self):
        """pip install transformer-h[download] installs what the converter needs, apart from the packages of the hub and of GGUF, which
        transformer-h[convert] installs."""
        lines = (ROOT / "tools/requirements-convert.txt").read_text().splitlines()
        wanted = {line.replace('"', "'") for line in lines if line and line[0] != "#" and not line.startswith(("huggingface_hub", "gguf"))}
        project = (ROOT / "tools/python/pyproject.toml").read_text()
        extra = re.search(r"^download = \[(.*?)\]$", project, re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(set(re.findall(r'"(.*?)"', extra)), wanted)
        hub, gguf = (next(line for line in lines if line.startswith(name)) for name in ("huggingface_hub", "gguf"))
        self.assertIn(f'\nconvert = ["transformer-h[download]", "{hub}", "{gguf}"]\n', project)

    def test_without_zstandard(self):
        self.student()
        with mock.patch.dict(sys.modules, {"zstandard": None, "compression": None}):
            self.assertIn(f"-m pip install -r {ROOT}/tools/requirements-convert.txt", self.refused("get", "de-en"))


class Clock:
    """Stands in the place of the clock and of sleep. A faulty server moves it."""

    def __init__(self):
        self.now, self.mover = 1000.0, None  # only the newest answer moves it
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return self.now

    def move(self, seconds):
        """Waits until the client has looked, which may take long on a busy machine; at most a second, if it does not."""
        looks = self.looks
        self.now += seconds
        for _ in range(50):
            time.sleep(0.02)
            if self.looks != looks:
                break

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


def endless(handler, head, piece, clock=None, seconds=0, most=100000):
    """Sends a head, and then the same piece again and again, with some seconds between."""
    if clock:
        clock.mover = handler
    with contextlib.suppress(OSError):
        handler.wfile.write(head)
        for _ in range(most):
            handler.wfile.write(piece)
            handler.wfile.flush()
            if clock:
                if clock.mover is not handler:
                    break
                clock.move(seconds)
    handler.close_connection = True
    return True


class Endless(unittest.TestCase):
    """Servers that never finish. Each download ends with a message that has the address, after at most eight requests
    in a row, and sixty seconds, without a new byte. What was received stays."""

    SIZE = 300000

    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.folder, self.server, self.clock = Path(home.name), Server(), Clock()
        self.addCleanup(self.server.close)
        for name, value in (("clock", self.clock), ("sleep", self.clock.sleep)):
            patch = mock.patch.object(download, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def fails(self, fault, requests=8, seconds=80, size=SIZE, kept=None):
        """Gets a file from a faulty server. Returns the message."""
        self.server.faults["/f"], began = fault, self.clock.now
        self.server.log.clear()
        one = download.RemoteFile("f.bin", self.server.url + "/f", size, "0" * 64)
        with self.assertRaises(download.DownloadError) as caught:
            download.get_file(one, self.folder, download.Progress(quiet=True))
        self.clock.mover = None
        self.assertIn(self.server.url + "/f", str(caught.exception))
        self.assertLessEqual(len(self.server.log), requests)
        self.assertLessEqual(self.clock.now - began, seconds)
        if kept is not None:
            part, = self.folder.glob(".f.bin.*.part")
            self.assertEqual(part.stat().st_size, kept)
        return str(caught.exception)

    def broken(self, handler, status, sent=0, **headers):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(b"x" * sent)
        handler.close_connection = True
        return True

    def test_a_range_that_is_refused(self):
        """The answer breaks, and the rest is not to be had."""
        for count in (0, 1000):
            said = self.fails(lambda handler, count=count: self.broken(handler, 416, Content_Length=0) if handler.headers.get(
                "Range") else self.broken(handler, 200, count, Content_Length=self.SIZE), 9, kept=count)
            self.assertIn("8 in a row without a new byte", said)
        with mock.patch.object(Endless, "SIZE", 5000):  # the next call goes on
            self.server.faults.clear()
            self.server.files["/f"] = b"x" * 5000
            one = download.RemoteFile("f.bin", self.server.url + "/f", 5000, hashlib.sha256(b"x" * 5000).hexdigest())
            part, = self.folder.glob(".f.bin.*.part")
            part.rename(self.folder / f".f.bin.{hashlib.sha256(f'{one.url} {one.sha256} None'.encode()).hexdigest()[:16]}.part")
            self.server.log.clear()
            download.get_file(one, self.folder, download.Progress(quiet=True))
            self.assertEqual([one for _, one in self.server.log], ["bytes=1000-"])

    def test_answers_without_a_byte(self):
        self.fails(lambda handler: self.broken(handler, 200, 0, Content_Length=self.SIZE))
        self.fails(lambda handler: self.broken(handler, 503, 0, Content_Length=0))
        self.fails(lambda handler: self.broken(handler, 429, 0, Content_Length=0))
        self.fails(lambda handler: self.broken(handler, 200, 0, Content_Length=self.SIZE), size=None)

    def test_a_server_that_begins_anew(self):
        """Without ranges, the same bytes again are no new ones; an answer that breaks earlier takes nothing away."""
        sizes = iter([1000] + [400] * 20)
        self.fails(lambda handler: self.broken(handler, 200, next(sizes), Content_Length=self.SIZE), 9, kept=1000)

    def test_endless_small_answers(self):
        """One byte an answer, of a file whose size moves on."""
        def one_byte(handler):
            first = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
            return self.broken(handler, 206 if first else 200, 1, Content_Length=1 if first else 3,
                               **({"Content_Range": f"bytes {first}-{first}/{first + 2}"} if first else {}))
        with mock.patch.object(download, "ALL_TRIES", 30):
            self.fails(one_byte, 30, 1000, None)

    def test_heads_that_drip(self):
        head = b"HTTP/1.1 200 OK\r\n"
        for piece in (b"x", b"X: y\r\n"):
            said = self.fails(lambda handler, piece=piece: endless(handler, head, piece, self.clock, 7, 90))
        self.fails(lambda handler: endless(handler, b"", b"HTTP/1.1 100 Continue\r\n\r\n", self.clock, 7))
        self.assertIn("no new byte for 60 seconds", self.fails(lambda handler: endless(handler, b"HTTP/1.1 200 O", b"K", self.clock, 7)))
        self.assertTrue(said)

    def test_chunks_that_drip(self):
        """Sizes of chunks and lines behind the last chunk are no bytes of the file."""
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.fails(lambda handler: endless(handler, head + b"1;", b"x", self.clock, 7), kept=None)
        self.fails(lambda handler: endless(handler, head + b"1\r\nx\r\n0\r\n", b"X: y\r\n", self.clock, 7), size=None)

    def test_a_body_that_drips(self):
        """A byte a minute is a new byte, but fewer than 1,000 a second are too few, also of a file whose size nobody says."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self.SIZE
        self.assertIn("fewer than 1000 bytes a second for 600 seconds", self.fails(lambda handler: endless(
            handler, head, b"x", self.clock, 50), seconds=900))
        self.assertIn("fewer than 1000 bytes a second for 600 seconds", self.fails(lambda handler: endless(
            handler, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 900, self.clock, 1), seconds=900, size=None))

    def test_bodies_without_an_end(self):
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.assertIn("more than 300000 bytes", self.fails(lambda handler: endless(handler, head, b"1000\r\n" + b"x" * 4096 + b"\r\n")))
        with mock.patch.object(download, "LARGEST_FILE", 500000):
            self.assertIn("more than 500000 bytes", self.fails(lambda handler: endless(
                handler, head, b"1000\r\n" + b"x" * 4096 + b"\r\n"), size=None))
        self.fails(lambda handler: self.broken(handler, 200, 10, Content_Length=self.SIZE + 1))
        self.fails(lambda handler: self.broken(handler, 200, 10, Content_Length=7))

    def test_redirects(self):
        def again(handler):
            return self.broken(handler, 302, 0, Location="/f", Content_Length=0)
        self.fails(again, 11)

        def body(handler):  # the redirect's own body has no end
            return endless(handler, b"HTTP/1.1 302 Found\r\nLocation: /g\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", self.clock, 7)
        self.server.faults["/g"] = lambda handler: self.broken(handler, 404, 0, Content_Length=0)
        self.assertIn("404", self.fails(body))

    def test_lists(self):
        """Lists of models are bounded in the same way."""
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for fault, reason in (
                (lambda handler: endless(handler, b"HTTP/1.1 200 O", b"K", self.clock, 7), "no new byte for 60 seconds|timed out"),
                (lambda handler: endless(handler, chunked + b"1;", b"x", self.clock, 7), "no new byte for 60 seconds|timed out"),
                (lambda handler: endless(handler, chunked, b"1\r\nx\r\n", self.clock, 50), "fewer than 1000 bytes"),
                (lambda handler: endless(handler, chunked, b"1000\r\n" + b"x" * 4096 + b"\r\n"), "more than 1.0 MB")):
            self.server.faults["/f"], began = fault, self.clock.now
            with mock.patch.object(download, "LARGEST_LIST", 1000000), self.assertRaisesRegex(download.DownloadError, reason) as caught:
                download.get_bytes(self.server.url + "/f")
            self.clock.mover = None
            self.assertIn(self.server.url + "/f", str(caught.exception))
            self.assertLess(self.clock.now - began, 900)


class Argos(test_convert.Argos):
    """Packages of Argos Translate by its index."""

    setUpServer, publish = DownloadTest.setUp, DownloadTest.publish
    run_command, refused, nothing_temporary = DownloadTest.run_command, DownloadTest.refused, DownloadTest.nothing_temporary

    def test_a_package(self):
        package = self.package(from_code="de", to_code="en")
        readme = "# German - English\n\nThe original model is licensed CC-BY 4.0\n"
        (package / "README.md").write_text(readme)
        data = self.zipped(package).read_bytes()
        home = self.folder
        self.setUpServer()
        entry = {"package_version": "1.9", "argos_version": "1.9.0", "from_code": "de", "from_name": "German", "to_code": "en",
                 "to_name": "English", "links": ["ipfs://x", self.server.url + "/v1/a.argosmodel"], "code": "translate-de_en"}
        old = {**entry, "package_version": "1.2", "links": [self.server.url + "/v1/old.argosmodel"]}
        self.server.files["/argos/index.json"] = json.dumps([old, entry, {"type": "sbd"}, 3, {**entry, "links": []}]).encode()
        for bad, reason in ((None, "404"), (data[:-30], "which is a zip file"), (b"<html>", "a web page in the place"),
                            (data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:],
                             "a.argosmodel: ")):
            self.server.files["/v1/a.argosmodel"] = bad
            self.assertIn(reason, self.refused("get", "argos:de-en"))
        self.server.files["/v1/a.argosmodel"] = data
        self.run_command("get", "--source", "argos", "de-en")
        self.assertIn("licensed CC-BY 4.0", self.err)
        self.out = home / "expected.safetensors"
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(converter.main([str(home / "package.argosmodel"), str(self.out), "--no-check"]), 0)
        (found, about), (tensors, config) = read_safetensors(Path("de-en.safetensors")), read_safetensors(self.out)
        self.assertEqual({name: one.tobytes() for name, one in found.items()}, {name: one.tobytes() for name, one in tensors.items()})
        self.assertEqual(about, {**config, "license": "The original model is licensed CC-BY 4.0"})
        self.assertIn("argos:de-en 1.9", self.run_command("info", "argos:de-en"))
        self.run_command("get", "argos:de-en", "--offline")
        self.run_command("remove", "argos:de-en")


# The tests of the base class run in test_convert.
for name in [name for name in dir(test_convert.Argos) if name.startswith("test_")]:
    setattr(Argos, name, None)


@unittest.skipUnless(fxtranslate, "fxtranslate is not installed")
class Mozilla(DownloadTest):
    """Mozilla's own client and the same server."""

    def test_it_reads_this_server(self):
        self.student(("de", "en"))
        self.student(("en", "zh-Hans"), "two")
        discovery = fxtranslate.discovery
        body = discovery.fetch_records_body()
        self.assertEqual(len(discovery.parse_records(body)), len(self.records))
        self.assertEqual(discovery.model_pairs(body), [("de", "en"), ("en", "zh-Hans")])
        self.assertEqual(discovery.catalog(body, "en"), {"bidirectional": ["en"], "sourceOnly": ["de"], "targetOnly": ["zh-Hans"]})
        self.run_command("get", "de-en")
        self.run_command("get", "en-zh-Hans")
        for release in releases.Firefox().releases():
            for one in release.files:
                with urllib.request.urlopen(one.url) as answer:
                    data = discovery.verify_and_decompress(answer.read(), one.unpacked_sha256)
                self.assertEqual((release.folder / one.name).read_bytes(), data)

    def test_texts(self):
        """The engine, with the files of the cache, against the model file; test_marian.py has many students."""
        self.student()
        self.run_command("get", "de-en")
        folder = releases.cached_releases("firefox")[0].folder
        model, vocab = ((folder / name).read_bytes() for name in ("model.deen.bin", "vocab.deen.spm"))
        engine = fxtranslate.Translator(model, vocab, vocab)
        clear = 0
        for line in LINES:
            ids = self.processor(self.pieces).encode(line) + [0]
            most = 2 * len(ids) + 4  # the engine's limit
            if self.first.greedy(ids, 0, most)[1] > 0.1:  # else rounding decides
                clear += 1
                done = subprocess.run([TRANSLATE, "de-en.safetensors", "--plain", "--max-length", str(most)], input=line + "\n",
                                      capture_output=True, text=True)
                self.assertEqual(done.stdout.removesuffix("\n"), engine.translate(line))
        self.assertGreater(clear, 0)

    @staticmethod
    def draw(generator, ties=True):
        """Returns random records of pairs, versions and architectures."""
        codes = ["en", "de", "fr", "zh-Hans", "ru", "it"]
        files = []
        for a in codes:
            for b in codes:
                if a == b or generator.random() > (0.5 if "en" in (a, b) else 0.1):
                    continue
                versions = [f"{generator.choice([2, 3, 3, 3, 4])}.{generator.choice([0, 1, 2, 9, 10, 11])}" for _ in range(3)]
                for version in versions if ties else sorted(set(versions), key=lambda one: generator.random()):
                    architecture = generator.choice(["tiny", "base", "base-memory", None])
                    vocabularies = generator.choice([["vocab"], ["srcvocab", "trgvocab"]])
                    files += [record((a, b), kind, b"x", version, architecture) for kind in ["lex", *vocabularies, "model"]]
        generator.shuffle(files)
        return codes, files

    def test_routes(self):
        generator = random.Random(seeds.SEED)
        counts = {"direct": 0, "pivot": 0, "none": 0}
        for _ in range(40):
            codes, files = self.draw(generator)
            self.records.clear()
            self.publish(files)
            body = self.server.files[COLLECTION].decode()
            pairs = {one.pair for one in releases.Firefox().releases()}
            self.assertEqual(sorted(pairs), [tuple(one) for one in fxtranslate.discovery.model_pairs(body)])
            for a in codes:
                for b in codes:
                    if a == b:
                        continue
                    try:
                        said = fxtranslate.discovery.resolve_route(body, a, b)
                        expected = [(a, b)] if said["kind"] == "direct" else [(a, said["pivot"]), (said["pivot"], b)]
                        counts[said["kind"]] += 1
                    except ValueError:
                        expected = []
                        counts["none"] += 1
                    self.assertEqual(releases.route(pairs, a, b), expected)
        print(f"test_routes: {counts}")
        self.assertGreater(min(counts.values()), 40)

    def test_files(self):
        """add_models says which file of which release it asks Mozilla's server for, which has no address here."""
        host = "firefox-settings-attachments.cdn.mozilla.net"
        try:
            socket.getaddrinfo(host, 443)
        except OSError:
            pass
        else:
            self.skipTest(f"{host} can be reached from here, and this test is not to disturb it")
        generator = random.Random(seeds.SEED)
        _, files = self.draw(generator, ties=False)
        self.publish(files)
        there = releases.Firefox().releases()
        pairs = sorted({one.pair for one in there})[:8]
        program = "import sys, fxtranslate; fxtranslate.discovery.add_models(sys.argv[1], sys.argv[2], sys.argv[3])"
        runs = {pair: subprocess.Popen([sys.executable, "-c", program, *pair, str(self.folder / name)], text=True,
                                       stderr=subprocess.PIPE) for name, pair in enumerate(pairs) for name in [str(name)]}
        for pair, run in runs.items():
            asked = re.search(rf"GET https://{host}/(\S+\.zst)", run.communicate(timeout=60)[1])[1]
            chosen = releases.choose(there, pair, None)
            self.assertTrue(chosen.files[0].url.endswith("/" + asked), f"{chosen.files[0].url}: fxtranslate takes {asked}")
        self.assertGreater(len(pairs), 3)


if __name__ == "__main__":
    unittest.main()
