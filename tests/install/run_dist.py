"""Runs each file of build/dist as a user would: on the CPUs that qemu emulates, in wine, in clean environments of each Python
that is here, in Node and in a browser. Every run must give the bits of build/translate and build/transcribe, which the C
compiler of this machine made. make dist calls this; alone: python tests/install/run_dist.py [build/dist [VERSION]]"""

import functools
import glob
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "transformer.h"
MODELS = [(ROOT / "examples/models/de-en.safetensors", "demo-de.txt"), (ROOT / "examples/models/zh-en.safetensors", "demo.txt")]
HEARD = [str(ROOT / "tests/data/transcribe/whisper.safetensors"), str(ROOT / "tests/data/transcribe/noise.wav"), *"""--beam 1
    --format json --temperature 0 --log-prob 0 --compression 0 --no-speech 1""".split()]
LINES = 4  # of each demo: an emulator is slow
X86 = [("SSE2", "qemu64,-sse3,-cx16,-lahf-lm,-svm"), ("SSSE3", "Conroe"), ("SSE4.2", "Nehalem"), ("AVX", "SandyBridge"), ("AVX2", "Haswell"), ("max", "max")]
ARM = ["cortex-a53", "cortex-a72", "cortex-a76", "neoverse-n1", "max"]
ENVIRONMENT = {**os.environ, "WINEDEBUG": "-all", "PYTHONDONTWRITEBYTECODE": "1"}
for one in ("PYTHONPATH", "PIP_CONSTRAINT"):
    ENVIRONMENT.pop(one, None)


# What was never run, besides the files that are listed when they are met
NEVER = ["the package's own tests on the wheel for Linux on aarch64: it has translated in Debian's Python by qemu",
         "the workflows on GitHub: steps for macOS, MSVC and Windows on ARM, the release on a tag and its attestation",
         "the examples for Android and iOS on a phone, with Gradle or with Swift's compiler"]


class Failure(Exception):
    pass


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def output(*command, text="", cwd=None, limit=600):
    """Returns what a program writes to standard output."""
    done = subprocess.run([str(one) for one in command], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                          env=ENVIRONMENT, timeout=limit, encoding="utf-8")
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def same(what, expected, got):
    if expected != got:
        raise Failure(f"{what}: other output\n{expected[:1500]}\n{got[:1500]}")


def demo(name):
    return "".join((ROOT / "examples/translate" / name).read_text(encoding="utf-8").splitlines(True)[:LINES])


def translations(*program):
    """Returns translations with their scores, by a program that may be behind an emulator."""
    return "".join(output(*program, model, "--exact", "--scores", text=demo(text)) for model, text in MODELS)


def unpack(archive, folder):
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as file:
            file.extractall(folder)
    else:
        with tarfile.open(archive) as file:
            file.extractall(folder)
    return next(folder.iterdir())


class Runs:
    def __init__(self, dist, version):
        self.dist, self.version = dist, version
        self.where, self.not_run = {}, []
        self.expected, self.heard = translations(ROOT / "build/translate"), output(ROOT / "build/transcribe", *HEARD)
        self.folder = Path(tempfile.mkdtemp())

    def ran(self, path, where):
        self.where.setdefault(path.relative_to(self.dist).as_posix(), []).append(where)
        print(f"    ok   {path.name}: {where}", flush=True)

    def files(self, pattern):
        return sorted(self.dist.glob(pattern))

    # ------------------------------------------------------------------------------------ programs
    def program(self, archive, folder, where, *emulator, end=""):
        same(f"{archive.name}, translate, {where}", self.expected, translations(*emulator, folder / f"translate{end}"))
        same(f"{archive.name}, transcribe, {where}", self.heard, output(*emulator, folder / f"transcribe{end}", *HEARD))

    def programs(self):
        machine = os.uname().machine
        for archive in self.files(f"transformer-{self.version}-*"):
            system = archive.name[len(f"transformer-{self.version}-"):].split(".")[0]
            folder = unpack(archive, self.folder / system)
            if system == f"linux-{machine}":
                self.program(archive, folder, "this CPU")
                plain = [MODELS[0][0], "--beam", "4", "--n-best", "4", "--scores"]  # without --exact: the same kernel set
                lines = (ROOT / "examples/translate" / MODELS[0][1]).read_text(encoding="utf-8")
                same(f"{archive.name}, this CPU's kernels", output(ROOT / "build/translate", *plain, text=lines),
                     output(folder / "translate", *plain, text=lines))
                self.ran(archive, f"this machine ({machine})")
            cpus = {"linux-x86_64": X86, "linux-aarch64": [(one, one) for one in ARM]}.get(system, [])
            emulator = f"qemu-{system.split('-')[-1]}"
            if cpus and not shutil.which(emulator):
                self.not_run.append(f"{archive.name} on other CPUs: no {emulator} (apt-get install qemu-user)")
            elif cpus:
                for name, cpu in cpus:
                    self.program(archive, folder, f"{emulator} -cpu {cpu}", emulator, "-cpu", cpu)
                self.ran(archive, f"{emulator}: " + ", ".join(name for name, _ in cpus))
            if system == "windows-x86_64":
                if shutil.which("wine"):
                    self.program(archive, folder, "wine", "wine", end=".exe")
                    self.ran(archive, "wine")
                else:
                    self.not_run.append(f"{archive.name}: no wine (apt-get install wine64 wine)")
            elif not cpus:
                self.formats(system, [folder / f"translate{'.exe' if 'windows' in system else ''}",
                                      folder / f"transcribe{'.exe' if 'windows' in system else ''}"])
                self.ran(archive, "linked; format, CPU and needed libraries read")
                self.not_run.append(f"{archive.name}: there is no {system.replace('-', ' on ')} here")

    def formats(self, system, paths):
        """Reads the header of a program for a system that cannot run here."""
        for path in paths:
            data = path.read_bytes()
            if "windows" in system:
                at = int.from_bytes(data[60:64], "little")
                kind = (data[:2], data[at:at + 4], data[at + 4:at + 6])
                good = kind == (b"MZ", b"PE\0\0", {"x86_64": b"\x64\x86", "aarch64": b"\x64\xaa"}[system.split("-")[1]])
            else:
                cpu = {"x86_64": 0x01000007, "aarch64": 0x0100000c}[system.split("-")[1]]
                good = data[:4] == bytes.fromhex("cffaedfe") and int.from_bytes(data[4:8], "little") == cpu
                libraries = self.mac_libraries(data)
                if libraries - {"/usr/lib/libSystem.B.dylib"}:
                    raise Failure(f"{path}: needs {libraries}")
            if not good:
                raise Failure(f"{path}: no program for {system}")

    @staticmethod
    def mac_libraries(data):
        """Returns the libraries that a Mach-O file loads (LC_LOAD_DYLIB)."""
        count, at, found = int.from_bytes(data[16:20], "little"), 32, set()
        for _ in range(count):
            command, size, offset = (int.from_bytes(data[at + k:at + k + 4], "little") for k in (0, 4, 8))
            if command == 0xC:
                found.add(data[at + offset:at + size].split(b"\0")[0].decode())
            at += size
        return found

    # -------------------------------------------------------------------------------------- Python
    PROGRAM = """
import sys
from transformer_h import Model
for path, lines in zip(sys.argv[1::2], sys.argv[2::2]):
    with Model(path, exact=True) as model:
        for (one,) in model.translate(lines.split("\\n"), n_best=1):
            print(f"{one.score:.4f}\\t{one.text}")
"""

    @staticmethod
    def pythons():
        """Returns the Pythons that are here by version, from 3.9 on: one of each minor version."""
        found = {}
        for path in [*glob.glob("/usr/bin/python3.[0-9]*"), *glob.glob(str(Path.home() / ".pyenv/versions/3.*/bin/python3")),
                     *glob.glob(str(Path.home() / ".local/share/uv/python/*/bin/python3")), sys.executable]:
            if not path.endswith("config"):
                done = subprocess.run([path, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2])"], capture_output=True, text=True)
                if done.returncode == 0 and tuple(map(int, done.stdout.split())) >= (3, 9):
                    found.setdefault(tuple(map(int, done.stdout.split())), path)
        return dict(sorted(found.items()))

    def python(self):
        machine, musl = os.uname().machine, bool(glob.glob("/lib/ld-musl-*")) and not glob.glob("/lib*/*/libc.so.6")
        texts = [argument for model, text in MODELS for argument in (model, demo(text).rstrip("\n"))]
        tests = ["test_package.py", "test_arguments.py", "test_messages.py"]
        for wheel in self.files("*.whl"):
            tag = wheel.stem.rsplit("-", 1)[1]
            native = machine in tag and ("musllinux" if musl else "manylinux") in tag
            foreign = CACHE / "aarch64"
            if tag.startswith("manylinux") and "aarch64" in tag and machine != "aarch64" and (foreign / "root").exists() and shutil.which("qemu-aarch64"):
                folder = self.folder / "aarch64"
                shutil.copytree(foreign / "packages", folder)
                with zipfile.ZipFile(wheel) as file:
                    file.extractall(folder)
                same(f"{wheel.name}, qemu-aarch64", self.expected, output("qemu-aarch64", "-E", f"PYTHONPATH={folder}", "-L", foreign / "root",
                                                                        foreign / "root/usr/bin/python3.11", "-c", self.PROGRAM, *texts))
                self.ran(wheel, "Debian's Python 3.11 for aarch64 by qemu")
                continue
            if not native:
                self.inspect_wheel(wheel, tag)
                continue
            versions = []
            for version, path in self.pythons().items():
                name = ".".join(map(str, version))
                python = self.environment(path, f"py{name}", wheel, "pytest", "numpy")
                same(f"{wheel.name}, Python {name}", self.expected, output(python, "-c", self.PROGRAM, *texts, cwd=self.folder))
                output(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", self.folder,
                       *(ROOT / "tools/python/tests" / one for one in tests), cwd=self.folder, limit=1200)
                versions.append(name)
            self.ran(wheel, f"Python {', '.join(versions)}, {' '.join(tests)}")
        for source in self.files("transformer_h-*.tar.gz"):
            name, path = list(self.pythons().items())[-1]
            python = self.environment(path, "sdist", source)
            same(source.name, self.expected, output(python, "-c", self.PROGRAM, *texts, cwd=self.folder))
            self.ran(source, f"built by pip for Python {'.'.join(map(str, name))}")
        self.audit()

    def environment(self, python, name, *packages):
        folder = self.folder / name
        output(python, "-m", "venv", folder)
        output(folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
        return folder / "bin/python"

    def inspect_wheel(self, wheel, tag):
        """A wheel for another system: its module is a library for that system."""
        with zipfile.ZipFile(wheel) as file:
            (module,) = (one for one in file.namelist() if re.search(r"_transformer\.(pyd|abi3\.so)$", one))
            data = file.read(module)
        kind = {"win": b"MZ", "mac": bytes.fromhex("cffaedfe")}.get(tag[:3], b"\x7fELF")
        if not data.startswith(kind) or (b"PyInit__transformer" not in data):
            raise Failure(f"{wheel.name}: {module} is no module for {tag}")
        self.ran(wheel, "linked and read")
        self.not_run.append(f"{wheel.name}: no Python for {tag} is here")

    def audit(self):
        tools = CACHE / "release/bin"
        wheels = self.files("*.whl")
        if not (tools / "abi3audit").exists():
            self.not_run.append("auditwheel, abi3audit, check-wheel-contents and twine check: make release-tools installs them")
            return
        for wheel in wheels:
            output(tools / "abi3audit", "--strict", wheel)
            output(tools / "check-wheel-contents", "--ignore", "W002", wheel)
            if "linux" in wheel.name:
                shown = output(tools / "auditwheel", "show", wheel).replace("\n", " ")
                policy = wheel.stem.rsplit("-", 1)[1].split(".")[0]
                if f'"{policy}"' not in shown:
                    raise Failure(f"{wheel.name}: auditwheel says {shown}")
            self.ran(wheel, "abi3audit, check-wheel-contents" + (", auditwheel" if "linux" in wheel.name else ""))
        output(tools / "twine", "check", "--strict", *wheels, *self.files("transformer_h-*.tar.gz"))

    # -------------------------------------------------------------------------------- JavaScript, C
    SCRIPT = """
import { load } from "transformer-h";
import { readFile } from "node:fs/promises";
for (let i = 2; i < process.argv.length; i += 2) {
  const model = await load(await readFile(process.argv[i]), { exact: true });
  for (const one of await model.translateAll(process.argv[i + 1].split("\\n"))) console.log(`${one.score.toFixed(4)}\\t${one.text}`);
  model.close();
}
"""

    def npm(self):
        texts = [argument for model, text in MODELS for argument in (model, demo(text).rstrip("\n"))]
        for package in self.files("*.tgz"):
            if not shutil.which("npm"):
                self.not_run.append(f"{package.name}: no node and npm")
                continue
            folder = self.folder / "npm"
            folder.mkdir()
            (folder / "package.json").write_text('{"type": "module"}')
            output("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=folder)
            (folder / "main.js").write_text(self.SCRIPT)
            same(package.name, self.expected, output("node", "main.js", *texts, cwd=folder))
            self.ran(package, f"node {output('node', '--version').strip()}")
            browser = shutil.which("chromium")
            if not browser or not (CACHE / "web/bin/python").exists():
                self.not_run.append(f"{package.name} in a browser: make web-tools installs one")
                continue
            for model, _ in MODELS:
                shutil.copy(model, folder)
            script = Path(__file__).with_name("in_browser.py")
            arguments = [argument for model, text in MODELS for argument in (model.name, demo(text).rstrip("\n"))]
            same(f"{package.name}, Chromium", self.expected, output(CACHE / "web/bin/python", script, browser, folder, *arguments))
            self.ran(package, "Chromium, in a Worker")

    def c_packages(self):
        german, text = MODELS[0][0], "Guten Tag."
        expected = output(ROOT / "build/translate", german, text=text + "\n")
        for archive in self.files(f"transformer-{self.version}.tar.gz"):
            folder = unpack(archive, self.folder / "c")
            if all(map(shutil.which, ("cc", "pkg-config", "cmake"))):
                app, source = self.folder / "app", ROOT / "tests/install/app.c"
                ENVIRONMENT["PKG_CONFIG_PATH"] = str(folder / "lib/pkgconfig")
                flags = output("pkg-config", "--cflags", "--libs", "transformer-header").split()
                output("cc", "-DTRANSFORMER_IMPLEMENTATION", source, *flags, "-o", app)
                same("transformer-header.pc", expected, output(app, german, text))
                project = self.folder / "project"
                project.mkdir()
                shutil.copy(source, project)
                lines = "cmake_minimum_required(VERSION 3.14)\nproject(app C)\nfind_package(transformer CONFIG REQUIRED)\n" \
                        "add_executable(app app.c)\ntarget_link_libraries(app transformer::transformer)\n"
                (project / "CMakeLists.txt").write_text(lines)
                installed = self.folder / "installed"
                output("cmake", "-S", folder, "-B", self.folder / "b", f"-DCMAKE_INSTALL_PREFIX={installed}")
                output("cmake", "--build", self.folder / "b", "--target", "install")
                for prefix in (folder, installed):
                    build = self.folder / f"b-{prefix.name}"
                    output("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
                    output("cmake", "--build", build)
                    same(f"find_package in {prefix.name}", expected, output(build / "app", german, text))
                self.ran(archive, "pkg-config, CMake where unpacked and installed")
            else:
                self.not_run.append(f"{archive.name}: needs cc, pkg-config and cmake")
            self.conan(archive)
            self.vcpkg(archive)

    def conan(self, archive):
        recipe, conan = self.dist / "conan/conanfile.py", CACHE / "packagers/bin/conan"
        if not conan.exists():
            self.not_run.append("conan: make packagers installs it")
            return
        data = archive.read_bytes()
        said = re.search(r"sha256: \"(\w+)\"", (self.dist / "conan/conandata.yml").read_text())[1]
        same("conan's checksum", hashlib.sha256(data).hexdigest(), said)
        store = self.folder / "store"  # conan looks for a source by its checksum here before it asks the network
        store.mkdir()
        (store / said).write_bytes(data)
        (store / f"{said}.json").write_text('{"references": {}, "timestamp": 0}')
        home = self.folder / "conan"
        home.mkdir()
        handler = functools.partial(Quiet, directory=str(store))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (home / "global.conf").write_text(f"core.sources:download_urls=['http://127.0.0.1:{server.server_port}', 'origin']\n"
                                          f"core.sources:download_cache={self.folder / 'sources'}\n")
        ENVIRONMENT["CONAN_HOME"] = str(home)
        output(conan, "profile", "detect")
        copied = shutil.copytree(self.dist / "conan", self.folder / "recipe")
        output(conan, "create", copied)
        server.shutdown()
        self.ran(recipe, "conan create, from the C package")

    def vcpkg(self, archive):
        """There is no vcpkg here: CMake runs the port with functions that do what vcpkg's do."""
        port = self.dist / "vcpkg/transformer-h/portfile.cmake"
        if not shutil.which("cmake"):
            return
        script, packages = self.folder / "port.cmake", self.folder / "vcpkg-packages"
        script.write_text(Path(__file__).with_name("vcpkg.cmake").read_text() + f"include({port})\n")
        output("cmake", f"-DARCHIVE_HERE={archive}", f"-DCURRENT_PACKAGES_DIR={packages}", "-DPORT=transformer-h",
               f"-DCURRENT_BUILDTREES_DIR={self.folder / 'trees'}", "-P", script)
        if not (packages / "include/transformer.h").exists() or not (packages / "share/transformer-h/copyright").exists():
            raise Failure("the vcpkg port installs no header or licence")
        self.ran(port, "CMake with stand-ins for vcpkg's functions")
        self.not_run.append("the vcpkg port in vcpkg itself")


def run_all(dist, version):
    """Returns where each file was run, and what could not be run."""
    runs, failures = Runs(dist, version), []
    for step in (runs.programs, runs.c_packages, runs.npm, runs.python):
        try:
            step()
        except Failure as failure:
            failures.append(str(failure))
            print(f"    FAIL {failure}", flush=True)
    shutil.rmtree(runs.folder, ignore_errors=True)
    if failures:
        raise Failure(f"{len(failures)} steps failed, see above")
    return runs.where, runs.not_run + NEVER


if __name__ == "__main__":
    try:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/dist").resolve()
        version = re.search(r'^#define TFM_VERSION "(.*)"', (ROOT / "transformer.h").read_text(encoding="utf-8"), re.MULTILINE)[1]
        for one in run_all(folder, version)[1]:
            print("not run:", one)
    except Failure as failure:
        sys.exit(f"FAIL {failure}")
