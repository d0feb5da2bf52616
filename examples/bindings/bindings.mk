# The packages for other languages. Packages that compile the library get copies of all C files that it needs, which git
# ignores. The others load a shared library.
BINDINGS = examples/bindings
BINDING = $(BINDINGS)/native/binding.c
BINDING_INCLUDE = -I. -Iexamples -I$(BINDINGS)/native
# The headers of Java are in the folder of its compiler.
JDK = $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v javac))))
## make bindings       the packages for Rust, Go, C# and Java: copies of C files, and shared libraries into build/bindings
bindings: $(BINDINGS)/rust/c/binding.c $(BINDINGS)/go/binding.c build/bindings/libtransformer_binding.so \
	$(if $(JDK),build/bindings/libtransformer_jni.so)
# The compiler says which files are needed. Files of examples/ keep their folders below it.
$(BINDINGS)/%/c/binding.c: $(BINDING) $(BINDINGS)/native/binding.h $(HEADERS)
	@rm -rf $(@D) && for from in $$($(CC) -MM $(BINDING_INCLUDE) $< | sed 's/^[^:]*://; s/\\$$//'); do \
	to=$(@D)/$$(echo "$$from" | sed 's,^$(BINDINGS)/native/,,; s,^examples/,,; s,/[a-z]*/\.\./,/,'); \
	mkdir -p "$${to%/*}" && cp "$$from" "$$to" || exit 1; done
# cgo compiles the C files beside the Go files, and looks at these only to know whether they have changed: so this one has
# the checksum of the others.
$(BINDINGS)/go/binding.c: $(BINDINGS)/go/c/binding.c
	@{ echo '#include "c/binding.c"'; echo "/* $$(find $(<D) -type f | LC_ALL=C sort | xargs cat | cksum) */"; } > $@
# The library's own functions stay inside, because a program may also load another version of it.
BIND = $(COMPILE) $(BINDING_INCLUDE) -DTFM__IMPLEMENTED -shared -fPIC $(filter %.c %.a,$^) -o $@ -Wl,--exclude-libs,ALL $(LDLIBS) -pthread
build/bindings/libtransformer_binding.so: $(BINDING) build/libtransformer.a $(BINDINGS)/native/binding.h
	@mkdir -p $(@D)
	$(BIND)
build/bindings/libtransformer_jni.so: $(BINDINGS)/java/transformer_jni.c $(BINDING) build/libtransformer.a $(BINDINGS)/native/binding.h
	@mkdir -p $(@D)
	$(BIND) -I"$(JDK)/include" -I"$(JDK)/include/linux"
## make test-bindings  these packages, beside the program translate (apt-get install cargo golang-go mono-mcs mono-runtime
##                     default-jdk-headless)
test-bindings: bindings build/translate
	sh tests/examples/bindings.sh
clean: clean-bindings
clean-bindings:
	rm -rf $(BINDINGS)/rust/c $(BINDINGS)/go/c $(BINDINGS)/go/binding.c
.PHONY: bindings test-bindings clean-bindings
