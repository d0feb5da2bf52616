"""Tests tools/convert/progress.py: lines on a terminal, nothing elsewhere, rate and time left."""

import contextlib
import io
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import import_path  # noqa: F401

from convert import main as converter
from convert import progress as progress_module
from convert.modelfile import write_safetensors
from convert.progress import Progress, Stage


@contextlib.contextmanager
def terminal():
    """Yields a function that returns what was written to standard error, which is a pseudo-terminal."""
    ours, theirs = os.openpty()
    try:
        with os.fdopen(theirs, "w") as stream, mock.patch.object(sys, "stderr", stream):
            def shown():
                print(end="\0", file=stream, flush=True)
                text = b""
                while not text.endswith(b"\0"):  # a busy system hands it over in pieces
                    text += os.read(ours, 1 << 16)
                return text[:-1].decode()
            yield shown
    finally:
        os.close(ours)


@unittest.skipUnless(hasattr(os, "openpty"), "no pseudo-terminals here")
class OnATerminal(unittest.TestCase):
    def setUp(self):
        for name, value in (("FIRST", 0.1), ("EVERY", 0.02)):
            patched = mock.patch.object(progress_module, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def test_stages(self):
        """A stage is shown after its first moments, with what it says, and is wiped at its end."""
        with terminal() as shown:
            progress = Progress()
            with progress.stage("reading x"):
                pass
            with progress.stage("writing y", 4_000_000) as stage:
                stage.advance(1_000_000)
                time.sleep(0.3)
                with progress.stage("checking"):
                    time.sleep(0.3)
            text = shown()
        self.assertNotIn("reading x", text)
        self.assertRegex(text, r"\rwriting y: 1\.0 MB of 4\.0 MB, \d+\.\d MB/s, \d+ seconds left")
        self.assertRegex(text, r"\rchecking: 0 seconds")
        self.assertRegex(text, r"\r +\r$")

    def test_long_names(self):
        self.assertLess(len(Stage("x" * 500, 10 ** 12, None, 0.0, 0, 10 ** 9).line(1.0)), 120)

    def test_the_converter(self):
        """A converter whose writing takes long says how far it is."""
        with tempfile.TemporaryDirectory() as folder, terminal() as shown:
            source = Path(folder) / "in.safetensors"
            write_safetensors(source, {"layer.weight": np.zeros((4, 4), np.float32)})
            options = converter.parse_arguments(["--quiet", str(source), str(Path(folder) / "out.safetensors")])
            options.progress = Progress()

            def slow(*_):
                time.sleep(0.3)
                raise converter.ConvertError("enough")

            with mock.patch.object(converter, "read_checkpoint", slow), self.assertRaises(converter.ConvertError):
                converter.convert(options)
            text = shown()
        self.assertRegex(text, r"\rreading .*in\.safetensors: 0 seconds")


class Elsewhere(unittest.TestCase):
    def test_a_pipe(self):
        """Where no terminal is, only what say() says is written."""
        out = io.StringIO()
        with mock.patch.object(sys, "stderr", out), mock.patch.object(progress_module, "FIRST", 0.0), \
                mock.patch.object(progress_module, "EVERY", 0.01):
            progress = Progress()
            with progress.stage("writing", 10) as stage:
                stage.advance(5)
                time.sleep(0.1)
            progress.say("done")
            Progress(quiet=True).say("never")
        self.assertEqual(out.getvalue(), "done\n")

    def test_lines(self):
        for given, expected in (
                (("a", None, None, 0.0), "a: 10 seconds"),
                (("a", 100, "texts", 0.0, 0, 25), "a: 25 of 100 texts, 2.5 a second, 30 seconds left"),
                (("a", None, "texts", 0.0, 0, 25), "a: 25 texts, 2.5 a second"),
                (("a", 40_000_000, None, 0.0, 10_000_000, 20_000_000), "a: 20.0 MB of 40.0 MB, 1.0 MB/s, 20 seconds left"),
                (("a", 40, "texts", 0.0, 0, 40), "a: 40 of 40 texts, 4.0 a second")):
            with self.subTest(expected):
                self.assertEqual(Stage(*given).line(10.0), expected)

    def test_written(self):
        """The writer reports the bytes of each tensor."""
        with tempfile.TemporaryDirectory() as folder:
            counts = []
            write_safetensors(Path(folder) / "x", {"a": np.zeros(10, np.float32), "b": np.zeros(3, np.float16)}, written=counts.append)
            self.assertEqual(counts, [40, 6])
            counts.clear()
            write_safetensors(Path(folder) / "x", {"b": np.zeros(3, np.float16)}, widen=True, written=counts.append)
            self.assertEqual(counts, [12])


if __name__ == "__main__":
    unittest.main()
