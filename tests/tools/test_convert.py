#!/usr/bin/env python3
"""Tests of tools/convert.py that need no PyTorch: python tests/tools/test_convert.py, after make

The tests convert directories of CTranslate2, of Marian and of Hugging Face's tokenizers with random weights
through the command line. file_model.py computes a model from its file alone, as the model file is defined,
and must give the numbers of the engine that the directory belongs to. Needs what
tools/requirements-oracles.txt lists. A test that needs files outside this checkout is skipped with a message
where they are missing. test_convert_torch.py has the other tests.
"""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

# One thread for each engine: on a busy machine, engines whose threads wait for each other take minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ctranslate2  # noqa: E402
import numpy as np  # noqa: E402
import sentencepiece  # noqa: E402
import tokenizers  # noqa: E402

from file_model import Model, log_softmax  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
import import_path  # noqa: E402, F401
from convert import checking  # noqa: E402
from convert import main as convert  # noqa: E402
import pickled  # noqa: E402
from convert.modelfile import (BF16, CONFIG_KEYS, DECODING_KEYS, position_table, to_bf16,  # noqa: E402
                       write_safetensors)
from convert.sentencepieces import read_pieces, write_pieces  # noqa: E402
from convert.untrusted import read_safetensors  # noqa: E402
from convert.writer import write_file  # noqa: E402

SHARED = Path(os.environ.get("SHARED", ROOT.parent / "shared"))
REAL = SHARED / "real"
FORWARD, TRANSLATE, QUANTIZE = (ROOT / "build" / name for name in ("forward", "translate",
                                                                   "quantize"))


def raw(tensor):
    return tensor.tobytes()


class ConvertTest(unittest.TestCase):
    check = False  # whether to compare with the engine of the checkpoint

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.safetensors"

    def run_convert(self, source, *arguments):
        """Runs the command line within this process, because starting Python takes longer than a test."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            check = [] if self.check else ["--no-check"]
            status = convert.main([str(source), str(self.out), *check, *arguments])
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

    def save(self, tensors):
        path = self.folder / "in.safetensors"
        write_safetensors(path, tensors)
        return path

    def load(self, path):
        return Model(path)

    def convert(self, state, *arguments):
        source = state if isinstance(state, Path) else self.save(state)
        self.done = self.run_convert(source, *arguments)
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.check_form()
        return self.load(self.out)

    def refuse(self, state, *arguments):
        """Converts, which must fail with exit code 1 and write no file; returns the reasons."""
        source = state if isinstance(state, Path) else self.save(state)
        done = self.run_convert(source, *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("out*")], [])
        return done.stderr

    def check_form(self):
        """Checks the format's rules for bytes: a padded header, no holes, aligned wide types."""
        raw = self.out.read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        self.assertEqual(raw[8:9], b"{")
        self.assertEqual((8 + length) % 64, 0)
        header = json.loads(raw[8:8 + length])
        metadata = list(header.pop("__metadata__"))
        self.assertEqual(metadata[0], "transformer.config")
        self.assertLessEqual(set(metadata[1:]), {"license", "source", "revision"})
        entries = sorted(header.values(), key=lambda entry: entry["data_offsets"])
        ends = [entry["data_offsets"][1] for entry in entries]
        self.assertEqual([entry["data_offsets"][0] for entry in entries], [0] + ends[:-1])
        self.assertEqual(8 + length + ends[-1], len(raw))
        widths = {"F32": 4, "U32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1}
        found = [widths[entry["dtype"]] for entry in entries]
        self.assertEqual(found, sorted(found, reverse=True))

    def check_logits(self, model, reference, src, tgt):
        self.check_near("logits", model.forward(src, tgt), reference)

    def check_near(self, what, result, reference, limit=1e-5):
        distance = np.abs(np.asarray(result) - np.asarray(reference)).max()
        print(f"{self.id().split('.')[-1]}: {what} differ by {distance:.2g}")
        self.assertLess(distance, limit)


# ---------------------------------------------------------------------- checkpoints of somebody's own
class Own(ConvertTest):
    """Tests what a person meets who saved a module under names of their own."""

    ANSWERS = ("--heads=2", "--set=norm=post", "--set=activation=relu", "--set=positions=none", "--set=embedding_scale=1",
               "--set=src_pad=0", "--set=tgt_pad=0", "--set=start=1", "--set=end=2", "--set=src_start=none",
               "--set=src_end=none", "--src-vocab=none")

    def whole(self, rows=9):
        """Returns a whole model; the generator has that many rows, and the target embedding has nine."""
        random, tensors = np.random.default_rng(7), stacks()
        for name, shape in (("src_embed.weight", (9, 8)), ("tgt_embed.weight", (9, 8)), ("generator.weight", (rows, 8)),
                            ("generator.bias", (rows,))):
            tensors[name] = random.normal(size=shape).astype("f4")
        return tensors

    def saved(self, wrap, tensors=None):
        return pickled.save(self.folder / "in.pt", self.whole() if tensors is None else tensors, wrap=wrap)

    def test_the_only_nested_state_dict(self):
        plain = self.convert(self.saved(lambda made: made), *self.ANSWERS)
        numbers = {"lr": 1, "step": 2}
        for wrap in (lambda made: {"epoch": 3, "net": made},
                     lambda made: {"args": numbers, "weights_of_ema": made, "optimizer": {"state": {0: made}, "groups": [numbers]}},
                     lambda made: {"checkpoint": {"generator_net": made, "epoch": 1}}):
            model = self.convert(self.saved(wrap), *self.ANSWERS)
            self.assertEqual(sorted(model.t), sorted(plain.t))
            for name in plain.t:
                self.assertTrue(np.array_equal(model.t[name], plain.t[name]), name)

    def test_two_nested_state_dicts(self):
        def both(made):
            return {"epoch": 3, "net": made, "ema": made}
        self.assertIn("2 encoder stacks: net.transformer.encoder, ema.transformer.encoder; choose the model with --prefix",
                      self.refuse(self.saved(both), *self.ANSWERS))
        self.convert(self.saved(both), *self.ANSWERS, "--prefix=ema.")

    def test_the_command_with_blanks(self):
        source = self.saved(lambda made: made, {**self.whole(), "odd.weight": np.zeros((3, 5), "f4")})
        said = self.refuse(source, "--set", "norm=pre", "--set", "source=my own")
        line = said.strip().split("\n")[-1]
        self.assertTrue(line.endswith(
            f" {source} {self.out} --no-check --set norm=pre --set 'source=my own' --heads ... "
            "--set activation=... --set positions=... --set embedding_scale=... --set src_start=... --set src_end=... "
            "--set src_pad=... --set start=... --set end=... --set tgt_pad=... --src-vocab ... --map odd.weight=..."), line)
        self.assertIn(shlex.split(line)[0], ("python", sys.executable))

    def test_a_command_is_never_cut(self):
        """Lines of messages have a limit, which must not take tensors out of a command."""
        odd = {f"odd.{'x' * 40}{i}.weight": np.zeros((3, 5), "f4") for i in range(60)}
        said = self.refuse(self.saved(lambda made: made, {**self.whole(), **odd}), *self.ANSWERS)
        self.assertEqual(re.findall(r"--map (\S+)=\.\.\.", said.strip().split("\n")[-1]), list(odd))

    def test_a_generator_of_other_rows(self):
        said = self.refuse(self.saved(lambda made: made, self.whole(7)), *self.ANSWERS)
        self.assertIn("generator.weight [7, 8] float32 is not the generator: tgt_embed.weight has 9 rows", said)
        self.assertNotIn("--map generator.weight=generator.weight", said)

    def test_a_vocabulary_of_characters(self):
        vocabulary = self.folder / "characters.txt"
        vocabulary.write_text("".join(f"{each}\n" for each in ("<pad>", "<s>", "</s>", *"abcdef")))
        options = *self.ANSWERS, f"--src-vocab={vocabulary}"
        self.convert(self.saved(lambda made: made), *options)
        self.assertRegex(self.done.stderr, "6 of the 9 tokens.*'a'.*--set src_text=characters --set tgt_text=characters")
        self.convert(self.saved(lambda made: made), *options, "--set=src_text=characters", "--set=tgt_text=characters")
        self.assertNotIn("characters", self.done.stderr)


# ---------------------------------------------------------------------------------- OUT itself
def stacks(d=8, f=12, layers=1):
    """Returns an encoder and a decoder under nn.Transformer's names, for --core."""
    random, tensors = np.random.default_rng(2), {}
    for side in ("encoder", "decoder"):
        for layer in (f"transformer.{side}.layers.{i}" for i in range(layers)):
            for name in ["self_attn"] + ["multihead_attn"] * (side == "decoder"):
                tensors[f"{layer}.{name}.in_proj_weight"] = random.normal(size=(3 * d, d))
                tensors[f"{layer}.{name}.out_proj.weight"] = random.normal(size=(d, d))
            tensors[f"{layer}.linear1.weight"] = random.normal(size=(f, d))
            tensors[f"{layer}.linear2.weight"] = random.normal(size=(d, f))
    return {name: tensor.astype("f4") for name, tensor in tensors.items()}


class Words(unittest.TestCase):
    """The words of the config must be the same here and in the tables of transformer.h."""

    def test_words_of_the_header(self):
        header = (ROOT / "transformer.h").read_text()
        for key, table in (("norm", "norm_order"), ("layer_norm", "norm_kind"), ("activation", "activation"),
                           ("positions", "position"), ("src_language", "language"), ("tgt_text", "text"),
                           ("stop", "stop"), ("repetition", "repetition")):
            row = re.search(rf'TFM__ENUM\(tfm__{table}_words, \w+, \w+,([^)]+)\)', header)[1]
            kind = {**CONFIG_KEYS, **DECODING_KEYS}[key]
            with self.subTest(key):
                self.assertGreater(len(kind.values), 1)
                self.assertEqual(tuple(re.findall(r'"(\w+)"', row)), kind.values + kind.old)


class Sentences(unittest.TestCase):
    """README's families that translate sentences, and those that read whole texts."""

    def test_every_family_is_in_the_table(self):
        from convert.checkpoints_huggingface import FAMILIES
        from convert.modelfile import SENTENCES
        # whose sources are pictures, or sound
        self.assertEqual(set(FAMILIES) - set(SENTENCES), {"trocr", "canary_decoder", "cohere_asr"})
        split = {"marian", "m2m_100", "mbart", "fsmt", "argos", "opennmt", "ctranslate2", "madlad", "seamless_m4t",
                 "seamless_m4t_v2"}
        self.assertEqual({family for family, word in SENTENCES.items() if word == "split"}, split)
        self.assertLessEqual({"pegasus", "bart", "led", "mvp", "plbart", "blenderbot", "t5", "mt5", "umt5", "whisper"},
                             {family for family, word in SENTENCES.items() if word == "whole"})


class Modules(unittest.TestCase):
    """Tests how the modules of tools/convert depend on each other."""

    FOLDER = ROOT / "tools" / "convert"

    def imports(self, path):
        """Returns the modules of the package that a module imports, also those within functions."""
        names = {one.stem for one in self.FOLDER.glob("*.py")}
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found |= {one.name for one in node.names} if not node.module else {node.module.split(".")[-1]}
            elif isinstance(node, ast.Import):
                found |= {one.name.split(".")[-1] for one in node.names if one.name.startswith("convert.")}
        return found & names

    def test_no_module_imports_itself_through_others(self):
        imports = {one.stem: self.imports(one) for one in self.FOLDER.glob("*.py")}
        self.assertIn("modelfile", imports["main"])
        while True:  # without the modules that import no module which is left
            ends = {name for name, others in imports.items() if not others & imports.keys()}
            if not ends:
                break
            imports = {name: others for name, others in imports.items() if name not in ends}
        self.assertEqual(imports, {}, "each of these imports another one of these")

    def test_no_module_is_too_long(self):
        for path in self.FOLDER.glob("*.py"):
            with self.subTest(path.name):
                self.assertLessEqual(len(path.read_text().splitlines()), 1000)


class Writing(ConvertTest):
    """OUT must be written whole or not at all, and only where a regular file is or may be."""

    OPTIONS = "--core", "--heads=2", "--set=norm=post", "--set=activation=relu"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_a_device_or_a_pipe_is_left_as_it_is(self):
        source, before = self.save(stacks()), []
        kinds = {"fifo": lambda path: os.mkfifo(path), "folder": lambda path: os.mkdir(path)}
        if os.geteuid() == 0:  # a null device made by the test
            kinds["null"] = lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        for kind, make in kinds.items():
            with self.subTest(kind):
                try:
                    make(self.folder / kind)
                except PermissionError:
                    self.skipTest("no device can be made here")
                self.check_refused(source, kind, "is not a regular file")

    def check_refused(self, source, name, reason):
        self.out, before = self.folder / name, self.names()
        mode = os.lstat(self.out).st_mode
        done = self.run_convert(source, *self.OPTIONS)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"convert.py: {self.out}: {reason}\n"))
        self.assertEqual((self.names(), os.lstat(self.out).st_mode), (before, mode))

    def test_a_link_is_left_as_it_is(self):
        source, target = self.save(stacks()), self.folder / "target"
        self.out.symlink_to(target)
        for _ in range(2):  # a link to no file, and a link to a file
            self.check_refused(source, self.out.name, "is a symbolic link, name the file itself")
            target.write_bytes(b"precious")
        self.assertEqual(target.read_bytes(), b"precious")

    def test_permissions_stay(self):
        self.out.write_bytes(b"old")
        self.out.chmod(0o640)
        self.assertEqual(self.run_convert(self.save(stacks()), *self.OPTIONS).returncode, 0)
        self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), 0o640)

    def test_a_planted_part_is_not_followed(self):
        source, victim = self.save(stacks()), self.folder / "victim"
        victim.write_text("precious")
        for part in ("out.safetensors.part", f"out.safetensors.part{os.getpid()}"):
            with self.subTest(part):
                (self.folder / part).symlink_to(victim)
                done = self.run_convert(source, *self.OPTIONS)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(victim.read_text(), "precious")
                self.assertTrue((self.folder / part).is_symlink())

    def test_a_failure_leaves_nothing(self):
        self.out.write_bytes(b"old")

        def fails(error):
            yield b"half"
            raise error

        for error in (OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()):
            with self.assertRaises(type(error)):
                write_file(self.out, fails(error))
            self.assertEqual((self.names(), self.out.read_bytes()), (["out.safetensors"], b"old"))

    def test_a_signal_while_it_writes(self):
        code = ("import sys, time; sys.path.insert(0, sys.argv[1])\n"
                "from convert import main as convert, modelfile\n"
                "def slowly(path, head, data, **more):\n"
                "    def parts():\n"
                "        for one in data:\n"
                "            print('writes', flush=True); yield one; time.sleep(60)\n"
                "    write(path, head, parts(), **more)\n"
                "write, modelfile.write_file = modelfile.write_file, slowly\n"
                "sys.exit(convert.main(sys.argv[2:]))\n")
        source = self.save(stacks())
        for number, expected in ((signal.SIGINT, (130, "convert.py: interrupted\n")),
                                 (signal.SIGTERM, (143, "")), (signal.SIGHUP, (129, ""))):
            child = subprocess.Popen([sys.executable, "-c", code, str(ROOT / "tools"), str(source),
                                      str(self.out), *self.OPTIONS], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True,
                                     # a shell's & ignores SIGINT, nohup ignores SIGHUP
                                     preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
            self.assertIn("writes\n", iter(child.stdout.readline, ""))
            self.assertEqual(len(list(self.folder.glob("out*.part*"))), 1)
            child.send_signal(number)
            _, told = child.communicate(timeout=30)
            self.assertEqual((child.returncode, told), expected)
            self.assertEqual(self.names(), ["in.safetensors"])

    def test_packed(self):
        """The bytes must be those of build/quantize --packed."""
        if not QUANTIZE.exists():
            self.skipTest(f"no {QUANTIZE}: make it first")
        source, plain = ct2_source(self.folder), self.folder / "plain.safetensors"
        self.assertEqual(self.run_convert(source).returncode, 0)
        self.out.rename(plain)
        for kind in ("int8", "bf16", "f32"):
            expected = self.folder / f"{kind}.packed"
            subprocess.run([QUANTIZE, plain, expected, kind, "--packed"], check=True,
                           capture_output=True)
            done = self.run_convert(source, f"--packed={kind}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.out.read_bytes(), expected.read_bytes())
            self.out.unlink()
        there, convert.QUANTIZE = convert.QUANTIZE, self.folder / "quantize"
        try:
            self.assertIn(f"--packed needs {self.folder / 'quantize'}: run make", self.refuse(source, "--packed=int8"))
        finally:
            convert.QUANTIZE = there

    def test_check(self):
        """A model whose numbers differ from its engine's must not be written, in any precision; --force
        writes it. Without an engine or build/forward it must be written, and the reason printed."""
        if not FORWARD.exists() or not QUANTIZE.exists():
            self.skipTest(f"no {FORWARD} or {QUANTIZE}: make them first")
        source, self.check = ct2_source(self.folder), True
        there, wrong = self.names(), "--set=norm=post"
        for form in ((), ("--dtype=f32",), ("--dtype=f16",), ("--dtype=bf16",), ("--packed=int8",),
                     ("--dtype=f16", "--packed=int8")):
            with self.subTest(form):
                done = self.run_convert(source, *form)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                difference = float(re.search(r"differ by at most (\S+)", done.stdout)[1])
                self.assertLess(difference, 2e-5)
                self.out.write_bytes(b"precious")
                done = self.run_convert(source, *form, wrong)
                self.assertEqual((done.returncode, self.out.read_bytes()), (1, b"precious"))
                self.assertIn("the check failed", done.stderr)
                self.assertIn("more than rounding makes", done.stderr)
                self.out.unlink()
                self.assertEqual(self.names(), there)
                done = self.run_convert(source, *form, wrong, "--force")
                self.assertEqual(done.returncode, 0)
                self.assertIn("warning: the check failed", done.stderr)
                self.assertEqual(self.load_header(self.out)["norm"], "post")
                self.out.unlink()
        with mock.patch.dict(sys.modules, {"ctranslate2": None}):
            done = self.run_convert(source, wrong)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("check: not made: the package ctranslate2 is not installed", done.stdout)
        self.out.write_bytes(b"precious")
        with mock.patch.object(checking, "run_forward", side_effect=RuntimeError("broken engine")):
            done = self.run_convert(source)
            self.assertEqual((done.returncode, self.out.read_bytes()), (1, b"precious"))
            self.assertIn("the engine raised RuntimeError('broken engine'); --no-check leaves the check out", done.stderr)
            self.check = False
            self.assertEqual(self.run_convert(source).returncode, 0)

    def test_a_file_that_does_not_load_is_not_written(self):
        if not FORWARD.exists():
            self.skipTest(f"no {FORWARD}: make it first")
        source, self.check = ct2_source(self.folder), True
        with mock.patch.object(convert, "missing_tensors", lambda *_: []), mock.patch.object(
                convert.Model, "put", lambda model, new, old, tensor, put=convert.Model.put:
                None if new == "decoder.layers.2.linear2.weight" else put(model, new, old, tensor)):
            self.assertIn("decoder.layers.2.linear2.weight", self.refuse(source))

    def load_header(self, path):
        return json.loads(read_safetensors(path)[1]["transformer.config"])

    def test_numpy_and_yaml_are_enough(self):
        """Everything must convert without other packages, pickles too."""
        code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
                "class Refuse:\n"
                "    def find_spec(self, name, path=None, target=None):\n"
                "        if name.split('.')[0] in ('torch', 'transformers', 'safetensors', 'google',\n"
                "                                  'sentencepiece', 'ctranslate2', 'huggingface_hub'):\n"
                "            raise ImportError(name)\n"
                "sys.meta_path.insert(0, Refuse())\n"
                "from convert import main as convert\n"
                "sys.exit(convert.main(sys.argv[2:]))\n")
        hf_write(self.folder / "hf", "m2m_100", 40)
        case = MarianCase()
        case.folder, case.out = self.folder, self.out
        shutil.copytree(self.folder / "hf", self.folder / "bin")
        weights = self.folder / "bin" / "model.safetensors"
        pickled.save(weights.with_name("pytorch_model.bin"), read_safetensors(weights)[0], pickled.write_legacy)
        weights.unlink()
        for source in (self.save(stacks()), pickled.save(self.folder / "in.pt", stacks()),
                       ct2_source(self.folder), self.folder / "hf", self.folder / "bin",
                       case.directory(case.arrays())[0]):
            core = self.OPTIONS if source.suffix else ()
            done = subprocess.run([sys.executable, "-c", code, str(ROOT / "tools"), str(source),
                                   str(self.out), "--no-check", *core], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            written = read_safetensors(self.out)[0]
            previous = written if source.suffix == ".safetensors" or source.name == "hf" else previous
            if source.name in ("in.pt", "bin"):
                self.assertTrue(all(np.array_equal(written[name], previous[name]) for name in previous))

    def test_pytorch_is_not_imported(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from convert import main as convert\n"
                "status = convert.main(sys.argv[2:])\n"
                "sys.exit(status or 'torch' in sys.modules)\n")
        done = subprocess.run([sys.executable, "-c", code, str(ROOT / "tools"),
                               str(self.save(stacks())), str(self.out), *self.OPTIONS],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


# ------------------------------------------------------------------------------- CTranslate2
CT2_TYPES = {"f32": 0, "int8": 1, "int16": 2, "int32": 3, "f16": 4, "bf16": 5}
CT2_WIDTHS = {"f32": 4, "int8": 1, "int16": 2}


def ct2_random(d=24, f=40, heads=4, layers=(2, 3), vs=23, vt=29, **attributes):
    """A random model under CTranslate2's names: arrays by name, and attributes as they are stored."""
    def linear(name, rows, columns):
        return {f"{name}/weight": 0.3 * np.random.randn(rows, columns).astype("f4"),
                f"{name}/bias": 0.5 * np.random.randn(rows).astype("f4")}

    def norm(name):
        return {f"{name}/gamma": 1 + 0.2 * np.random.randn(d).astype("f4"),
                f"{name}/beta": 0.2 * np.random.randn(d).astype("f4")}

    v = {"encoder/embeddings_0/weight": np.random.randn(vs, d).astype("f4") * 0.3,
         "decoder/embeddings/weight": np.random.randn(vt, d).astype("f4") * 0.3,
         **norm("encoder/layer_norm"), **norm("decoder/layer_norm"),
         **linear("decoder/projection", vt, d)}
    for side, count in zip(("encoder", "decoder"), layers):
        v[f"{side}/num_heads"] = np.int16(heads)
        v[f"{side}/pre_norm"] = np.int8(1)
        v[f"{side}/activation"] = np.int8(0)
        v[f"{side}/scale_embeddings"] = np.int8(1)
        for layer in (f"{side}/layer_{i}" for i in range(count)):
            v.update({**linear(f"{layer}/self_attention/linear_0", 3 * d, d),
                      **linear(f"{layer}/self_attention/linear_1", d, d),
                      **norm(f"{layer}/self_attention/layer_norm"),
                      **linear(f"{layer}/ffn/linear_0", f, d),
                      **linear(f"{layer}/ffn/linear_1", d, f), **norm(f"{layer}/ffn/layer_norm")})
            if side == "decoder":
                v.update({**linear(f"{layer}/attention/linear_0", d, d),
                          **linear(f"{layer}/attention/linear_1", 2 * d, d),
                          **linear(f"{layer}/attention/linear_2", d, d),
                          **norm(f"{layer}/attention/layer_norm")})
    v["encoder/embeddings_merge"] = np.int8(0)
    v["decoder/alignment_layer"], v["decoder/alignment_heads"] = np.int16(-1), np.int16(1)
    for name, value in attributes.items():
        v[name.replace("__", "/")] = value
    return v


def ct2_quantize(variables, kind, rounding=np.rint):
    """Stores weights in int8 with a scale for each row, in int16 with one scale, or as f16 or bf16."""
    result = dict(variables)
    for name, value in variables.items():
        if kind in ("f16", "bf16") and value.ndim:
            result[name] = value.astype("f2") if kind == "f16" else to_bf16(value)
        elif kind in ("int8", "int16") and name.endswith("weight"):
            largest = np.abs(value).max(axis=1) if kind == "int8" else np.abs(value).max()
            scale = ((127 if kind == "int8" else 1024) / largest).astype("f4")
            rows = scale[:, None] if kind == "int8" else scale
            result[name] = rounding(value * rows).astype("i1" if kind == "int8" else "i2")
            result[f"{name}_scale"] = scale
    return result


def ct2_bytes(variables, version=6, spec="TransformerSpec", revision=7, aliases=()):
    """Writes model.bin in any of its versions, from its description."""
    def text(name):
        return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"

    out = struct.pack("<I", version) + text(spec) + struct.pack("<II", revision, len(variables))
    for name, value in variables.items():
        kind = "bf16" if value.dtype == BF16 else {
            "f4": "f32", "i1": "int8", "i2": "int16", "i4": "int32", "f2": "f16"}[
                value.dtype.str[1:]]
        raw = value.tobytes()
        out += text(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        if version >= 4:
            out += struct.pack("<BI", CT2_TYPES[kind], len(raw)) + raw
        else:
            width = CT2_WIDTHS[kind]
            out += struct.pack("<BI", width, len(raw) // width) + raw
    if version >= 3:
        out += struct.pack("<I", len(aliases))
        for alias, name in aliases:
            out += text(alias) + text(name)
    return out


def ct2_source(folder):
    """Writes a CTranslate2 directory of random weights into the folder."""
    case = CTranslate2Case()
    case.folder = folder
    np.random.seed(11)
    return case.directory(ct2_random())


class CTranslate2Case(ConvertTest):
    def setUp(self):
        super().setUp()
        np.random.seed(11)

    def directory(self, variables, vs=23, vt=29, config=None, **form):
        """Writes the files of a model; the vocabularies are <s> </s> <unk> a3 a4 ... and b3 b4 ..."""
        folder = self.folder / "ct2"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "model.bin").write_bytes(ct2_bytes(variables, **form))
        special = ["<s>", "</s>", "<unk>"]
        for side, letter, n in (("source", "a", vs), ("target", "b", vt)):
            tokens = special + [f"{letter}{i}" for i in range(3, n)]
            if form.get("version", 6) >= 6:
                (folder / f"{side}_vocabulary.json").write_text(json.dumps(tokens))
            else:
                (folder / f"{side}_vocabulary.txt").write_text("\n".join(tokens) + "\n")
        if form.get("version", 6) >= 6:
            tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                      "decoder_start_token": "<s>", "add_source_bos": False,
                      "add_source_eos": False, "layer_norm_epsilon": None}
            (folder / "config.json").write_text(json.dumps({**tokens, **(config or {})}))
        return folder

    def check_scores(self, folder, *arguments, limit=2e-5):
        """Compares the log-probabilities of given targets, by the engine and from the file. The engine reads
        the directory that the test wrote, which tests the form of model.bin too."""
        model = self.convert(folder, *arguments)
        engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
        vs, vt = (len(model.t[f"{side}_embedding.weight"]) for side in ("src", "tgt"))
        lines = {}
        for side in ("src", "tgt"):
            text = model.t.get(f"{side}_vocabulary", model.t["src_vocabulary"])
            lines[side] = raw(text).decode().splitlines()
        config, worst = model.config, 0
        for _ in range(4):
            src, tgt = (list(np.random.randint(3, n, 6)) for n in (vs, vt))
            expected = engine.score_batch([[lines["src"][i] for i in src]],
                                          [[lines["tgt"][i] for i in tgt]])[0].log_probs
            ids = [config[key] for key in ("src_start",) if key in config] + src
            ids += [config[key] for key in ("src_end",) if key in config]
            logits = model.forward([ids], [[config["start"]] + tgt])
            scores = log_softmax(logits[0])[range(7), tgt + [config["end"]]]
            worst = max(worst, np.abs(scores - expected).max())
        print(f"{self.id().split('.')[-1]}: log-probabilities differ by {worst:.2g}")
        self.assertLess(worst, limit)
        return model

    def check_package(self, kinds):
        """Fills the package's own specification, and lets the package quantize and save it."""
        from ctranslate2.specs import TransformerSpec
        from ctranslate2.specs.model_spec import index_spec
        for kind in kinds:
            spec = TransformerSpec.from_config((2, 3), 4)
            for name, value in ct2_random().items():
                parent, _, leaf = name.rpartition("/")
                if value.ndim:
                    setattr(index_spec(spec, parent), leaf, value)
            for side in ("source", "target"):
                tokens = ["<unk>", "<s>", "</s>"] + [str(i) for i in range(3, 50)]
                getattr(spec, f"register_{side}_vocabulary")(tokens[:23 if side[0] == "s" else 29])
            spec.validate()
            spec.optimize(quantization=kind)
            folder = self.folder / f"saved_{kind}"
            folder.mkdir()
            spec.save(str(folder))
            with self.subTest(kind):
                model = self.check_scores(folder)
                self.assertEqual((model.config["start"], model.config["end"]), (1, 2))


class CTranslate2(CTranslate2Case):
    def test_binary_versions(self):
        for version in (2, 3, 4, 5, 6):
            with self.subTest(version):
                model = self.check_scores(self.directory(ct2_random(), version=version, revision=5))
                self.assertEqual(model.config["norm"], "pre")
                self.assertEqual(model.config["positions"], "sinusoidal_halves")
                self.assertEqual(model.config["start"], 0)
                self.assertEqual(model.config["end"], 1)
                self.assertEqual(model.config["src_unk"], 2)
                self.assertEqual(model.config["sentences"], "split")

    def test_sentences(self):
        """Whole texts are read by BART, PEGASUS and T5, which the directory does not name. MADLAD is a T5 with languages."""
        bart = {**ct2_random(), "encoder/pre_norm": np.int8(0), "decoder/pre_norm": np.int8(0)}
        bart = {name: value for name, value in bart.items() if not re.fullmatch("(en|de)coder/layer_norm/.*", name)}
        self.assertEqual(self.convert(self.directory(bart)).config["sentences"], "split")
        for side in ("encoder", "decoder"):
            for leaf in ("gamma", "beta"):
                bart[f"{side}/layernorm_embedding/{leaf}"] = np.random.randn(24).astype("f4")
        self.assertEqual(self.convert(self.directory(bart)).config["sentences"], "whole")
        self.assertEqual(self.convert(self.directory(bart), "--set=sentences=split").config["sentences"], "split")
        t5 = {name: value for name, value in ct2_random().items() if not name.endswith(("beta", "bias"))}
        for side, count in (("encoder", 2), ("decoder", 3)):
            for i in range(count):
                at = f"{side}/layer_{i}/self_attention/relative_attention"
                t5[f"{at}_bias"] = np.ones((8, 4), "f4")
                t5[f"{at}_max_distance"] = np.int32(20)
        for variables, tokens, word in ((ct2_random(), ["<mask_1>"], "whole"), (ct2_random(), ["<unk_2>"], "whole"),
                                        (ct2_random(), ["<2fr>", "<2de>"], "split"), (t5, ["<2fr>", "<2de>"], "split"),
                                        (t5, ["<2fr>"], "whole"), (t5, [], "whole")):
            folder = self.directory(variables)
            lines = json.loads((folder / "source_vocabulary.json").read_text())
            (folder / "source_vocabulary.json").write_text(json.dumps([*lines[:3], *tokens, *lines[3 + len(tokens):]]))
            self.assertEqual(self.convert(folder, "--set=src_end=</s>").config["sentences"], word, tokens)

    def test_types(self):
        for kind in ("int8", "int16", "f16", "bf16"):
            with self.subTest(kind):
                # The engine rounds f16 and bf16 weights to f32 too.
                model = self.check_scores(self.directory(ct2_quantize(ct2_random(), kind)))
                weight = model.t["encoder.layers.0.linear1.weight"]
                self.assertEqual(weight.dtype, {"f16": np.float16, "bf16": BF16}.get(
                    kind, np.float32))

    def test_tables_of_positions_in_half_precision(self):
        """The engine adds the position table as stored, with its rounding; a formula would give other
        numbers."""
        formula = {"positions": "sinusoidal_halves", "position_divisor": "d/2-1", "position_offset": 1}
        for kind, dtype in (("f16", np.float16), ("bf16", BF16), ("f32", np.float32)):
            with self.subTest(kind):
                variables = ct2_random()
                for side in ("encoder", "decoder"):
                    variables[f"{side}/position_encodings/encodings"] = position_table(
                        40, 24, formula).astype("f4")
                model = self.check_scores(self.directory(ct2_quantize(variables, kind)))
                table = read_safetensors(self.out)[0].get("src_positions.weight")
                if kind == "f32":
                    self.assertEqual((table, model.config["positions"]), (None, "sinusoidal_halves"))
                else:
                    self.assertEqual((table.dtype, model.config["positions"]), (dtype, "learned"))

    def test_int16_without_a_scale(self):
        variables = ct2_random()
        variables["decoder/projection/weight"] = np.full((29, 24), 250, "i2")
        model = self.convert(self.directory(variables))
        self.assertTrue((model.t["generator.weight"] == 0.25).all())

    def test_options_of_the_layers(self):
        sides = ("encoder", "decoder")
        for code, name in ((1, "gelu_tanh"), (2, "swish"), (3, "gelu"),
                           (4, "gelu_sigmoid")):
            variables = ct2_random(**{f"{side}__activation": np.int8(code) for side in sides})
            with self.subTest(name):
                model = self.check_scores(self.directory(variables))
                self.assertEqual(model.config["activation"], name)
        post = ct2_random(**{f"{side}__pre_norm": np.int8(0) for side in sides},
                          **{f"{side}__scale_embeddings": np.float32(1.5) for side in sides})
        for side in sides:
            for leaf in ("gamma", "beta"):
                post[f"{side}/layernorm_embedding/{leaf}"] = post.pop(f"{side}/layer_norm/{leaf}")
            post[f"{side}/position_encodings/encodings"] = np.random.randn(50, 24).astype("f4")
        post["decoder/start_from_zero_embedding"] = np.int8(1)
        model = self.check_scores(self.directory(post, config={
            "add_source_bos": True, "add_source_eos": True, "decoder_start_token": "</s>"}))
        expected = {"norm": "post", "positions": "learned", "embedding_scale": 1.5, "src_start": 0,
                    "src_end": 1, "start": 1, "start_embedding": "zero"}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertIn("src_embedding_norm.weight", model.t)
        self.assertNotIn("encoder.norm.weight", model.t)

    def test_alignment_heads(self):
        for layer, count, expected in ((-1, 1, [[2, 0]]), (0, 2, [[0, 0], [0, 1]]), (2, 0, None),
                                       (-2, 0, [[1, 0], [1, 1], [1, 2]]), (-1, 3, None)):
            variables = ct2_random(decoder__alignment_layer=np.int16(layer),
                                   decoder__alignment_heads=np.int16(count))
            variables["encoder/num_heads"] = variables["decoder/num_heads"] = np.int16(3)
            config = self.convert(self.directory(variables)).config
            self.assertEqual(config.get("alignment_heads"), expected)
        self.assertIn("alignment_heads 4", self.refuse_directory(
            {**variables, "decoder/alignment_heads": np.int16(4)}))

    def test_tables_and_aliases(self):
        variables = ct2_random(vs=29)
        j, p = np.arange(12), np.arange(60)[:, None]
        angle = p * 10000.0 ** (-j / 12)
        table = np.concatenate([np.sin(angle), np.cos(angle)], 1).astype("f4")
        variables["decoder/position_encodings/encodings"] = table
        aliases = [("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")]
        for name in ("encoder/embeddings_0/weight", "decoder/projection/weight"):
            del variables[name]
            aliases.append((name, "decoder/embeddings/weight"))
        folder = self.directory(ct2_quantize(variables, "int8"), vs=29, aliases=aliases)
        for name in ("source", "target"):
            tokens = json.dumps(["<s>", "</s>", "<unk>"] + [f"t{i}" for i in range(3, 29)])
            (folder / f"{name}_vocabulary.json").unlink()
            (folder / "shared_vocabulary.json").write_text(tokens)
        model = self.check_scores(folder)
        self.assertEqual(model.config["positions"], "sinusoidal_halves")
        self.assertEqual(model.config["position_divisor"], "d")
        self.assertTrue({"tgt_embedding.weight", "generator.weight", "tgt_vocabulary",
                         "src_positions.weight"}.isdisjoint(read_safetensors(self.out)[0]))

    def test_the_package_writes_what_is_read(self):
        self.check_package((None, "int8", "int8_float16", "int16", "float16"))

    def test_old_specifications(self):
        variables = {name: value for name, value in ct2_random().items() if value.ndim}
        variables["encoder/embeddings/weight"] = variables.pop("encoder/embeddings_0/weight")
        form = {"version": 2, "revision": 2}
        model = self.convert(self.directory(variables, spec="TransformerBase", **form))
        self.assertEqual(model.config["n_heads"], 8)
        self.assertIn("n_heads 16", self.refuse_directory(variables, spec="TransformerBig", **form))
        variables["num_heads"], variables["pre_norm"] = np.int8(6), np.int8(0)
        variables["with_source_eos"], variables["with_target_bos"] = np.int8(1), np.int8(0)
        model = self.convert(self.directory(variables, version=4, revision=4))
        expected = {"n_heads": 6, "norm": "post", "src_end": 1, "start": 1, "end": 1}
        self.assertEqual({key: model.config[key] for key in expected}, expected)

    def test_vocabularies(self):
        folder = self.directory(ct2_random(), version=2, revision=5)
        (folder / "source_vocabulary.txt").write_bytes(
            "\r\n".join(["<s>", "</s>"] + [f"a{i}" for i in range(20)]).encode() + b"\r\n")
        tokens = ["<s>", "</s>", "<unk>", "a\tb", "c", "c"] + [f"b{i}" for i in range(23)]
        (folder / "target_vocabulary.txt").unlink()
        (folder / "target_vocabulary.json").write_text(json.dumps(tokens))
        model = self.convert(folder)
        source = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual((source[21], source[22], len(source)), ("a19", "<unk>", 24))
        self.assertEqual(model.config["src_unk"], 22)
        target = raw(model.t["tgt_vocabulary"]).decode().split("\n")
        self.assertEqual(target[3:6], ["<id 3>", "c", "<id 5>"])
        (folder / "target_vocabulary.json").write_text(json.dumps(tokens[:-1]))
        self.out.unlink()
        self.assertIn("tgt_vocab_size is 29", self.refuse(folder))

    def refuse_directory(self, variables, **form):
        self.out.unlink(missing_ok=True)
        return self.refuse(self.directory(variables, **form))

    def test_what_is_not_computed_is_named(self):
        attention = "encoder/layer_0/self_attention"
        for name, value in ((f"{attention}/relative_position_keys", np.zeros((5, 6), "f4")),
                            (f"{attention}/rotary_dim", np.int32(4)),
                            ("encoder/multi_query_attention", np.int8(1)),
                            ("decoder/alibi", np.int8(1)),
                            ("decoder/project_in/weight", np.zeros((24, 24), "f4")),
                            ("decoder/layer_0/attention/relative_attention_bias",
                             np.zeros((8, 4), "f4")),
                            ("encoder/embeddings_1/weight", np.zeros((5, 24), "f4")),
                            ("decoder/something/weight", np.zeros((5, 24), "f4"))):
            self.assertIn(name, self.refuse_directory({**ct2_random(), name: value}))
        for name, value, reason in (("decoder/num_heads", np.int16(2), "num_heads is 4"),
                                    ("decoder/activation", np.int8(6), "activation 6 (sigmoid)"),
                                    ("decoder/scale_embeddings", np.int8(0), "in the encoder")):
            self.assertIn(reason, self.refuse_directory({**ct2_random(), name: value}))
        both = {f"{side}/activation": np.int8(6) for side in ("encoder", "decoder")}
        self.assertIn("sigmoid", self.refuse_directory({**ct2_random(), **both}))
        self.assertIn("WhisperSpec", self.refuse_directory(ct2_random(), spec="WhisperEncoderSpec"))
        self.assertIn("Whisper's is 3", self.refuse_directory(ct2_random(), spec="WhisperSpec"))
        plain = ct2_random()
        del plain["encoder/layer_0/ffn/layer_norm/beta"]
        self.assertIn("two kinds of norms", self.refuse_directory(plain))
        gated = {**ct2_random(), "encoder/layer_0/ffn/linear_0_noact/weight": np.zeros((40, 24), "f4")}
        self.assertIn("encoder.layers.1.linear1_gate.weight", self.refuse_directory(gated))
        lacking = ct2_random()
        del lacking["decoder/layer_1/ffn/linear_0/weight"]
        self.assertIn("decoder.layers.1.linear1.weight", self.refuse_directory(lacking))
        folder = self.directory(ct2_random(), config={"decoder_start_token": None})
        self.convert(folder)
        self.assertIn("--set start=TOKEN", self.done.stderr)
        model = self.convert(folder, "--set=start=b7", "--set=src_end=</s>")
        self.assertEqual((self.done.stderr, model.config["start"]), ("", 7))

    def test_t5(self):
        """Tests norms without a bias, a gate, tables of relative positions and scaled outputs."""
        t5 = {name: value for name, value in ct2_random().items()
              if not name.endswith(("beta", "bias"))}
        for side, count in (("encoder", 2), ("decoder", 3)):
            table = np.random.randn(8, 4).astype("f4")
            for i in range(count):
                t5[f"{side}/layer_{i}/self_attention/relative_attention_bias"] = table
                t5[f"{side}/layer_{i}/self_attention/relative_attention_max_distance"] = np.int32(20)
                t5[f"{side}/layer_{i}/self_attention/queries_scale"] = np.float32(1)
                t5[f"{side}/layer_{i}/ffn/linear_0_noact/weight"] = np.random.randn(40, 24).astype("f4")
            t5[f"{side}/scale_embeddings"] = np.int8(0)
        t5["decoder/layer_0/attention/queries_scale"] = np.float32(1)
        t5["decoder/scale_outputs"] = np.float32(24 ** -0.5)
        model = self.convert(self.directory(t5), "--set=src_end=</s>")
        expected = {"layer_norm": "rms_norm", "layer_norm_eps": 1e-6, "positions": "none", "sentences": "whole",
                    "relative_max_distance": 20, "attention_scale": 1, "embedding_scale": 1}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.same(model.t["encoder.relative_positions.weight"],
                  t5["encoder/layer_0/self_attention/relative_attention_bias"])
        self.same(model.t["decoder.layers.2.linear1_gate.weight"],
                  t5["decoder/layer_2/ffn/linear_0/weight"])
        self.same(model.t["decoder.layers.2.linear1.weight"],
                  t5["decoder/layer_2/ffn/linear_0_noact/weight"])
        norm = t5["decoder/layer_norm/gamma"] * np.float32(24 ** -0.5)
        self.same(model.t["decoder.norm.weight"], norm)
        other = "encoder/layer_1/self_attention/relative_attention_bias"
        model = self.convert(self.directory({**t5, other: t5[other] + 1}), "--set=src_end=</s>")
        self.same(model.t["encoder.layers.1.self_attn.relative_positions.weight"], t5[other] + 1)
        distance = "encoder/layer_1/self_attention/relative_attention_max_distance"
        self.assertIn("differs", self.refuse_directory({**t5, distance: np.int32(21)}))

    def same(self, found, expected):
        np.testing.assert_array_equal(np.asarray(found).reshape(-1), expected.reshape(-1))

    def test_broken_files(self):
        folder = self.directory(ct2_random())
        whole = (folder / "model.bin").read_bytes()
        for size in (0, 3, 4, 20, 100, len(whole) // 2, len(whole) - 1):
            (folder / "model.bin").write_bytes(whole[:size])
            self.assertIn("ends at byte", self.refuse(folder))
        (folder / "model.bin").write_bytes(whole + b"x")
        self.assertIn("after the last variable", self.refuse(folder))
        for version in (1, 7, 0x46495247):
            (folder / "model.bin").write_bytes(struct.pack("<I", version) + whole[4:])
            self.assertIn("binary version", self.refuse(folder))
        (folder / "model.bin").write_bytes(whole)
        (folder / "config.json").write_text("{")
        self.assertIn("not JSON", self.refuse(folder))
        (folder / "config.json").unlink()
        (folder / "source_vocabulary.json").unlink()
        self.assertIn("source_vocabulary", self.refuse(folder))
        self.assertIn("model.bin", self.refuse(self.folder))


class Argos(CTranslate2Case):
    """Tests packages of Argos Translate against the ten lines of code that Argos runs with the engine and the
    pieces."""

    TEXT = ("the thing that the cat had was a hat", "a cat and a rat ran to the mat",
            "that man had an ant and the ant had a hat", "no one is there or there is one")

    def package(self, prefix=">>xyz<<", **metadata):
        pieces = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(self.TEXT * 3), model_writer=pieces, vocab_size=40,
            hard_vocab_limit=False, minloglevel=2)
        self.pieces = sentencepiece.SentencePieceProcessor(model_proto=pieces.getvalue())
        tokens = [self.pieces.id_to_piece(i) for i in range(self.pieces.vocab_size())]
        tokens += [prefix] * bool(prefix)
        folder = self.folder / "translate-en_xy-1_9"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        variables = ct2_random(vs=len(tokens), vt=len(tokens))
        variables["decoder/projection/bias"] *= 0.1
        # The two sides write <unk> and <s> differently, so they must not occur.
        variables["decoder/projection/bias"][:2] = -50
        variables["decoder/embeddings/weight"] *= 4
        variables["decoder/projection/weight"] *= 4
        model = self.directory(variables, len(tokens), len(tokens))
        for side in ("source", "target"):
            (model / f"{side}_vocabulary.json").write_text(json.dumps(tokens))
        model.rename(folder / "model")
        (folder / "sentencepiece.model").write_bytes(pieces.getvalue())
        (folder / "stanza").mkdir()
        (folder / "stanza" / "resources.json").write_text("{}")
        values = {"package_version": "1.9", "argos_version": "1.9", "from_code": "en",
                  "from_name": "English", "to_code": "xy", "to_name": "Xyish", **metadata}
        if prefix:
            values["target_prefix"] = prefix
        (folder / "metadata.json").write_text(json.dumps(values))
        return folder

    def zipped(self, folder):
        path = self.folder / "package.argosmodel"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for one in sorted(folder.rglob("*")):
                archive.write(one, one.relative_to(self.folder))
        return path

    def check_translations(self, folder, prefix):
        if not TRANSLATE.exists():
            self.skipTest(f"no {TRANSLATE}: make it first")
        engine = ctranslate2.Translator(str(folder / "model"), compute_type="float32",
                                        intra_threads=1)
        seen = set()
        # greedy, and as argostranslate searches, which the file states
        for options, search in ((["--greedy"], {"beam_size": 1}),
                                ([], {"beam_size": 4, "length_penalty": 0.2})):
            done = subprocess.run([TRANSLATE, str(self.out), *options, "--max-length", "12"],
                                  input="".join(f"{one}\n" for one in self.TEXT),
                                  capture_output=True, text=True)
            for text, found in zip(self.TEXT, done.stdout.split("\n")):
                tokens = engine.translate_batch(
                    [self.pieces.encode(text, out_type=str)], max_decoding_length=12,
                    target_prefix=[[prefix]] if prefix else None, **search)[0].hypotheses[0]
                expected = "".join(tokens).replace("\u2581", " ").removeprefix(prefix).strip()
                self.assertEqual(found, expected, options)
                seen.update(tokens)
        self.assertGreater(len(seen), 3)

    def test_a_folder_and_its_zip(self):
        for prefix in (">>xyz<<", ""):
            folder = self.package(prefix)
            model = self.convert(folder)
            self.assertEqual(model.config.get("forced"),
                             self.pieces.vocab_size() if prefix else None)
            self.assertEqual(model.metadata["source"], "Argos Translate en_xy 1.9")
            self.assertEqual((model.config["source_language"], model.config["target_language"]), ("en", "xy"))
            self.assertEqual(model.config["sentences"], "split")
            self.assertIn("English to Xyish", self.done.stdout)
            self.check_translations(folder, prefix)
            whole = self.out.read_bytes()
            self.convert(self.zipped(folder))
            self.assertEqual(self.out.read_bytes(), whole)

    def test_what_is_refused(self):
        folder = self.package()
        values = json.loads((folder / "metadata.json").read_text())
        for changes, reason in (({"target_prefix": ">>abc<<"}, "target_prefix '>>abc<<'"),
                                ({"type": "sbd"}, "type sbd"),
                                ({"from_code": 5}, "from_code is 5")):
            (folder / "metadata.json").write_text(json.dumps({**values, **changes}))
            self.assertIn(reason, self.refuse(folder))
            self.assertIn(reason, self.refuse(self.zipped(folder)))
        (folder / "metadata.json").write_text(json.dumps(values))
        (folder / "sentencepiece.model").rename(folder / "bpe.model")
        self.assertIn("bpe.model: this package", self.refuse(folder))
        self.assertIn("bpe.model: this package", self.refuse(self.zipped(folder)))
        (folder / "model" / "model.bin").unlink()
        (folder / "bpe.model").rename(folder / "sentencepiece.model")
        self.assertIn("no model/model.bin", self.refuse(folder))


class Aren(ConvertTest):
    """A trained model of CTranslate2, and the engine's results for its own test inputs."""

    @classmethod
    def setUpClass(cls):
        if not (REAL / "aren").is_dir():
            raise unittest.SkipTest(f"no model at {REAL / 'aren'}")
        if not TRANSLATE.exists():
            raise unittest.SkipTest(f"no {TRANSLATE}: make it first")
        text = (REAL / "aren" / "golden.jsonl").read_text()
        cls.rows = [row for row in map(json.loads, text.splitlines())
                    if row["beam_size"] == 1 and row["length_penalty"] == 0]

    def check_rows(self, folder, weights):
        self.convert(folder)
        rows = [row for row in self.rows if row["weights"] == weights]
        lines = "".join(" ".join(row["src"]) + "\n" for row in rows)
        done = subprocess.run([TRANSLATE, str(self.out), "--greedy", "--tokens", "--scores"], input=lines,
                              capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(done.stderr, "")
        worst = 0
        found = done.stdout.splitlines()
        self.assertEqual(len(found), len(rows))
        for row, line in zip(rows, found):
            score, tokens = line.split("\t")
            self.assertEqual(tokens.split(" "), row["hypotheses"][0])
            worst = max(worst, abs(float(score) - row["scores"][0]))
        # Rounding of the printed score adds up to 5e-5. The engine also forbids an empty target: it leaves the
        # end token out of the first step's softmax, which adds about as much.
        print(f"{self.id().split('.')[-1]}: {len(rows)} rows equal, scores differ by {worst:.2g}")
        self.assertLess(worst, 1.5e-4)

    def test_f32(self):
        self.check_rows(REAL / "aren", "f32")

    def test_quantized(self):
        binary = convert.checkpoints_ctranslate2.read_binary(REAL / "aren" / "model.bin")
        for name in ("source_vocabulary.txt", "target_vocabulary.txt"):
            shutil.copyfile(REAL / "aren" / name, self.folder / name)
        # Models of version 2 were quantized this way: truncated, not rounded; all int16 times 1000.
        int16 = {name: np.trunc(value * 1000).astype("i2") if name.endswith("weight") else value
                 for name, value in binary.arrays.items()}
        int8 = ct2_quantize(binary.arrays, "int8", np.trunc)
        for weights, variables in (("i8", int8), ("i16", int16)):
            (self.folder / "model.bin").write_bytes(
                ct2_bytes(variables, version=2, spec="TransformerBase", revision=2))
            with self.subTest(weights):
                self.check_rows(self.folder, weights)


# ----------------------------------------------------------------------------------- Marian
class MarianCase(ConvertTest):
    """Returns random numbers under Marian's names: matrices [in, out], vectors [1, n]. There is no Marian to
    compare with, but another reader of its files."""

    OPTIONS = {"type": "transformer", "transformer-heads": 3, "enc-depth": 2, "dec-depth": 2,
               "transformer-ffn-activation": "swish", "transformer-preprocess": "",
               "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
               "transformer-postprocess-top": "", "transformer-decoder-autoreg": "self-attention",
               "transformer-no-projection": False, "transformer-guided-alignment-layer": "last",
               "tied-embeddings-all": True, "dim-emb": 24}
    LIKE_OTHERS = ("--set=position_divisor=d", "--set=layer_norm_eps=1e-5")

    def setUp(self):
        super().setUp()
        np.random.seed(5)
    def arrays(self, suffix=""):
        """Writes what Marian saves, with random numbers."""
        def draw(*shape):
            return (0.3 * np.random.randn(*shape)).astype("f4")

        out = {"Wemb": draw(39, 24), "decoder_ff_logit_out_b": draw(1, 39)}
        for side in ("encoder", "decoder"):
            attentions = ["self"] + ["context"] * (side == "decoder")
            for new in (f"{side}_l{i}" for i in (1, 2)):
                for name in (f"{new}_{one}" for one in attentions):
                    for letter in "qkvo":
                        out[f"{name}_W{letter}"], out[f"{name}_b{letter}"] = draw(24, 24), draw(1, 24)
                for one, (rows, columns) in (("1", (24, 40)), ("2", (40, 24))):
                    out[f"{new}_ffn_W{one}"] = draw(rows, columns)
                    out[f"{new}_ffn_b{one}"] = draw(1, columns)
                for name in [f"{one}_Wo" for one in attentions] + ["ffn_ffn"]:
                    out[f"{new}_{name}_ln_scale{suffix}"] = 1 + draw(1, 24)
                    out[f"{new}_{name}_ln_bias{suffix}"] = draw(1, 24)
        return out
    def directory(self, arrays, **options):
        folder = self.folder / "marian"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        options = "".join(f"{key}: {json.dumps(value)}\n"
                          for key, value in {**self.OPTIONS, **options}.items())
        np.savez(folder / "model.npz", **arrays, **{
            "special:model.yml": np.frombuffer(options.encode() + b"\0", np.int8)})
        tokens = ["</s>", "<unk>", ",", ".", "'", '"', ":", "a: b", "-", "? x", "\\"]
        tokens += [f"t{i}" for i in range(len(tokens), 39)]
        lines = [f"{json.dumps(token)}: {i}" for i, token in enumerate(tokens)]
        lines[4], lines[12], lines[13] = "''" + "'': 4", "t12: 12", "? t13\n: 13"
        (folder / "vocab.yml").write_text("\n".join(lines) + "\n")
        (folder / "decoder.yml").write_text(
            "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - vocab.yml\n  - vocab.yml\n")
        self.out.unlink(missing_ok=True)
        return folder, tokens


class Marian(MarianCase):
    def test_its_own_numbers(self):
        config = self.convert(self.directory(self.arrays())[0]).config
        self.assertEqual((config["position_divisor"], config["layer_norm_eps"], config["sentences"]), ("d/2-1", 1e-6, "split"))
        self.assertEqual(config["alignment_heads"], [[1, 0]])
        guided = {"transformer-guided-alignment-layer": 1}
        config = self.convert(self.directory(self.arrays(), **guided)[0]).config
        self.assertEqual(config["alignment_heads"], [[0, 0]])
        config = self.convert(self.directory(self.arrays(), **{"allow-unk": True})[0]).config
        self.assertNotIn("suppressed", config)

    def test_another_reader(self):
        """CTranslate2's converter reads the same .npz, and its engine must give the same scores."""
        from ctranslate2.converters import MarianConverter
        for pre in (False, True):
            arrays, options, top = self.arrays("_pre" if pre else ""), {}, {}
            if pre:
                options = {"transformer-preprocess": "n", "transformer-postprocess": "da",
                           "transformer-postprocess-top": "n", "transformer-ffn-activation": "relu",
                           "transformer-postprocess-emb": "nd"}
                for name in (f"{side}_{where}_{leaf}" for side in ("encoder", "decoder")
                             for where in ("top_ln", "emb_ln") for leaf in ("scale", "bias")):
                    value = np.random.randn(1, 24).astype("f4")
                    arrays[f"{name}_pre" if "emb" in name else name] = value
                    top[name] = value
            folder, tokens = self.directory(arrays, **options)
            engine = self.folder / f"engine_{pre}"
            MarianConverter(str(folder / "model.npz"), [str(folder / "vocab.yml")] * 2).convert(
                str(engine))
            model = self.convert(folder, *self.LIKE_OTHERS)
            translator = ctranslate2.Translator(str(engine), compute_type="float32")
            worst = 0
            for _ in range(4):
                src, tgt = (np.random.randint(2, 39, 6).tolist() for _ in range(2))
                scores = translator.score_batch([[tokens[i] for i in src]],
                                                [[tokens[i] for i in tgt]])[0].log_probs
                found = log_softmax(model.forward([src + [0]], [[0] + tgt])[0])[
                    range(7), tgt + [0]]
                worst = max(worst, np.abs(found - scores).max())
            print(f"test_another_reader: log-probabilities differ by {worst:.2g}")
            self.assertLess(worst, 1e-4)

    def test_names_of_hplt(self):
        pieces = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(Argos.TEXT * 3), model_writer=pieces, vocab_size=39,
            hard_vocab_limit=False, eos_id=0, unk_id=1, bos_id=-1, minloglevel=2)
        folder, _ = self.directory(self.arrays())
        whole = self.convert(folder)
        (folder / "model.npz").rename(folder / "model.npz.best-chrf.npz")
        (folder / "model.eu-en.spm").write_bytes(pieces.getvalue())
        (folder / "vocab.yml").unlink()
        (folder / "decoder.yml").unlink()
        (folder / "config.json").write_text('{"model_type": "marian"}')
        (folder / "model.npz.optimizer.npz").write_bytes(b"of the training")
        model = self.convert(folder)
        self.assertEqual((model.config["src_text"], model.config["end"]), ("sentencepiece", 0))
        self.assertEqual(raw(model.t["src_sentencepiece"]), pieces.getvalue())
        for name, tensor in whole.t.items():
            self.assertTrue(name.endswith("vocabulary") or np.array_equal(tensor, model.t[name]))
        (folder / "model.npz.best-chrf.npz.decoder.yml").write_text(
            "models: [/train/model.npz.best-chrf.npz]\nallow-unk: true\n"
            "vocabs: [/train/model.eu-en.spm, /train/model.eu-en.spm]\n")
        self.assertNotIn("suppressed", self.convert(folder).config)

    def test_forms_of_embeddings(self):
        arrays = self.arrays()
        arrays["encoder_Wemb"] = arrays["Wemb"][:20]
        arrays["decoder_Wemb"] = arrays.pop("Wemb")
        arrays["decoder_ff_logit_out_W"] = np.random.randn(24, 39).astype("f4")
        arrays["Wpos"] = np.random.randn(60, 24).astype("f4")
        folder, _ = self.directory(arrays, **{"tied-embeddings-all": False})
        (folder / "vocab.src.yml").write_text("".join(f"s{i}: {i}\n" for i in range(19))
                                              + "</s>: 19\n")
        (folder / "decoder.yml").write_text("models: [model.npz]\n"
                                            "vocabs: [vocab.src.yml, vocab.yml]\n")
        model = self.convert(folder)
        self.assertEqual(model.config["positions"], "learned")
        self.assertEqual((model.config["embedding_scale"], model.config["src_end"]), (1, 19))
        self.assertTrue(np.array_equal(model.t["generator.weight"],
                                       arrays["decoder_ff_logit_out_W"].T))
        self.assertEqual(len(model.t["src_embedding.weight"]), 20)
        self.assertIn("tgt_vocabulary", model.t)

    def test_one_file_and_pieces(self):
        folder, _ = self.directory(self.arrays())
        for name in ("decoder.yml", "vocab.yml"):
            (folder / name).unlink()
        model = self.convert(folder / "model.npz", "--set=end=0")
        self.assertNotIn("src_vocabulary", model.t)
        if (REAL / "sentencepiece").is_dir():
            arrays = self.arrays()
            for name in ("Wemb", "decoder_ff_logit_out_b"):
                shape = (1000, 24) if name == "Wemb" else (1, 1000)
                arrays[name] = np.random.randn(*shape).astype("f4")
            folder, _ = self.directory(arrays)
            shutil.copyfile(REAL / "sentencepiece" / "mozilla_tests_vocab.spm",
                            folder / "vocab.spm")
            (folder / "decoder.yml").write_text("models: [model.npz]\n"
                                                "vocabs: [vocab.spm, vocab.spm]\n")
            model = self.convert(folder)
            self.assertEqual(model.config["src_text"], "sentencepiece")
            self.assertIn("src_sentencepiece", model.t)
            self.assertTrue({"src_vocabulary", "tgt_sentencepiece"}.isdisjoint(model.t))

    def test_what_is_not_computed_is_named(self):
        arrays = self.arrays()
        for options, reason in (({"type": "s2s"}, "type is 's2s'"),
                                ({"transformer-decoder-autoreg": "rnn"}, "autoreg is 'rnn'"),
                                ({"transformer-ffn-activation": "elu"}, "elu"),
                                ({"transformer-postprocess": "dhn"}, "postprocess"),
                                ({"transformer-tied-layers": [1, 1]}, "tied-layers"),
                                ({"transformer-heads": 5}, "n_heads 5"),
                                ({"dec-depth": 3}, "n_decoder_layers is stated as 3")):
            self.assertIn(reason, self.refuse(self.directory(arrays, **options)[0]))
        folder, _ = self.directory({**arrays, "decoder_l1_rnn_U": arrays["Wemb"]})
        self.assertIn("decoder_l1_rnn_U [39, 24]", self.refuse(folder))
        folder, _ = self.directory({**arrays, "decoder_l1_rnn_W": arrays["Wemb"]})
        self.assertIn("both self_attn and ssru", self.refuse(folder))
        folder, _ = self.directory({**arrays, "Wemb": arrays["Wemb"].astype("i1")})
        self.assertIn("Wemb is int8", self.refuse(folder))
        folder, _ = self.directory(arrays)
        (folder / "vocab.yml").write_text("a: 0\nb\n")
        self.assertIn("line 2", self.refuse(folder))
        (folder / "vocab.yml").unlink()
        self.assertIn("vocab.yml: missing", self.refuse(folder))
        folder, _ = self.directory(arrays)
        (folder / "model.npz").write_bytes(b"PK\3\4 not really")
        self.assertIn("not an .npz", self.refuse(folder / "model.npz"))


# ------------------------------------------------------------------------------ Hugging Face
LEARNED = ("bart", "mbart", "plbart", "led", "blenderbot-small")


def hf_write(folder, family, rows, d=4, f=4, **config):
    """Writes a directory of that family with zeros for weights, which is enough for tests of tokenizers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ids = {"marian": {"pad_token_id": rows - 1, "decoder_start_token_id": rows - 1,
                      "eos_token_id": 0, "bad_words_ids": [[rows - 1]]},
           "bart": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
                    "decoder_start_token_id": 2},
           "pegasus": {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}}
    config = {"model_type": family, "encoder_attention_heads": 1, "decoder_attention_heads": 1,
              "scale_embedding": True, "activation_function": "relu",
              **ids.get(family, {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
                                 "decoder_start_token_id": 2}), **config}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.shared.weight": (rows, d)}

    def norm(name):
        shapes.update({f"{name}.weight": (d,), f"{name}.bias": (d,)})

    for side in ("encoder", "decoder"):
        layer = f"model.{side}.layers.0"
        for attention in ["self_attn"] + ["encoder_attn"] * (side == "decoder"):
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes[f"{layer}.{attention}.{part}.weight"] = d, d
                shapes[f"{layer}.{attention}.{part}.bias"] = (d,)
            norm(f"{layer}.{attention}_layer_norm")
        shapes.update({f"{layer}.fc1.weight": (f, d), f"{layer}.fc1.bias": (f,),
                       f"{layer}.fc2.weight": (d, f), f"{layer}.fc2.bias": (d,)})
        norm(f"{layer}.final_layer_norm")
        if family in ("mbart", "m2m_100", "pegasus"):
            norm(f"model.{side}.layer_norm")
        if family in LEARNED:
            norm(f"model.{side}.layernorm_embedding")
            shapes[f"model.{side}.embed_positions.weight"] = 20, d
    write_safetensors(folder / "model.safetensors",
                      {name: np.zeros(shape, "f4") for name, shape in shapes.items()})
    return folder


class T5(ConvertTest):
    """Tests T5, mT5 and UMT5: names, tables, gates, tied tensors, and their texts."""

    def directory(self, rows=300, gated=False, own=False, without=(), pieces=None, **config):
        folder = self.folder / "t5"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tokenizer = config.pop("tokenizer", None)
        config = {"model_type": "t5", "d_model": 6, "d_kv": 5, "d_ff": 7, "num_heads": 2,
                  "num_layers": 2, "relative_attention_num_buckets": 8, "decoder_start_token_id": 0,
                  "pad_token_id": 0, "eos_token_id": 1, **config}
        (folder / "config.json").write_text(json.dumps(config))
        shapes = {"shared.weight": (rows, 6), "lm_head.weight": (rows, 6)}
        for side in ("encoder", "decoder"):
            shapes[f"{side}.final_layer_norm.weight"] = (6,)
            for i in range(2):
                block = f"{side}.block.{i}.layer"
                last = 2 if side == "decoder" else 1
                for k, name in enumerate(["SelfAttention", "EncDecAttention"][:last]):
                    for part in "qkv":
                        shapes[f"{block}.{k}.{name}.{part}.weight"] = 10, 6
                    shapes[f"{block}.{k}.{name}.o.weight"] = 6, 10
                if own or not i:
                    shapes[f"{block}.0.SelfAttention.relative_attention_bias.weight"] = 8, 2
                for name in ("wi_0", "wi_1") if gated else ("wi",):
                    shapes[f"{block}.{last}.DenseReluDense.{name}.weight"] = 7, 6
                shapes[f"{block}.{last}.DenseReluDense.wo.weight"] = 6, 7
                for k in range(last + 1):
                    shapes[f"{block}.{k}.layer_norm.weight"] = (6,)
        random = np.random.default_rng(3)
        self.weights = {name: random.normal(size=shape).astype("f4")
                        for name, shape in shapes.items() if name not in without}
        write_safetensors(folder / "model.safetensors", self.weights)
        if pieces:
            (folder / "spiece.model").write_bytes(pieces)
        if tokenizer:
            (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        self.out.unlink(missing_ok=True)
        return folder

    def check(self, model, name, expected):
        np.testing.assert_allclose(np.asarray(model.t[name]).reshape(expected.shape), expected,
                                   rtol=1e-6)

    def test_tied_and_not(self):
        model = self.convert(self.directory(transformers_version="4.57.6"))
        w = self.weights
        self.check(model, "generator.weight", w["shared.weight"])
        self.check(model, "decoder.norm.weight", w["decoder.final_layer_norm.weight"] * 6 ** -0.5)
        self.check(model, "encoder.norm.weight", w["encoder.final_layer_norm.weight"])
        self.check(model, "decoder.relative_positions.weight",
                   w["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"])
        self.check(model, "decoder.layers.1.multihead_attn.out_proj.weight",
                   w["decoder.block.1.layer.1.EncDecAttention.o.weight"])
        self.check(model, "decoder.layers.1.norm3.weight",
                   w["decoder.block.1.layer.2.layer_norm.weight"])
        config = {"n_heads": 2, "d_key": 5, "norm": "pre", "layer_norm": "rms_norm", "activation": "relu",
                  "positions": "none", "attention_scale": 1, "relative_max_distance": 128,
                  "start": 0, "end": 1, "src_pad": 0}
        self.assertEqual({key: model.config[key] for key in config}, config)
        self.assertNotIn("tgt_pad", model.config)  # The start token is not the pad.
        model = self.convert(self.directory(tie_word_embeddings=False, layer_norm_epsilon=1e-5,
                                            relative_attention_max_distance=40,
                                            pad_token_id=3, gated=True,
                                            feed_forward_proj="gated-gelu"))
        self.check(model, "generator.weight", self.weights["lm_head.weight"])
        self.check(model, "decoder.norm.weight", self.weights["decoder.final_layer_norm.weight"])
        self.check(model, "encoder.layers.1.linear1_gate.weight",
                   self.weights["encoder.block.1.layer.1.DenseReluDense.wi_0.weight"])
        config = {"activation": "gelu_tanh", "layer_norm_eps": 1e-5, "relative_max_distance": 40,
                  "tgt_pad": 3}
        self.assertEqual({key: model.config[key] for key in config}, config)
        model = self.convert(self.directory(model_type="umt5", own=True, gated=True))
        self.check(model, "decoder.layers.1.self_attn.relative_positions.weight",
                   self.weights["decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"])

    def test_both_major_versions(self):
        """Tests which matrix is the generator, and whether the last norm is divided, by the version that
        wrote the config: (version, family, config) and (lm_head is the generator, divided)."""
        four, five = {"transformers_version": "4.40.1"}, {"transformers_version": "5.24.0"}
        for options, own, divided in (
                ({**four, "tie_word_embeddings": True}, False, True),
                ({**four, "tie_word_embeddings": False}, True, False),
                ({**four}, False, True),
                ({**four, "model_type": "mt5", "tie_word_embeddings": True}, False, True),
                ({**four, "model_type": "mt5"}, True, False),
                ({**four, "scale_decoder_outputs": False}, False, True),
                ({**five, "tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False),
                ({**five, "tie_word_embeddings": True, "scale_decoder_outputs": True}, True, True),
                ({**five, "tie_word_embeddings": False}, True, False),
                ({**five}, True, True),
                ({**five, "model_type": "mt5", "scale_decoder_outputs": True}, True, False),
                ({"tie_word_embeddings": True}, True, True)):
            gated = {"gated": True} if options.get("model_type") == "mt5" else {}
            model = self.convert(self.directory(**options, **gated))
            w = self.weights
            with self.subTest(options):
                self.check(model, "generator.weight",
                           w["lm_head.weight" if own else "shared.weight"])
                self.check(model, "decoder.norm.weight",
                           w["decoder.final_layer_norm.weight"] * (6 ** -0.5 if divided else 1))
                self.assertEqual("no transformers_version" in self.done.stdout,
                                 "transformers_version" not in options)
        model = self.convert(self.directory(without=("lm_head.weight",), **five,
                                            tie_word_embeddings=False))
        self.check(model, "generator.weight", self.weights["shared.weight"])

    def test_fields(self):
        """A key that may be a field and has no row must be refused; other keys are printed."""
        newer = {"transformers_version": "5.25.0", "wave_length": 3}
        said = self.refuse(self.directory(**newer))
        self.assertIn("wave_length is 3", said)
        self.assertIn("--ignore-key wave_length", said)
        self.convert(self.directory(**newer), "--ignore-key", "wave_length")
        self.assertIn("wave_length is left out, as --ignore-key says", self.done.stdout)
        self.convert(self.directory(transformers_version="5.24.0", wave_length=3, n_positions=512))
        self.assertIn("keys that no version of transformers reads: wave_length, n_positions",
                      self.done.stdout)
        self.out.unlink()
        self.assertIn("neither config.json nor generation_config.json has that key",
                      self.refuse(self.directory(), "--ignore-key", "wave_length"))
        for key, value in (("is_decoder", True), ("tie_encoder_decoder", True), ("pruned_heads", {
                "0": [1]}), ("sliding_window", 4)):
            said = self.refuse(self.directory(**{key: value}))
            self.assertIn(f"{key} is {value}, which transformer.h does not compute", said)
        self.convert(self.directory(is_decoder=True), "--ignore-key", "is_decoder")
        self.out.unlink()
        folder = self.directory()
        (folder / "generation_config.json").write_text(json.dumps(
            {"transformers_version": "6.0.0", "num_beams": 2, "dream": 1}))
        said = self.refuse(folder)
        self.assertIn("dream is 1", said)
        self.convert(folder, "--ignore-key", "dream")
        self.convert(folder, "--set", "decoding=none")
        self.out.unlink()
        self.assertIn("two names of one number", self.refuse(self.directory(hidden_size=8)))
        self.assertIn("not a Hugging Face directory", self.refuse(
            folder / "model.safetensors", "--ignore-key", "dream"))

    def test_only_source_of_decoding(self):
        """Tests generation_config.json, where it exists; its pad is not the encoder's."""
        folder = self.directory(transformers_version="5.24.0", forced_bos_token_id=9, num_beams=3,
                                suppress_tokens=[4], bad_words_ids=[[5]], pad_token_id=3)
        model = self.convert(folder)
        self.assertEqual((model.config["forced"], model.config["suppressed"],
                          model.config["decoding"]["beam"]), (9, [4, 5], 3))
        (folder / "generation_config.json").write_text(json.dumps(
            {"eos_token_id": 1, "decoder_start_token_id": 0, "pad_token_id": 7, "max_length": 9}))
        model = self.convert(folder)
        self.assertNotIn("forced", model.config)
        self.assertNotIn("suppressed", model.config)
        self.assertEqual(model.config["decoding"], {"max_length": 8})
        self.assertEqual(model.config["src_pad"], 3)
        two = {"eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1, "max_length": 2}
        for said, reason in (({**two, "max_length": 9, "forced_bos_token_id": 1}, "forced_bos_token_id is 1, which is an end token"),
                             ({**two, "max_length": 9, "forced_bos_token_id": [1]}, "forced_bos_token_id is 1, which is an end token"),
                             ({**two, "forced_bos_token_id": 5}, "forced_bos_token_id and forced_eos_token_id both determine")):
            (folder / "generation_config.json").write_text(json.dumps(said))
            self.out.unlink(missing_ok=True)
            message = self.refuse(folder)
            self.assertIn(reason, message)
            self.assertIn("--set decoding=none", message)
            self.convert(folder, "--set", "decoding=none")
        for said in (two, {**two, "max_length": 3, "forced_bos_token_id": 5}):
            (folder / "generation_config.json").write_text(json.dumps(said))
            self.assertEqual(self.convert(folder).config["decoding"], {"max_length": said["max_length"] - 1, "force_end": 1})

    def test_refused(self):
        table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        for options, reason in (
                (dict(without=(table,)), "encoder.relative_positions.weight is missing"),
                (dict(without=("encoder.final_layer_norm.weight",)), "encoder.norm.weight"),
                (dict(gated=True), "a gate, but feed_forward_proj is relu"),
                (dict(feed_forward_proj="gated-silu"), "linear1_gate.weight is missing"),
                (dict(feed_forward_proj="gated-tanh"), "feed_forward_proj gated-tanh"),
                (dict(feed_forward_proj="a-b-c"), "feed_forward_proj a-b-c"),
                (dict(relative_attention_num_buckets=9), "the shapes say 8"),
                (dict(num_heads=5, d_kv=2), "n_heads is 5"),
                (dict(d_kv=0), "d_kv is 0"),
                (dict(model_type="umt5", gated=True), "layers.1.self_attn.relative"),
                (dict(model_type="longt5"), "model_type longt5: an encoder whose")):
            self.assertIn(reason, self.refuse(self.directory(**options)))

    def test_texts(self):
        byt5 = {"tokenizer_class": "ByT5Tokenizer"}
        model = self.convert(self.directory(tokenizer=byt5))
        self.assertEqual([model.config[key] for key in ("src_text", "tgt_text", "byte_offset",
                                                        "src_end")], ["bytes", "bytes", 3, 1])
        self.assertEqual(model.config["sentences"], "whole")
        self.assertEqual(self.convert(self.directory(tokenizer=byt5), "--set", "sentences=split").config["sentences"], "split")
        self.assertIn("--set sentences=some: sentences takes one of split, whole",
                      self.refuse(self.directory(tokenizer=byt5), "--set", "sentences=some"))
        self.assertIn("has 200 rows", self.refuse(self.directory(rows=200, tokenizer=byt5)))
        pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), ("<2fr>", 0.0, 4),
                  ("<2de>", 0.0, 4), ("<2zh_Hant>", 0.0, 4), ("\u2581a", -1.0, 1), ("b", -2.0, 1)]
        model_file = write_pieces(pieces, 1, 2, b"", True, True, False)
        none = {"extra_ids": 0}
        model = self.convert(self.directory(rows=12, pieces=model_file, tokenizer=none))
        self.assertEqual((model.config["languages"], model.config["src_language"]),
                         ({"fr": 3, "de": 4, "zh_Hant": 5}, "target"))
        self.assertEqual(model.config["sentences"], "split")  # MADLAD
        self.assertNotIn("src_vocabulary", model.t)
        extra = {"added_tokens_decoder": {str(8 + i): {"content": f"<extra_id_{2 - i}>"}
                                          for i in range(3)}}
        model = self.convert(self.directory(rows=12, pieces=model_file, tokenizer=extra))
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[8:11], ["<extra_id_2>", "<extra_id_1>", "<extra_id_0>"])
        # </s>, <unk> and <pad> give no text; tokens without flags count as normalized; <2fr> is a piece of the user.
        self.assertEqual(model.t["src_added"].tolist(),
                         [[0, 4], [1, 4], [2, 4], [3, 0], [4, 0], [5, 0], [8, 16], [9, 16], [10, 16]])


TEXTS = ["Hello world.", "  Two  spaces , and a tab\there ", "Ünïcödé ﬁ ½ Ⅳ ①…", "naïve — “quotes”",
         "我是学生。", "1234567890 99.5%", "emoji 😀 and ﷺ", "don't", "", "▁literal", "e\u0301",
         "a very long antidisestablishmentarianism", "Ĥéļļõ", "tab\u00a0nbsp\u3000wide"]


class TokenizerCase(ConvertTest):
    """Compares the ids of a text by the tokenizer of a directory with those by the tokenizer in the model
    file. There the SentencePiece model splits the text, and the vocabulary next to it, if any, turns
    spellings into ids."""

    @classmethod
    def setUpClass(cls):
        if not REAL.is_dir():
            raise unittest.SkipTest(f"no tokenizers at {REAL}")
        cls.processor, cls.tokenizers = sentencepiece.SentencePieceProcessor, tokenizers

    def directory(self, family, rows, *files, **settings):
        """Writes a model with that many ids, and files of a tokenizer: (from, to)."""
        folder = self.folder / family
        hf_write(folder, family, rows)
        for old, new in files:
            shutil.copyfile(REAL / old, folder / new)
        if settings:
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        self.out.unlink(missing_ok=True)
        return folder

    def cut(self, model, text, side="src"):
        t, config = model.t, model.config
        own = t.get(f"{side}_sentencepiece", t.get("src_sentencepiece"))
        processor = self.processor(model_proto=raw(own))
        ids = processor.encode(text)
        lines = t.get(f"{side}_vocabulary", t.get("src_vocabulary"))
        if lines is not None:
            lines = raw(lines).decode().split("\n")[:-1]
            known = {line: at for at, line in enumerate(lines)}
            ids = [known.get(processor.id_to_piece(at), config["src_unk"]) for at in ids]
        around = [[config[key]] if key in config else [] for key in ("src_start", "src_end")]
        return around[0] + ids + around[1]

    def check_texts(self, model, encode, texts=TEXTS, side="src"):
        for text in texts:
            if text.strip():
                self.assertEqual(self.cut(model, text, side), encode(text), text)

    def marian(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm",
                                                              "vocab.json")]
        folder = self.directory("marian", 54688, *names)
        model = self.convert(folder)
        self.assertEqual(model.config["src_text"], "sentencepiece")
        self.assertEqual({name for name in model.t if "_" in name and "." not in name},
                         {"src_sentencepiece", "tgt_sentencepiece", "src_vocabulary", "src_added"})
        self.assertEqual(model.config["src_end"], 0)
        self.assertEqual(model.config["src_unk"], 1)
        return folder, model

    def marian_of_many_languages(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm")]
        folder = self.directory("marian", 40, *names)
        (folder / "vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 1, ">>fra<<": 2,
                                                       ">>ita<<": 3, "▁the": 4, "<pad>": 39}))
        model = self.convert(folder)
        self.assertEqual(model.config["languages"], {"fra": 2, "ita": 3})
        self.assertEqual(model.config["src_language"], "target")
        self.assertNotIn("tgt_language", model.config)
        self.assertIn(">>xxx<<, is translated with these characters as text", self.done.stdout)
        model = self.convert(folder, "--set=src_start=>>ita<<")
        self.assertEqual((self.done.stderr, model.config["src_start"]), ("", 3))
        self.assertTrue({"languages", "src_language"}.isdisjoint(model.config))
        return folder, model

    def m2m_100(self):
        source = "sentencepiece/opennmt_sp.model", "sentencepiece.bpe.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>"] + [pieces.id_to_piece(at)
                                                         for at in range(3, 7000)]
        folder = self.directory("m2m_100", 7110, source)
        (folder / "vocab.json").write_text(json.dumps({one: at for at, one
                                                       in enumerate(vocabulary)}))
        languages = [f"__{one}__" for one in ("af", "am", "en")]
        (folder / "special_tokens_map.json").write_text(json.dumps(
            {"additional_special_tokens": languages}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"src_lang": "am"}))
        config = self.convert(folder).config
        self.assertEqual(config["languages"], {"af": 7001, "am": 7002, "en": 7003})
        model = self.convert(folder, "--set=forced=__en__", "--set=src_start=__am__")
        self.assertEqual((model.config["src_start"], model.config["forced"]), (7002, 7003))
        return folder, model, pieces, vocabulary


class TokenizerFiles(TokenizerCase):
    def test_marian(self):
        folder, model = self.marian()
        ids = json.loads((folder / "vocab.json").read_text())
        for side, name in (("src", "source"), ("tgt", "target")):
            pieces = self.processor(model_file=str(folder / f"{name}.spm"))
            self.check_texts(model, lambda text: [ids.get(one, 1) for one in pieces.encode(
                text, out_type=str)] + [0], side=side)

    def test_marian_of_a_pair(self):
        folder, _ = self.marian()
        settings = folder / "tokenizer_config.json"
        stated = json.loads(settings.read_text()) if settings.is_file() else {}
        for source, target, expected in (("en", "mg", ("en", "mg")), ("en", "", ("en", None)), (None, "a b", (None, None))):
            settings.write_text(json.dumps({**stated, "source_lang": source, "target_lang": target}))
            config = self.convert(folder).config
            self.assertEqual((config.get("source_language"), config.get("target_language")), expected)

    def test_marian_of_many_languages(self):
        _, model = self.marian_of_many_languages()
        self.assertNotIn("target_language", model.config)
        self.assertEqual(self.cut(model, "the")[:2], [3, 4])

    def test_beside_ctranslate2(self):
        folder = self.folder / "ct2"
        folder.mkdir()
        (folder / "model.bin").write_bytes(ct2_bytes(ct2_random(vt=23)))
        tokens = ["<unk>", "<s>", "</s>", ".", ",", "▁the"] + [f"x{i}" for i in range(17)]
        (folder / "shared_vocabulary.json").write_text(json.dumps(tokens))
        shutil.copyfile(REAL / "sentencepiece" / "opennmt_sp.model",
                        folder / "sentencepiece.bpe.model")
        model = self.convert(folder)
        self.assertEqual(model.config["tgt_text"], "sentencepiece")
        self.assertEqual(self.cut(model, ",."), [4, 3])

    def test_two_vocabularies(self):
        names = [(f"opus-mt-en-mg/{name}", name) for name in ("source.spm", "target.spm",
                                                              "vocab.json")]
        folder = self.directory("marian", 54688, *names)
        vocabulary = json.loads((folder / "vocab.json").read_text())
        (folder / "target_vocab.json").write_text(json.dumps(
            {token: 54687 - at for token, at in vocabulary.items()}))
        model = self.convert(folder)
        lines = raw(model.t["tgt_vocabulary"]).decode().split("\n")
        self.assertEqual((lines[0], lines[54687]), ("<pad>", "</s>"))

    def test_fairseq_ids(self):
        """Tests mBART with its SentencePiece model alone: piece k is id k + 1. The model puts no space before a text, but
        MBart50Tokenizer of transformers always does."""
        source = "sentencepiece/opennmt_sp.model", "sentencepiece.bpe.model"
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
        spaced = ModelProto.FromString((REAL / source[0]).read_bytes())
        spaced.normalizer_spec.add_dummy_prefix = True
        pieces = self.processor(model_proto=spaced.SerializeToString())
        languages = ["ar_AR", "cs_CZ", "en_XX"]
        folder = self.directory("mbart", 8006, source, tokenizer_class="MBart50Tokenizer",
                                additional_special_tokens=languages)
        model = self.convert(folder, "--set=src_start=en_XX", "--set=forced=cs_CZ")
        self.assertEqual(self.done.stderr, "")
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[:5], ["<s>", "<pad>", "</s>", "<unk>", pieces.id_to_piece(3)])
        self.assertEqual(lines[8000:8005], [pieces.id_to_piece(7999), *languages, "<mask>"])
        self.assertEqual((model.config["src_start"], model.config["forced"]), (8003, 8002))
        self.check_texts(model, lambda text: [8003, *(
            3 if at == 0 else at + 1 for at in pieces.encode(text)), 2])
        self.assertIn("a space goes before each text", self.done.stdout)
        config = self.convert(folder).config
        expected = {"languages": {"ar_AR": 8001, "cs_CZ": 8002, "en_XX": 8003},
                    "src_language": "source", "tgt_language": "forced", "src_end": 2}
        self.assertEqual({key: config[key] for key in expected}, expected)
        self.assertTrue({"src_start", "forced"}.isdisjoint(config))
        config = self.convert(folder, "--set=forced=cs_CZ").config
        self.assertEqual((config["src_language"], config["forced"]), ("source", 8002))
        self.assertNotIn("tgt_language", config)
        folder = self.directory("mbart", 8005, source, tokenizer_class="MBartTokenizer",
                                additional_special_tokens=languages, src_lang="cs_CZ")
        self.convert(folder)
        self.assertIn("</s> cs_CZ after its text", self.done.stderr)

    def test_plbart(self):
        """The ids are mBART's. The languages behind the pieces are PLBart's own, and are put after a source."""
        source = "sentencepiece/opennmt_sp.model", "sentencepiece.bpe.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        folder = self.directory("plbart", 8005, source)
        model = self.convert(folder)
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[8000:8005], [pieces.id_to_piece(7999), "__java__", "__python__",
                                            "__en_XX__", "<mask>"])
        self.assertNotIn("languages", model.config)
        self.check_texts(model, lambda text: [*(3 if at == 0 else at + 1
                                                for at in pieces.encode(text)), 2])
        (folder / "tokenizer_config.json").write_text('{"language_codes": "multi"}')
        self.convert(folder)
        self.assertIn("</s> __en_XX__ after its text", self.done.stderr)

    def test_fsmt(self):
        """Each side has a vocabulary and no pieces, so texts are tokens."""
        folder = self.directory("fsmt", 6)
        for side in ("src", "tgt"):
            (folder / f"vocab-{side}.json").write_text(json.dumps(
                {token: at for at, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", f"{side}</w>"])}))
        path = folder / "model.safetensors"
        tensors = read_safetensors(path)[0]
        shared = tensors.pop("model.shared.weight")
        for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
            tensors[f"model.{name}.weight"] = shared + len(name)
        write_safetensors(path, tensors)
        self.assertIn("--set src_text=words --set tgt_text=words converts", self.refuse(folder))
        model = self.convert(folder, "--set", "src_text=words", "--set", "tgt_text=words")
        self.assertEqual([raw(model.t[f"{side}_vocabulary"]).decode().split("\n")[4]
                          for side in ("src", "tgt")], ["src</w>", "tgt</w>"])
        expected = {"src_text": "words", "src_end": 2, "src_unk": 3, "position_offset": 2}
        self.assertEqual({key: model.config[key] for key in expected}, expected)
        self.assertNotIn("src_start", model.config)
        self.assertIn("generator.weight", model.t)

    def test_m2m_100(self):
        _, model, pieces, vocabulary = self.m2m_100()
        self.check_texts(model, lambda text: [7002, *(
            vocabulary.index(one) if one in vocabulary else 3
            for one in pieces.encode(text, out_type=str)), 2])

    def test_pegasus(self):
        source = "sentencepiece/opennmt_sp.model", "spiece.model"
        pieces = self.processor(model_file=str(REAL / source[0]))
        model = self.convert(self.directory("pegasus", 8104, source))
        lines = raw(model.t["src_vocabulary"]).decode().split("\n")
        self.assertEqual(lines[:5], ["<pad>", "</s>", "<mask_1>", "<mask_2>", "<unk_2>"])
        self.assertEqual((lines[104], lines[106]), ("<unk_102>", pieces.id_to_piece(3)))
        self.assertEqual(model.config["src_end"], 1)

    def save_tokenizer(self, folder, data, merges=None, charsmap=True, added=()):
        """Writes a tokenizer.json with the pieces of a SentencePiece model, by the package tokenizers."""
        from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers,
                                pre_tokenizers)
        files = convert.checkpoints_huggingface.tokenizer_files
        read = files.parse_model(data, "data")
        scored = [(piece.piece, piece.score) for piece in read.pieces]
        table = read.normalizer_spec.precompiled_charsmap
        if merges is None:
            unk = [piece for piece, _ in scored].index("<unk>")
            tokenizer = Tokenizer(models.Unigram(scored, unk, False))
        else:
            tokenizer = Tokenizer(models.BPE({piece: at for at, (piece, _) in enumerate(scored)},
                                             merges, unk_token="<unk>", fuse_unk=True))
        steps = [normalizers.Precompiled(table)] if charsmap else []
        tokenizer.normalizer = normalizers.Sequence(
            steps + [normalizers.Strip(), normalizers.Replace(self.tokenizers.Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
        tokenizer.add_special_tokens([AddedToken(one, special=True)
                                      for one in ("<unk>", "</s>", *added)])
        tokenizer.save(str(folder / "tokenizer.json"))
        return tokenizer

    def test_tokenizer_json_unigram(self):
        folder = self.directory("marian", 32010)
        data = (REAL / "sentencepiece" / "bergamot_vocab.deen.spm").read_bytes()
        tokenizer = self.save_tokenizer(folder, data, added=["<mask>"])
        model = self.convert(folder)
        self.assertEqual({name for name in model.t if "_" in name and "." not in name},
                         {"src_sentencepiece", "src_added"})
        self.check_texts(model, lambda text: tokenizer.encode(text).ids + [0])
        processor = self.processor(model_proto=raw(model.t["src_sentencepiece"]))
        self.assertTrue(processor.is_control(32000))
        self.assertEqual((processor.id_to_piece(32000), processor.unk_id()), ("<mask>", 1))

    def test_tokenizer_json_bpe(self):
        folder = self.directory("marian", 32010)
        data = (REAL / "sentencepiece" / "bergamot_vocab.csen.spm").read_bytes()
        pieces = read_pieces(data, "data")
        known = {piece: at for at, piece in enumerate(pieces) if at > 1}
        merges = [(piece[:at], piece[at:]) for piece in known for at in range(1, len(piece))
                  if piece[:at] in known and piece[at:] in known]
        tokenizer = self.save_tokenizer(folder, data, merges)
        model = self.convert(folder)
        self.check_texts(model, lambda text: tokenizer.encode(text).ids + [0])
        self.save_tokenizer(folder, data, merges[:-1000:2])
        self.out.unlink()
        self.assertIn("BPE merges without", self.refuse(folder))
        self.assertEqual(self.convert(folder, "--set", "src_text=words", "--set", "tgt_text=words").config["src_text"], "words")

    def test_tokenizer_json_of_other_kinds(self):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        folder = self.directory("bart", 40)
        tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        tokenizer.save(str(folder / "tokenizer.json"))
        self.assertIn("a vocabulary without the byte 0x0", self.refuse(folder))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
        self.assertIn("the pre-tokenizer Whitespace", self.refuse(folder))
        model = self.convert(folder, "--set", "src_text=words", "--set", "tgt_text=words")
        self.assertEqual(model.config["src_text"], "words")
        self.assertTrue(raw(model.t["src_vocabulary"]).startswith(b"a\nb\nab\n<id 3>\n"))
        self.out.unlink()
        (folder / "tokenizer.json").write_text('{"model": {"vocab": 3}}')
        self.assertIn("not what transformers and tokenizers write", self.refuse(folder))

    def test_broken_files(self):
        source = "sentencepiece/opennmt_sp.model", "spiece.model"
        folder = self.directory("pegasus", 8104, source)
        whole = (folder / "spiece.model").read_bytes()
        for broken in (b"", b"\n", whole[:1000], b"\x0f" + whole):
            (folder / "spiece.model").write_bytes(broken)
            self.assertIn("not a SentencePiece model", self.refuse(folder))


class G2P(ConvertTest):
    """A trained BART that maps English spelling to sounds, and PyTorch's results for 200 words."""

    @classmethod
    def setUpClass(cls):
        if not (REAL / "g2p-us").is_dir():
            raise unittest.SkipTest(f"no model at {REAL / 'g2p-us'}")
        if not TRANSLATE.exists() or not FORWARD.exists():
            raise unittest.SkipTest(f"no {TRANSLATE} or {FORWARD}: make them first")

    def setUp(self):
        super().setUp()
        self.t = self.convert(REAL / "g2p-us").t

    def test_numbers(self):
        golden = read_safetensors(REAL / "g2p-us" / "golden.safetensors")[0]
        write_safetensors(self.folder / "in", {name: golden[name].astype("i4") for name in (
            "src", "tgt", "src_lengths", "tgt_lengths")})
        subprocess.run([FORWARD, self.out, self.folder / "in", self.folder / "result"], check=True)
        result = read_safetensors(self.folder / "result")[0]
        for name, lengths in (("memory", golden["src_lengths"]),
                              ("logits", golden["tgt_lengths"])):
            inside = np.arange(golden[name].shape[1]) < lengths[:, None]
            self.check_near(name, result[name][inside], golden[name][inside], 1e-4)

    def test_words(self):
        text = (REAL / "g2p-us" / "golden.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        source, target = (raw(self.t[f"{side}_vocabulary"]).decode().split("\n")
                          for side in ("src", "tgt"))
        lines = "".join(" ".join(source[i] for i in row["src"][1:-1]) + "\n" for row in rows)
        run = {"capture_output": True, "text": True, "encoding": "utf-8"}
        done = subprocess.run([TRANSLATE, self.out, "--tokens", "--scores"], input=lines, **run)
        self.assertEqual(done.stderr, "")
        worst = 0
        found = done.stdout.splitlines()
        self.assertEqual(len(found), len(rows))
        for row, line in zip(rows, found):
            score, tokens = line.split("\t")
            ids = [1, *(target.index(token) for token in tokens.split(" ")), 2]
            self.assertEqual(ids, row["tgt"])
            worst = max(worst, abs(float(score) - row["log_prob"]))
        print(f"test_words: {len(rows)} words equal, log-probabilities differ by {worst:.2g}")
        self.assertLess(worst, 1e-3)
        words = "".join(row["word"] + "\n" for row in rows)
        done = subprocess.run([TRANSLATE, self.out], input=words, **run)
        self.assertEqual([line.removeprefix("<s>") for line in done.stdout.splitlines()],
                         [row["phonemes"] for row in rows])


if __name__ == "__main__":
    unittest.main(warnings="ignore")
