# make help lists what can be built; cc and make are enough for make, make demo and make test.
MAKEFLAGS += -j2
CC = cc
CFLAGS = -O2
WARN = -std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
LDLIBS = -lm
PREFIX = /usr/local
PYTHON = build/venv/bin/python
EXACT = tools/constraints.txt
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/transformer.h
MODEL = examples/models/zh-en.safetensors
GERMAN = examples/models/de-en.safetensors
DEMO = examples/translate/demo.txt
DEMO_GERMAN = examples/translate/demo-de.txt

ifdef BLAS
CFLAGS += -DTRANSFORMER_BLAS $(shell pkg-config --cflags openblas 2>/dev/null)
LDLIBS += -lopenblas
endif

# A program is build/NAME, and NAME.c is in one of these folders. tools/common and tests have headers for
# programs of several folders.
ROOMS = examples examples/translate examples/transcribe tools/model tools/bench
TEST_ROOMS = tests/library tests/translate tests/transcribe tests/tools
vpath %.c $(ROOMS) $(TEST_ROOMS) tests/compare
PROGRAM_SOURCES = $(wildcard $(ROOMS:=/*.c))
TEST_SOURCES = $(wildcard $(TEST_ROOMS:=/test_*.c))
PROGRAMS = $(patsubst %.c,build/%,$(notdir $(PROGRAM_SOURCES)))
TESTS = $(patsubst %.c,build/%,$(notdir $(TEST_SOURCES))) build/test_units
HEADERS = transformer.h $(wildcard tools/common/*.h tools/*/*.h examples/translate/*.h examples/translate/text/*.h examples/transcribe/*.h)
COMPILE = $(CC) $(WARN) $(CFLAGS) -I. -Itools/common -Itests
LINK = $(OBJECT:%=-x none %) $(LDLIBS)

## make                compiles all programs into build/ (BLAS=1: matrix products by OpenBLAS)
all: $(PROGRAMS)

# Most programs share one compiled implementation. bench and some tests use private functions, so each of
# them compiles its own. Each example defines TRANSFORMER_IMPLEMENTATION, so that it also compiles alone;
# with TFM__IMPLEMENTED it takes the shared implementation instead.
WHOLE = $(shell grep -l '^ *.define TRANSFORMER_IMPLEMENTATION' tools/*/*.c tests/*/*.c)
SHARING = build/test_units build/soak $(patsubst %.c,build/%,$(notdir $(filter-out $(WHOLE),$(PROGRAM_SOURCES) $(TEST_SOURCES) $(wildcard tests/compare/*.c))))
EXAMPLES = $(patsubst %.c,build/%,$(notdir $(wildcard examples/*.c examples/translate/*.c examples/transcribe/*.c)))
$(EXAMPLES): SHARED = -Ibuild -DTFM__IMPLEMENTED
$(SHARING): OBJECT = build/transformer.o
$(SHARING): build/transformer.o
build/%: %.c $(HEADERS) | build
	$(COMPILE) $(SHARED) $< -o $@ $(LINK)
build/transformer.o: tools/packaging/transformer.c transformer.h | build
	$(COMPILE) -c $< -o $@
build/embedded: build/model.inc
build/model.inc: tests/data/models/toy.safetensors | build
	od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' > $@
build:
	mkdir -p $@

## make demo           translates sentences with the two models in examples/models, and builds transcribe
demo: build/translate build/transcribe
	@build/translate $(MODEL) < $(DEMO) > build/demo-zh.out && paste $(DEMO) build/demo-zh.out
	@build/translate $(GERMAN) < $(DEMO_GERMAN) > build/demo-de.out && paste $(DEMO_GERMAN) build/demo-de.out
	sed -n 9p $(DEMO) | build/translate $(MODEL) --beam 5 --n-best 3 --scores

## make toy            trains a translator of three sentences and runs it (Python)
toy: build/translate $(PYTHON)
	$(PYTHON) tools/train/toy.py build/toy.safetensors
	build/translate build/toy.safetensors --tokens < tests/data/toy.zh | diff tests/data/toy.en -
	build/translate build/toy.safetensors --tokens --batch 1 < tests/data/toy.zh | diff tests/data/toy.en -
	@echo "all targets token for token, in a batch with pads and alone"; paste tests/data/toy.zh tests/data/toy.en
# Python with the packages that training needs
build/venv/bin/python: tools/requirements.txt $(EXACT)
	python3 -m venv build/venv && build/venv/bin/pip install -r tools/requirements.txt -c $(EXACT) && touch $@

include tests/tests.mk tools/packaging/packaging.mk examples/web/web.mk

## make clean          removes build/
clean:
	rm -rf build
## make help           this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
.PHONY: all demo toy clean help
