package transformer;

import java.nio.charset.StandardCharsets;

/** The functions of transformer_jni.c. Handles are the addresses of what they stand for; 0 is none. */
final class Native {
    static final int NEEDS_TEXT = 1, HAS_RESULT = 2; // binding_event

    static {
        System.loadLibrary("transformer_jni");
    }

    static native long load(byte[] data, boolean isPath);
    static native long make(long model, long translator);
    static native void set(long translator, byte[] name, byte[] text, double number);
    static native void check(long translator);
    static native byte[] next(long run, long[] counts);
    static native void give(long run, byte[] text);
    static native long release(long run, long translator, long model); // returns 0
    static native String statusName(int status);

    /** The library calls this when it has an error. */
    static void fail(int status, byte[] message) {
        throw new TransformerException(status, message);
    }

    /** Returns UTF-8. A char that is half of a pair becomes a byte that is not UTF-8: the library then says where it
        is, and String.getBytes would replace it by a question mark. */
    static byte[] utf8(String text) {
        int half = 0;
        while (half < text.length() && Character.getType(text.codePointAt(half)) != Character.SURROGATE) {
            half = text.offsetByCodePoints(half, 1);
        }
        if (half == text.length()) return text.getBytes(StandardCharsets.UTF_8);
        byte[] bytes = (text.substring(0, half) + "?").getBytes(StandardCharsets.UTF_8);
        bytes[bytes.length - 1] = (byte) 0xff;
        return bytes;
    }

    /** Returns UTF-8 for what is a C string there, which a zero would end. */
    static byte[] name(String text) {
        if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("a name or path has a zero character");
        return utf8(text);
    }
}
