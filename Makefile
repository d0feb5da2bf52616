# make help lists what can be built; cc and make are enough for make, make demo and make test.
MAKEFLAGS += -j2
CC = cc
CFLAGS = -O2
WARN = -std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
LDLIBS = -lm
PREFIX = /usr/local
# The exact versions of the Python packages that make installs, and the folder of downloads that make clean keeps
PIP_CONSTRAINTS = tools/constraints.txt
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/transformer.h
# Python with PyTorch, which for-torch installs
PYTHON = $(CACHE)/torch/bin/python
# The models of make demo, and the sentences that they translate
MODEL = examples/models/zh-en.safetensors
GERMAN_MODEL = examples/models/de-en.safetensors
DEMO = examples/translate/demo.txt
DEMO_GERMAN = examples/translate/demo-de.txt

ifdef BLAS
override CFLAGS += -DTRANSFORMER_BLAS $(shell pkg-config --cflags openblas 2>/dev/null)
override LDLIBS += -lopenblas
endif

# Folders of programs and of tests: build/NAME is compiled from NAME.c in one of them. tools/common and tests
# have headers for programs of several folders.
PROGRAM_DIRS = examples examples/translate examples/transcribe tools/model tools/bench
TEST_DIRS = tests/library tests/translate tests/transcribe tests/tools
vpath %.c $(PROGRAM_DIRS) $(TEST_DIRS) tests/compare
PROGRAM_SOURCES = $(wildcard $(PROGRAM_DIRS:=/*.c))
TEST_SOURCES = $(wildcard $(TEST_DIRS:=/test_*.c))
PROGRAMS = $(patsubst %.c,build/%,$(notdir $(PROGRAM_SOURCES)))
TESTS = $(patsubst %.c,build/%,$(notdir $(TEST_SOURCES))) build/test_units
HEADERS = transformer.h $(wildcard tools/common/*.h tools/*/*.h examples/translate/*.h examples/translate/text/*.h examples/transcribe/*.h)
INCLUDE = -I. -Itools/common -Itests
COMPILE = $(CC) $(WARN) $(CFLAGS) $(INCLUDE)
# Each command of the compiler is one short line, and with V=1 the whole command.
QUIET = $(if $(V),,@echo "compile $(@:build/%=%)" && )
# What the linker gets: the implementation's object file, if the target has one, and libraries. "-x none" ends an
# option such as "-x c++" of WARN, which would apply to the object file, too.
LINK_INPUTS = $(IMPLEMENTATION_OBJECT:%=-x none %) $(LDLIBS)

## make                compiles all programs into build/ (BLAS=1: matrix products by OpenBLAS)
all: $(PROGRAMS)

# Most programs are linked with build/transformer.o. The tools that define TRANSFORMER_IMPLEMENTATION use private
# functions, so each of them compiles the implementation itself. Each example defines it, too, so that it also
# compiles alone; TFM__IMPLEMENTED lets it use the object file instead. Tests are linked with build/tested.o (tests.mk).
LIBRARY = build/transformer.o
IMPLEMENTATION_SOURCES = $(shell grep -l '^ *.define TRANSFORMER_IMPLEMENTATION' tools/*/*.c)
LINKED_SOURCES = $(filter-out $(IMPLEMENTATION_SOURCES),$(PROGRAM_SOURCES) $(wildcard tests/compare/*.c))
LINKED_PROGRAMS = build/test_units build/soak $(patsubst %.c,build/%,$(notdir $(LINKED_SOURCES)))
EXAMPLE_PROGRAMS = $(patsubst %.c,build/%,$(notdir $(wildcard examples/*.c examples/translate/*.c examples/transcribe/*.c)))
# TARGET_CFLAGS and IMPLEMENTATION_OBJECT are empty except for targets that set them.
$(EXAMPLE_PROGRAMS): TARGET_CFLAGS = -Ibuild -DTFM__IMPLEMENTED
$(LINKED_PROGRAMS): IMPLEMENTATION_OBJECT = $(LIBRARY)
$(LINKED_PROGRAMS): $(LIBRARY)
build/%: %.c $(HEADERS) | build
	$(QUIET)$(COMPILE) $(TARGET_CFLAGS) $< -o $@ $(LINK_INPUTS)
build/transformer.o: tools/packaging/transformer.c transformer.h | build
	$(QUIET)$(COMPILE) -c $< -o $@
# quantize multiplies no matrices, and compiles in half the time without the vector kernels.
build/quantize: TARGET_CFLAGS = -DTRANSFORMER_NO_SIMD
build/bench: TARGET_CFLAGS = $(BENCH_CFLAGS)
BENCH_CFLAGS =
build/embedded: build/model.inc
build/model.inc: tests/data/models/toy.safetensors | build
	@od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' > $@
build:
	@mkdir -p $@

## make demo           translates sentences with the two models in examples/models, and builds transcribe
demo: build/translate build/transcribe
	@build/translate $(MODEL) < $(DEMO) > build/demo-zh.out && paste $(DEMO) build/demo-zh.out
	@build/translate $(GERMAN_MODEL) < $(DEMO_GERMAN) > build/demo-de.out && paste $(DEMO_GERMAN) build/demo-de.out
	sed -n 9p $(DEMO) | build/translate $(MODEL) --beam 5 --n-best 3 --scores

## make toy            trains a translator of three sentences and runs it (Python)
toy: build/translate for-torch
	$(PYTHON) tools/train/toy.py build/toy.safetensors
	build/translate build/toy.safetensors --tokens < tests/data/toy.zh | diff tests/data/toy.en -
	build/translate build/toy.safetensors --tokens --batch 1 < tests/data/toy.zh | diff tests/data/toy.en -
	@echo "all targets token for token, in a batch with pads and alone"; paste tests/data/toy.zh tests/data/toy.en
# Python with the packages that training needs, and the engines that tests compare with. PyPI has PyTorch for Linux only
# with CUDA. A download of gigabytes may break off, so it gets a second try. The file "installed" is written last and has
# the seconds and the size: without it, nothing says that the environment is whole (bin/python is a link to the system's).
for-torch: $(CACHE)/torch/installed
$(CACHE)/torch/installed: tools/requirements.txt $(PIP_CONSTRAINTS)
	began=$$(date +%s) && { python3 -m venv $(CACHE)/torch || { echo "make needs Python's venv (apt-get install python3-venv)"; exit 1; }; } && \
	install="$(PYTHON) -m pip install -q -r tools/requirements.txt -c $(PIP_CONSTRAINTS)" && \
	{ $$install || { echo "make tries it a second time: $$install"; $$install; }; } && \
	echo "PyTorch and its packages: installed in $$(($$(date +%s) - began)) s, $$(du -sm $(CACHE)/torch | cut -f 1) MB" > $@ && cat $@

include tests/tests.mk tools/packaging/packaging.mk examples/web/web.mk examples/bindings/bindings.mk

## make clean          removes build/
clean:
	rm -rf build
## make help           this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
.PHONY: all demo toy for-torch clean help
