# make test-oldest: tests the converter and the Python package with the lowest versions that tools/requirements-convert.txt
# and tools/python/pyproject.toml allow, in the oldest and in newer Pythons that this machine has (pyenv's too).
# With SLICE=n, each Python runs a seventh of the package's tests: the newest one runs all of them (make test-package).
# uv installs the lowest versions that have a wheel. Takes the folder for the environments, and how many Pythons to
# test at most; needs make all.
. tests/check.sh
cache=$1 most=${2:-9}
[ -x "$cache/uv/bin/uv" ] || { python3 -m venv "$cache/uv" && "$cache/uv/bin/pip" install -q uv; } || exit 1
lowest() { "$cache/uv/bin/uv" pip install -q --only-binary :all: --resolution lowest-direct -p "$@" 2>&1; }
for version in 3.9 3.10 3.11 3.12 3.13; do
    [ "$most" -gt 0 ] || break
    python=$(ls -d "$HOME/.pyenv/versions/$version".*/bin/python 2> /dev/null | head -n 1)
    [ -x "$python" ] || python=$(command -v "python$version")
    "$python" -c 'import venv, sysconfig, os; os.stat(sysconfig.get_path("include") + "/Python.h")' 2> /dev/null ||
        { skip 4 "Python $version: not on this machine, with its headers"; continue; }
    most=$((most - 1))
    env=$cache/oldest-$version run=$cache/oldest-$version/bin/python
    rm -rf "$env" && "$cache/uv/bin/uv" venv -q -p "$python" "$env"
    check "Python $version: the converter's lowest versions install" "" "$(lowest "$run" -r tools/requirements-convert.txt)"
    "$cache/uv/bin/uv" pip freeze -q -p "$run" > "$env/versions"
    "$cache/uv/bin/uv" pip install -q --only-binary :all: -p "$run" -c "$env/versions" ctranslate2 tokenizers
    check "  and pass its tests" "0" "$("$run" -W ignore tests/run.py test_convert test_refusals test_download > "$env/log" 2>&1; echo $?)"
    { sed -n 's/^requires = \[\(.*\)\]/\1/p; s/^dependencies = \[\(.*\)\]/\1/p; s/^numpy = \[\(.*\)\]/\1/p; s/^documents = \[\(.*\)\]/\1/p' tools/python/pyproject.toml |
        tr ',' '\n' | sed 's/[ "]//g' | sort -u; echo 'pip>=24'; echo 'wheel>=0.40'; echo 'pytest>=7.4'; } > "$env/package"
    check "  the package's lowest versions install" "" "$(lowest "$run" -r "$env/package")"
    check "  the package builds, and passes its tests" "0" "$({ rm -rf "$env/source" && mkdir "$env/source" && tar -cf - transformer.h LICENSE examples/translate examples/transcribe tools | tar -xf - -C "$env/source" &&
        "$run" -m pip install -q --no-deps --no-build-isolation "$env/source/tools/python" &&
        PYTHONPATH=tests SLICE_ALL=1 "$run" -W ignore -m pytest -q -W ignore -p no:cacheprovider -p pytest_slices tools/python/tests --ignore tools/python/tests/test_export.py; } >> "$env/log" 2>&1; echo $?)"
    [ $failed -eq 0 ] || grep -E '^(FAIL|ERROR|E  )|Error:' "$env/log" | head -n 20
done
counts test_oldest
