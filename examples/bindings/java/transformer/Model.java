package transformer;

/** A loaded model of transformer.h. It never changes, so any number of threads may share it. */
public final class Model implements AutoCloseable {
    private long handle;

    /** Loads a model from a file.
        @param path the file
        @throws TransformerException if the file cannot be read, or is no model */
    public Model(String path) {
        handle = Native.load(Native.name(path), true);
    }

    /** Loads a model from the bytes of a file, which are copied: a file takes less memory.
        @param bytes the content of a file
        @throws TransformerException if the bytes are no model */
    public Model(byte[] bytes) {
        handle = Native.load(bytes, false);
    }

    /** Makes a translator, which keeps the model: the model may be closed before the translator.
        @param options how to translate
        @return a translator
        @throws TransformerException if an option has a value that cannot be */
    public synchronized Translator translator(Translator.Options options) {
        if (handle == 0) throw new IllegalStateException("the model is closed");
        return new Translator(handle, options);
    }

    /** Frees the model as soon as its translators are closed. */
    @Override
    public synchronized void close() {
        handle = Native.release(0, 0, handle);
    }
}
