"""Packages the library for conan 2: conan create tools/packaging/conan. In a clone of the repository it builds the clone.
In a release conandata.yml is beside it, which names the C package and its checksum: conan create conan --version=..."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import copy, get


class Transformer(ConanFile):
    name = "transformer"
    description = "Runs encoder-decoder Transformers: translation in C and C++"
    license = "MIT OR Unlicense"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    generators = "CMakeToolchain"
    languages = "C"
    implements = ["auto_shared_fpic"]

    def root(self):
        return Path(self.recipe_folder).parents[2]

    def set_version(self):
        if self.conan_data:
            self.version = self.version or next(iter(self.conan_data["sources"]))
            return
        header = (self.root() / "transformer.h").read_text(encoding="utf-8")
        self.version = re.search(r'^#define TFM_VERSION "(.*)"', header, re.MULTILINE)[1]

    def export_sources(self):
        if self.conan_data:
            return
        for pattern in ("transformer.h", "LICENSE", "tools/CMakeLists.txt", "tools/packaging/*",
                        "tools/common/*.h", "examples/translate/*", "examples/transcribe/*"):
            copy(self, pattern, str(self.root()), self.export_sources_folder)

    def source(self):
        if self.conan_data:
            get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="tools", variables={"TRANSFORMER_TRANSLATE": "OFF"} if self.conan_data else None)
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, str(Path(self.package_folder) / "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["transformer"]
        self.cpp_info.defines = ["TRANSFORMER_LIBRARY"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["m", "pthread"]
