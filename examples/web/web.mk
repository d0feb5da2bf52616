# The page: WebAssembly with and without SIMD, the JavaScript module, the models. Any static host can serve it.
CLANG = clang
WASM = $(CLANG) --target=wasm32-wasi -std=c99 $(filter-out -std=c99,$(WARN)) -I. -Itools/common -nostartfiles -Wl,--no-entry \
	-Wl,-z,stack-size=262144 -Wl,--stack-first -Wl,--strip-all
# Loop strength reduction removes constant offsets from loads, but in WebAssembly these offsets are free.
WASM_OPTIMIZE = -Os -mllvm -disable-lsr
PAGE_FILES = $(filter-out %.c %.png %.mk,$(wildcard examples/web/*)) $(wildcard examples/models/*.safetensors)
## make web            the page that translates in the browser, into build/web
##                     (apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32)
web: build/web/transformer.wasm build/web/transformer-simd.wasm build/web/models.json $(PAGE_FILES)
	cp $(PAGE_FILES) build/web
# The models that the page offers: name, checksum (tells a new file from a cached one) and size.
build/web/models.json: $(wildcard examples/models/*.safetensors)
	mkdir -p build/web && for m in $^; do set -- $$(cksum < $$m); \
	printf ',{"file":"%s","check":"%s","bytes":%s}\n' $${m##*/} $$1 $$2; done | sed '1s/,/[/;$$s/$$/]/' > $@
build/web/transformer-simd.wasm: WASM_OPTIMIZE += -msimd128
build/web/%.wasm: examples/web/web.c $(HEADERS) | wasi
	mkdir -p build/web && $(WASM) $(WASM_OPTIMIZE) $< -o $@
## make test-web-module   the page's module in node, compared with build/translate
test-web-module: web build/translate
	node tests/examples/web.mjs
# Looks for all parts before the compiler does, because its messages do not say what to install.
wasi: | build
	@printf '#include <math.h>\n#include <string.h>\nvoid f(char *a, double b);\nvoid f(char *a, double b) { memset(a, (int)floor(exp(b)), 99); }\n' > build/wasi.c
	@$(WASM) -Wl,--export=f build/wasi.c -o build/wasi.wasm > build/wasi.log 2>&1 || { head -n 1 build/wasi.log; \
	echo "make web needs clang for WebAssembly, its linker, and a C library. On Debian and Ubuntu:"; \
	v=$$($(CLANG) -dumpversion 2> /dev/null | cut -d. -f1); \
	echo "    apt-get install clang lld wasi-libc libclang-rt-$${v:-14}-dev-wasm32"; exit 1; } >&2
CHROMIUM = chromium
web-tools: $(CACHE)/web/bin/pytest
	command -v $(CHROMIUM) > /dev/null || apt-get install -y chromium fonts-noto-cjk
	command -v firefox-esr > /dev/null || apt-get install -y firefox-esr || echo "no firefox-esr: the test in Firefox is skipped"
$(CACHE)/web/bin/pytest:
	python3 -m venv $(CACHE)/web && $(CACHE)/web/bin/pip install -q 'playwright>=1.55' 'pytest>=8'
## make test-web       the page in Chromium (make web-tools installs it); pictures go to build/web-screenshots
test-web: web build/translate $(CACHE)/web/bin/pytest python-package $(CACHE)/server/bin/pytest
	@command -v $(CHROMIUM) > /dev/null || { echo "no $(CHROMIUM): make web-tools, or make test-web CHROMIUM=..."; exit 1; }
	CHROMIUM=$$(command -v $(CHROMIUM)) SERVER=$(CACHE)/server/bin/python $(CACHE)/web/bin/python -m pytest -q -p no:cacheprovider $(WEB_TESTS) tests/examples/web
.PHONY: web wasi test-web-module web-tools test-web
