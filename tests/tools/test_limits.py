"""Tests limits of the converter: small files that would take much time or memory. test_hostile_python has files that are wrong."""

import json
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import import_path  # noqa: F401

from convert import charsmap, checkpoints_huggingface, sentencepieces
from convert.untrusted import ConvertError, absent_files


def cyclic(values):
    """Returns a charsmap of 100 kB: each letter leads to the root's letters again, and has a value if values is 1."""
    units = [0] * 512
    units[0], units[256] = 256 << 10, 1 << 31
    for letter in range(1, 256):
        node = 256 ^ letter
        units[node] = (256 ^ node) << 10 | values << 8 | letter
    return struct.pack("<I512I", 2048, *units) + b"x" * 100000 + b"\0"


class Large(unittest.TestCase):
    """Small files that would take much time or memory."""

    def test_many_shards(self):
        """An index that lists 300,000 files which are not there: the first is named within two seconds of CPU."""
        with tempfile.TemporaryDirectory() as folder:
            names = {f"t{i}": f"model-{i:06}.safetensors" for i in range(300000)}
            (Path(folder) / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
            began = time.process_time()
            with self.assertRaisesRegex(ConvertError, "model-000000.safetensors: missing, .*300000 of 300000 shards"):
                checkpoints_huggingface.read_weights(Path(folder))
            self.assertLess(time.process_time() - began, 3)  # 1 s on a quiet machine
            for wrong in ("../x.safetensors", "a/b.safetensors", ".."):
                with self.subTest(wrong), self.assertRaisesRegex(ConvertError, "no file of this directory"):
                    absent_files(Path(folder), ["model.safetensors.index.json", wrong])
            self.assertEqual(absent_files(Path(folder), ["model.safetensors.index.json", "x", "y"]), ["x", "y"])

    def test_charsmaps(self):
        """A charsmap whose trie leads back to itself, and one whose keys all become the same long text."""
        for values, message in ((0, "keys without end"), (1, "too many rules, or too long ones")):
            with self.subTest(message), self.assertRaisesRegex(ConvertError, message):
                charsmap.read(cyclic(values))
        script = ("import resource\n"
                  "from test_limits import charsmap, cyclic, ConvertError\n"
                  "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                  "for values in (0, 1):\n"
                  "    try: charsmap.read(cyclic(values))\n"
                  "    except ConvertError: pass\n"
                  "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n")
        grown = subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=Path(__file__).parent, check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        self.assertLess(int(grown), 100000)  # kB

    def test_many_normalizers(self):
        steps = [{"type": "Nmt"}] * 17
        with self.assertRaisesRegex(ConvertError, "17 normalizers with tables, more than 16"):
            sentencepieces.read_normalizer({"normalizer": {"type": "Sequence", "normalizers": steps},
                                            "pre_tokenizer": {"type": "Metaspace"}})


if __name__ == "__main__":
    unittest.main()
