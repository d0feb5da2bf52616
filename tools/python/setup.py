"""When the package is built, it takes the header and the package tools/convert: from the repository around this
folder, or from the source distribution, which has copies."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
ROOT = HERE if (HERE / "transformer.h").exists() else HERE.parent.parent
TRANSLATE, TRANSCRIBE = ROOT / "examples" / "translate", ROOT / "examples" / "transcribe"
HEADERS = [path.relative_to(ROOT).as_posix()
           for path in (*(TRANSLATE / f"{name}.h" for name in ("aligned", "batches", "live_pipeline", "live_translation", "target_ends")), *sorted(TRANSLATE.glob("text/*.h")),
                        *(TRANSCRIBE / f"{name}.h" for name in (
                            "canary", "compression", "fast_conformer",
                            "fast_conformer_load", "guard", "listen", "listen_load", "live", "live_listen", "live_window", "moonshine", "own_words", "place", "sound",
                            "speech", "survey", "track", "transcriber", "vad", "voice", "whisper", "window", "words")),
                        *(ROOT / "tools" / "common" / f"{name}.h" for name in ("find_model", "utf8_files")))]
VERSION = re.search(r'^#define TFM_VERSION "(.*)"',
                    (ROOT / "transformer.h").read_text(encoding="utf-8"), re.MULTILINE)[1]


def copy_converter(target: Path) -> None:
    shutil.copytree(ROOT / "tools" / "convert", target, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))


class BuildWithHeader(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib) / "transformer_h"
        (package / "include").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "transformer.h", package / "include")
        copy_converter(package / "convert")


class SdistWithHeader(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in ("transformer.h", "LICENSE", *HEADERS):
            (Path(base_dir) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(base_dir) / name)
        copy_converter(Path(base_dir) / "tools" / "convert")


setup(version=VERSION, cmdclass={"build_py": BuildWithHeader, "sdist": SdistWithHeader},
      cffi_modules=["transformer_h/_build.py:ffi"])
