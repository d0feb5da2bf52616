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
stage: lib build/translate
	rm -rf build/stage && RUN="$(RUN)" sh tools/packaging/stage.sh build/stage "$(PREFIX)" $(VERSION)
## make install        header, libraries, translator and man page (PREFIX=/usr/local, DESTDIR); make uninstall
install: stage
	mkdir -p "$(DESTDIR)$(PREFIX)" && cp -R -P build/stage/. "$(DESTDIR)$(PREFIX)"
uninstall: stage
	cd build/stage && find . ! -type d | (cd "$(DESTDIR)$(PREFIX)" && xargs rm -f)
	cd "$(DESTDIR)$(PREFIX)" && rmdir lib/cmake/transformer share/licenses/transformer
## make test-install   installs into build/ and builds programs with CMake, pkg-config and conan
test-install: stage
	CC="$(CC)" MAKEFLAGS= sh tests/install/install.sh
# conan, and what builds and tests the Python package
packagers: $(CACHE)/packagers/bin/conan
$(CACHE)/packagers/bin/conan: $(PIP_CONSTRAINTS)
	python3 -m venv $(CACHE)/packagers && \
	$(CACHE)/packagers/bin/pip install -q -c $(PIP_CONSTRAINTS) conan cffi setuptools wheel build numpy pytest py3langid lxml python-docx python-pptx odfpy ebooklib && touch $@
# The wheel is built from the source distribution, and that from here.
python-package: packagers
	rm -rf build/dist build/python && $(CACHE)/packagers/bin/python -m build -q --no-isolation -o build/dist tools/python
	$(CACHE)/packagers/bin/pip install -q --no-deps --target build/python build/dist/*.whl
## make test-package   the Python package: built, installed into build/, tested
test-package: build/translate build/transcribe build/allowed python-package
	PYTHONPATH=build/python $(CACHE)/packagers/bin/python -m pytest -q -p no:cacheprovider tools/python/tests
.PHONY: lib stage install uninstall test-install packagers python-package test-package
