# make           everything into build/         make BLAS=1   matrix products by OpenBLAS
# make demo      translate some sentences       make test     all tests that need only cc and make
# make test V=1  prints each check, not only those that fail or are skipped
# make toy       train, export and run a three-sentence translator (Python)
# make test-python   tests of tools/*.py without PyTorch
# make lib       shared and static library      make install   PREFIX=/usr/local, DESTDIR; make uninstall
# make test-install   installs into build/ and builds programs on it (CMake, pkg-config, conan)
# make test-package   the Python package: built, installed into build/, tested
# make test-sqlite   examples/sqlite in the real sqlite3 (apt-get install sqlite3 libsqlite3-dev)
# make test-server    examples/server.py by its clients    make load-server   two minutes of load on it
# make test-spark    examples/spark.py on a local cluster (apt-get install default-jre-headless)
# make test-scale    examples/ray_data.py and dask_bag.py
# make web       the page that translates in the browser, into build/web: clang, lld, wasi-libc, libclang-rt-14-dev-wasm32
# make test-web-module   its module in node, beside build/translate
# make test-web   the page in Chromium (make web-tools: apt-get install chromium), pictures into build/web-screenshots
# make test-markup   pages and Markdown through markup.h, beside lxml and markdown-it
# make test-c RUN=qemu-aarch64   the tests in C alone, by way of an emulator (CC, CFLAGS, TESTS)
# make test-torch    all tests in Python: those, and what PyTorch and transformers compute (GBs)
# make test-t5       what transformers 4 computes: T5 and its kin, every field of every config
# make fuzz SECONDS=30   libFuzzer on each of tests/fuzz (clang)
# make soak SECONDS=3600   random work in four threads, each sentence's bits as the first time
# make msan   make valgrind   the tests in C under the memory sanitizer (clang), under valgrind
# make test-zig      the header and examples compiled for macOS, Windows, musl, RISC-V and POWER (pip's ziglang)
# make analyze       clang's and gcc's static analyzers over transformer.h, tools and examples
# make coverage      lines and branches of transformer.h that the tests reach, by section, and their bounds (gcc)
MAKEFLAGS += -j2
CC = cc
CFLAGS = -O2
WARN = -std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
LDLIBS = -lm
PREFIX = /usr/local
PYTHON = build/venv/bin/python
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/transformer.h
ORACLES = $(CACHE)/oracles/bin/python
# Address sanitizers see a write to a local of a function that has returned only with this option.
export ASAN_OPTIONS ?= detect_stack_use_after_return=1
MODEL = examples/models/zh-en.safetensors
GERMAN = examples/models/de-en.safetensors

ifdef BLAS
CFLAGS += -DTRANSFORMER_BLAS $(shell pkg-config --cflags openblas 2>/dev/null)
LDLIBS += -lopenblas
endif

PROGRAMS = $(patsubst examples/%.c,build/%,$(wildcard examples/*.c)) $(patsubst tools/%.c,build/%,$(wildcard tools/*.c))
TESTS = $(patsubst tests/%.c,build/%,$(wildcard tests/test_*.c)) build/test_units
COMPILE = $(CC) $(WARN) $(CFLAGS) -I. -Itools -Itests
LINK = $(OBJECT:%=-x none %) $(LDLIBS)
# One compiled implementation serves all but bench and the tests that reach private parts. Examples have it in them,
# for who compiles one alone; the macro says that it is elsewhere.
WHOLE = $(shell grep -l '^ *.define TRANSFORMER_IMPLEMENTATION' tools/*.c tests/*.c)
SHARING = build/test_units $(patsubst %.c,build/%,$(notdir $(wildcard examples/*.c) $(filter-out $(WHOLE),$(wildcard tools/*.c tests/*.c))))

all: $(PROGRAMS)

build/%: examples/%.c transformer.h $(wildcard examples/*.h) | build
	$(COMPILE) -Ibuild -DTFM__IMPLEMENTED $< -o $@ $(LINK)
build/%: tools/%.c transformer.h $(wildcard tools/*.h) | build
	$(COMPILE) $< -o $@ $(LINK)
build/test_%: tests/test_%.c transformer.h $(wildcard tests/*.h tools/*.h examples/*.h) | build
	$(COMPILE) $< -o $@ $(LINK)
build/test_lines build/fuzz_translate: examples/translate.c
build/fuzz_markup: $(wildcard examples/*.h)
build/embedded: build/model.inc
build/model.inc: tests/data/models/toy.safetensors | build
	od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' > $@
build/decode: tests/decode.c transformer.h | build
	$(COMPILE) $< -o $@ $(LINK)
build/ids: tests/ids.c transformer.h | build
	$(COMPILE) $< -o $@ $(LINK)
build/test_units: $(wildcard tests/units/*.c) transformer.h tests/test.h | build
	$(COMPILE) tests/units/*.c -o $@ $(LINK)
$(SHARING): OBJECT = build/transformer.o
$(SHARING): build/transformer.o
build/transformer.o: tools/packaging/transformer.c transformer.h | build
	$(COMPILE) -c $< -o $@
# ELF systems; tools/CMakeLists.txt builds it on others. Before 1.0 each minor version has a soname of its own.
VERSION = $(shell sed -n 's/^.define TFM_VERSION "\(.*\)"/\1/p' transformer.h)
SONAME = libtransformer.so.$(basename $(VERSION))
build/library.o: tools/packaging/transformer.c transformer.h | build
	$(COMPILE) -fPIC -c $< -o $@
build/libtransformer.a: build/library.o
	rm -f $@ && $(AR) rcs $@ $<
build/libtransformer.so: build/library.o
	rm -f build/libtransformer.so*
	$(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) $< -o build/libtransformer.so.$(VERSION) $(LDLIBS) -pthread
	ln -s libtransformer.so.$(VERSION) build/$(SONAME) && ln -s $(SONAME) $@
lib: build/libtransformer.a build/libtransformer.so
build:
	mkdir -p $@

demo: build/translate
	@build/translate $(MODEL) < examples/demo.txt > build/demo-zh.out && paste examples/demo.txt build/demo-zh.out
	@build/translate $(GERMAN) < examples/demo-de.txt > build/demo-de.out && paste examples/demo-de.txt build/demo-de.out
	sed -n 9p examples/demo.txt | build/translate $(MODEL) --beam 5 --n-best 3 --scores

test-built: $(TESTS)
# no object, no program: what a compiler says of each source
SOURCES = $(filter-out tests/spm_ids.c,$(wildcard examples/*.c tools/*.c tests/*.c tests/units/*.c tools/packaging/*.c))
syntax: $(SOURCES:=.syntax)
%.c.syntax: %.c build/model.inc
	$(COMPILE) -Ibuild -Iexamples -fsyntax-only $<
test-c: $(TESTS)
	@V="$(V)" RUN="$(RUN)" sh tests/run.sh $(TESTS)
how-long:
	@echo "make test takes about 2 minutes on two cores: half of them to compile, half to test."
test: how-long $(PROGRAMS) $(TESTS)
	@V="$(V)" CC="$(CC) $(WARN)" sh tests/run.sh $(TESTS) tests/test_*.sh

# Python with what tools/requirements.txt lists, once
build/venv/bin/python: tools/requirements.txt
	python3 -m venv build/venv && build/venv/bin/pip install -r tools/requirements.txt && touch $@
toy: build/translate $(PYTHON)
	$(PYTHON) tools/toy.py build/toy.safetensors
	build/translate build/toy.safetensors --tokens < tests/data/toy.zh | diff tests/data/toy.en -
	build/translate build/toy.safetensors --tokens --batch 1 < tests/data/toy.zh | diff tests/data/toy.en -
	@echo "all targets token for token, in a batch with pads and alone"; paste tests/data/toy.zh tests/data/toy.en
# and the engines that tests compare with, where make clean does not reach
$(CACHE)/oracles/bin/python: tools/requirements-oracles.txt
	python3 -m venv $(CACHE)/oracles && $@ -m pip install -q -r $< && touch $@
oracles: $(ORACLES)
test-python: all build/decode $(ORACLES)
	$(ORACLES) -W ignore tests/run.py test_convert test_tokenizers test_marian test_refusals test_hostile_python test_search test_speed_plot test_ssru \
	test_near test_augment test_scores
	$(ORACLES) tests/compare_sentencepiece.py --passes 0
test-torch: all build/decode build/test_modules build/test_sources python-package $(PYTHON)
	cd tests && $(abspath $(PYTHON)) -W ignore -m unittest discover
	PYTHONPATH=build/python $(PYTHON) -W ignore -m pytest -q -p no:cacheprovider tools/python/tests/test_export.py
	$(PYTHON) tests/compare_sentencepiece.py --passes 0
	$(PYTHON) tests/compare_byte_bpe.py --passes 0

# T5 and its kin need transformers 4, which stands before the newer one in the path.
$(CACHE)/transformers4/transformers: $(PYTHON)
	$(PYTHON) -m pip install -q --no-deps --target $(dir $@) 'transformers<5' 'tokenizers<0.23' 'huggingface_hub<1' requests urllib3 idna charset-normalizer certifi
test-t5: all build/decode build/ids $(CACHE)/transformers4/transformers
	cd tests && PYTHONPATH=$(CACHE)/transformers4 $(abspath $(PYTHON)) -W ignore -m unittest test_t5 test_config_fields test_convert_torch.HuggingFace.test_untied

# From the kept corpus; what is found that is new goes to build/corpus, a crash to build/fuzz_NAME-*.
# SEED=7 draws as another run of that seed did; 0: libFuzzer draws a seed, which is printed.
SECONDS = 30
SEED = 0
# The kernels take clang minutes under these checks: what parses goes without kernels, the others without some checks,
# all of which make test by gcc's sanitizers has.
FUZZ_CC = clang -std=c99 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_LESS = -DTRANSFORMER_NO_SIMD
build/fuzz_model build/fuzz_tools build/fuzz_translate: FUZZ_LESS = -fno-sanitize=alignment,null,pointer-overflow
FUZZ = $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
fuzz: $(FUZZ:%=build/fuzz_%)
	set -e; for t in $(FUZZ); do echo "$$t"; mkdir -p build/corpus/$$t; \
	seeds=tests/fuzz/corpus/$$t; [ -d $$seeds ] || seeds=tests/fuzz/corpus/model; \
	build/fuzz_$$t -seed=$(SEED) -max_total_time=$(SECONDS) -timeout=10 -artifact_prefix=build/fuzz_$$t- \
	-print_final_stats=1 build/corpus/$$t $$seeds > build/fuzz_$$t.log 2>&1 || \
	{ grep -a 'INFO: Seed' build/fuzz_$$t.log; tail -n 40 build/fuzz_$$t.log; exit 1; }; \
	grep -aE 'INFO: Seed|executed_units|DONE' build/fuzz_$$t.log; done
build/fuzz_%: tests/fuzz/%.c transformer.h $(wildcard tests/fuzz/*.h tests/*.h tools/*.h tools/*.c) | build
	$(FUZZ_CC) $(FUZZ_LESS) -I. -Itools -Itests $< -o $@ $(LDLIBS)

SOAK = $(patsubst %,tests/data/models/%.safetensors,bart m2m_100 marian ssru) $(MODEL):examples/demo.txt $(GERMAN):examples/demo-de.txt
soak: build/soak
	build/soak $(SECONDS) $(SOAK)
build/soak: tests/soak.c tests/test.h | build
	$(COMPILE) $< -o $@ $(LINK) -pthread

# All of it by make msan, a part by make msan TESTS=build/test_x. Valgrind 3.19 knows no AVX-512, clang 14's sanitizer not
# that glibc's lstat writes (test_output).
msan:
	$(MAKE) clean && $(MAKE) test-c CC=clang CFLAGS="-O1 -g -fsanitize=memory -fno-omit-frame-pointer" TESTS="$(filter-out build/test_output,$(TESTS))"
valgrind:
	$(MAKE) clean && $(MAKE) test-c CFLAGS="-O1 -g -DTRANSFORMER_KERNELS=2" RUN="valgrind -q --error-exitcode=9 --leak-check=full"

analyze: build/model.inc
	sh tests/analyze.sh

# The C tests alone, counted by gcovr. gcov knows the branches of gcc's code. Threads count in the same counters.
# tests/coverage.py says which part of each section has to be reached.
GCOVR = $(CACHE)/gcovr/bin/gcovr
COVERED = $(patsubst tests/%.c,build/coverage/%,$(wildcard tests/test_*.c))
coverage: $(GCOVR) | build
	rm -rf build/coverage && mkdir -p build/coverage
	$(MAKE) -s $(COVERED)
	sh tests/run.sh $(COVERED)
	$(GCOVR) -r . -f transformer.h --gcov-suspicious-hits-threshold=0 --json build/coverage/all.json build/coverage
	python3 tests/coverage.py transformer.h build/coverage/all.json
build/coverage/%: tests/%.c
	gcc $(WARN) -O0 --coverage -fprofile-update=prefer-atomic -DTRANSFORMER_IMPLEMENTATION= -I. -Itools -Itests $< -o $@ $(LDLIBS)
$(GCOVR):
	python3 -m venv $(CACHE)/gcovr && $(CACHE)/gcovr/bin/pip install -q 'gcovr>=8'

stage: lib build/translate
	rm -rf build/stage && RUN="$(RUN)" sh tools/packaging/stage.sh build/stage "$(PREFIX)" $(VERSION)
install: stage
	mkdir -p "$(DESTDIR)$(PREFIX)" && cp -R -P build/stage/. "$(DESTDIR)$(PREFIX)"
uninstall: stage
	cd build/stage && find . ! -type d | (cd "$(DESTDIR)$(PREFIX)" && xargs rm -f)
	cd "$(DESTDIR)$(PREFIX)" && rmdir lib/cmake/transformer share/licenses/transformer
# clang and C libraries for other systems, from PyPI: 90 MB
ZIG = $(CACHE)/zig/bin/python -m ziglang
zig: $(CACHE)/zig/installed
$(CACHE)/zig/installed:
	{ python3 -m venv $(CACHE)/zig && $(CACHE)/zig/bin/pip install -q 'ziglang>=0.15' && touch $@; } || \
	{ echo "no zig: make zig needs Python's venv (apt-get install python3-venv) and PyPI"; exit 1; }
test-zig: zig build/model.inc
	sh tests/zig.sh "$(ZIG)"
# conan, and what builds and tests the Python package
packagers: $(CACHE)/packagers/bin/conan
$(CACHE)/packagers/bin/conan:
	python3 -m venv $(CACHE)/packagers && $(CACHE)/packagers/bin/pip install -q 'conan>=2.4' cffi setuptools wheel build numpy pytest
# The wheel is built from the source distribution, and that from here.
python-package: packagers
	rm -rf build/dist build/python && $(CACHE)/packagers/bin/python -m build -q --no-isolation -o build/dist tools/python
	$(CACHE)/packagers/bin/pip install -q --no-deps --target build/python build/dist/*.whl
test-package: build/translate python-package
	PYTHONPATH=build/python $(CACHE)/packagers/bin/python -m pytest -q -p no:cacheprovider tools/python/tests
# SQLite's own struct of functions is what an extension calls: it is linked with none of it.
sqlite: build/sqlite/translate.so
build/sqlite/translate.so: examples/sqlite/translate.c transformer.h | build
	mkdir -p build/sqlite && $(COMPILE) -shared -fPIC $< -o $@ $(LDLIBS)
ROWS = 5000
test-sqlite: build/translate
	! echo '#include <sqlite3ext.h>' | $(CC) -E - > /dev/null 2>&1 || \
	{ $(MAKE) -s sqlite && $(COMPILE) tests/sqlite.c -o build/sqlite/test -lsqlite3 -pthread; }
	sh tests/sqlite.sh $(ROWS)
$(CACHE)/server/bin/pytest: tools/requirements-server.txt
	python3 -m venv $(CACHE)/server && $(CACHE)/server/bin/pip install -q -r $< cffi pytest libretranslatepy prometheus_client && touch $@
test-server: build/translate python-package $(CACHE)/server/bin/pytest
	PYTHONPATH=build/python $(CACHE)/server/bin/python -m pytest -q -p no:cacheprovider tests/server
load-server: build/translate python-package $(CACHE)/server/bin/pytest
	PYTHONPATH=build/python $(CACHE)/server/bin/python tests/server/load.py $(LOAD)
# Spark, Ray and Dask in an environment of their own (1.2 GB)
CLUSTER = $(CACHE)/spark/bin/python
$(CLUSTER):
	python3 -m venv $(CACHE)/spark && $(CACHE)/spark/bin/pip install -q 'pyspark>=4.3' 'ray>=2.60' 'dask>=2026.8' pandas pyarrow cffi
test-spark: build/translate build/quantize python-package $(CLUSTER)
	$(CLUSTER) tests/spark.py
test-scale: build/translate python-package $(CLUSTER)
	PYTHONPATH=build/python $(CLUSTER) tests/scale.py
$(CACHE)/lxml/bin/python:
	python3 -m venv $(CACHE)/lxml && $(CACHE)/lxml/bin/pip install -q 'lxml>=5' 'markdown-it-py>=3' 'cmarkgfm>=2024'
test-markup: build/translate build/test_markup $(CACHE)/lxml/bin/python
	$(CACHE)/lxml/bin/python tests/markup.py
	$(CACHE)/lxml/bin/python tests/markdown.py --documents 300 --seed 77
	$(CACHE)/lxml/bin/python tests/markdown.py --documents 300 --seed 5
# The page: WebAssembly with and without SIMD, the module, the models. Any static host serves it.
WASM = clang --target=wasm32-wasi -std=c99 $(filter-out -std=c99,$(WARN)) -I. -nostartfiles -Wl,--no-entry \
	-Wl,-z,stack-size=262144 -Wl,--stack-first -Wl,--strip-all
# Loop strength reduction takes constant offsets out of loads, which WebAssembly has for nothing.
WEB = -Os -mllvm -disable-lsr
PAGE = $(filter-out %.c %.png,$(wildcard examples/web/*)) $(wildcard examples/models/*.safetensors)
web: build/web/transformer.wasm build/web/transformer-simd.wasm build/web/models.json $(PAGE)
	cp $(PAGE) build/web
# what the page can offer: names, checksums that tell a new file from a cached one, sizes
build/web/models.json: $(wildcard examples/models/*.safetensors)
	mkdir -p build/web && for m in $^; do set -- $$(cksum < $$m); \
	printf ',{"file":"%s","check":"%s","bytes":%s}\n' $${m##*/} $$1 $$2; done | sed '1s/,/[/;$$s/$$/]/' > $@
build/web/transformer-simd.wasm: WEB += -msimd128
build/web/%.wasm: examples/web/web.c transformer.h examples/attention.h examples/heatmap.h examples/sentences.h
	mkdir -p build/web && $(WASM) $(WEB) $< -o $@
test-web-module: web build/translate
	node tests/web.mjs
CHROMIUM = chromium
web-tools: $(CACHE)/web/bin/pytest
	command -v $(CHROMIUM) > /dev/null || apt-get install -y chromium fonts-noto-cjk
$(CACHE)/web/bin/pytest:
	python3 -m venv $(CACHE)/web && $(CACHE)/web/bin/pip install -q 'playwright>=1.55' 'pytest>=8'
test-web: web build/translate $(CACHE)/web/bin/pytest
	@command -v $(CHROMIUM) > /dev/null || { echo "no $(CHROMIUM): make web-tools, or make test-web CHROMIUM=..."; exit 1; }
	CHROMIUM=$$(command -v $(CHROMIUM)) $(CACHE)/web/bin/python -m pytest -q -p no:cacheprovider $(WEB_TESTS) tests/web
test-install: stage
	CC="$(CC)" MAKEFLAGS= sh tests/install.sh
clean:
	rm -rf build

.PHONY: all demo test how-long syntax test-built test-c toy oracles test-python test-torch test-t5 fuzz soak msan valgrind analyze coverage \
	lib stage install uninstall packagers python-package test-package test-server load-server test-install sqlite test-sqlite test-spark test-scale test-markup web test-web-module \
	web-tools test-web zig test-zig clean
