package example;

import java.nio.charset.StandardCharsets;

/** Translates texts of any length, each by its sentences. Labels, quotation marks and text in the target language stay.
    One thread at a time may use it. */
public final class Translator implements AutoCloseable {
    static {
        System.loadLibrary("translator");
    }

    private long handle;

    /** model: the bytes of a model file. Throws IllegalStateException with the library's message. */
    public Translator(byte[] model) {
        handle = open(model);
    }

    public String translate(String text) {
        if (handle == 0) throw new IllegalStateException("the translator is closed");
        return new String(translate(handle, text.getBytes(StandardCharsets.UTF_8)), StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        close(handle);
        handle = 0;
    }

    private static native long open(byte[] model);

    private static native byte[] translate(long handle, byte[] text);

    private static native void close(long handle);
}
