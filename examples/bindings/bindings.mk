# The packages for other languages. Packages that compile the library get copies of all C files that it needs, in
# folders c, which git ignores. The others load build/bindings/libtransformer_binding.so.
BINDINGS = examples/bindings
BINDING = $(BINDINGS)/native/binding.c
BINDING_INCLUDE = -I. -Iexamples
## make bindings       copies C files into the packages for Rust and Go; the shared libraries for C# and Java
bindings: $(BINDINGS)/rust/c/binding.c $(BINDINGS)/go/c/binding.c build/bindings/libtransformer_binding.so
# The compiler says which files are needed. Files of examples/ keep their folders below it.
$(BINDINGS)/%/c/binding.c: $(BINDING) $(HEADERS) $(BINDINGS)/native/binding.h
	rm -rf $(@D) && for from in $$($(CC) -MM $(BINDING_INCLUDE) $< | sed 's/^[^:]*://; s/\\$$//'); do \
	to=$(@D)/$$(echo "$$from" | sed 's,^$(BINDINGS)/native/,,; s,^examples/,,; s,/[a-z]*/\.\./,/,'); \
	mkdir -p "$${to%/*}" && cp "$$from" "$$to" || exit 1; done
# The library's own functions stay inside, because a program may also load another version of it.
BIND = $(COMPILE) $(BINDING_INCLUDE) -DTFM__IMPLEMENTED -shared -fPIC $^ -o $@ -Wl,--exclude-libs,ALL $(LDLIBS) -pthread
build/bindings/libtransformer_binding.so: $(BINDING) build/libtransformer.a
	@mkdir -p $(@D)
	$(BIND)
# The headers of Java are in the folder of its compiler.
JDK = $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v javac))))
build/bindings/libtransformer_jni.so: $(BINDINGS)/java/transformer_jni.c $(BINDING) build/libtransformer.a
	@mkdir -p $(@D)
	$(BIND) -I$(BINDINGS)/native -I"$(JDK)/include" -I"$(JDK)/include/linux"
