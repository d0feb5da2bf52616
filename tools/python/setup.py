"""The header, and of tools/ what writes model files, come into the package when it is built: from the
repository around this folder, or from the source distribution, which holds copies."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
ROOT = HERE if (HERE / "transformer.h").exists() else HERE.parent.parent
WRITERS = ("modelfile", "untrusted", "writer")  # of tools/, for transformer_h.export
VERSION = re.search(r'^#define TFM_VERSION "(.*)"',
                    (ROOT / "transformer.h").read_text(encoding="utf-8"), re.MULTILINE)[1]


class BuildWithHeader(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib) / "transformer_h"
        (package / "include").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "transformer.h", package / "include")
        (package / "_tools").mkdir(exist_ok=True)
        (package / "_tools" / "__init__.py").write_text("")
        for name in WRITERS:  # scripts there, modules of a package here
            text = (ROOT / "tools" / f"{name}.py").read_text(encoding="utf-8")
            text = re.sub(rf"^from ({'|'.join(WRITERS)}) import", r"from .\1 import", text,
                          flags=re.MULTILINE)
            (package / "_tools" / f"{name}.py").write_text(text, encoding="utf-8")


class SdistWithHeader(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for folder in ("tools", "examples"):
            (Path(base_dir) / folder).mkdir(exist_ok=True)
        for name in ("transformer.h", "LICENSE", "examples/sentences.h", *(f"tools/{one}.py" for one in WRITERS)):
            shutil.copy(ROOT / name, Path(base_dir) / name)


setup(version=VERSION, cmdclass={"build_py": BuildWithHeader, "sdist": SdistWithHeader},
      cffi_modules=["transformer_h/_build.py:ffi"])
