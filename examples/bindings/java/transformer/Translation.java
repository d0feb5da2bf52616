package transformer;

import java.nio.charset.StandardCharsets;

/** The translation of a text. */
public final class Translation {
    /** Why the text was not translated, or null. */
    public final TransformerException error;
    /** The number of sentences that the model translated. */
    public final long sentences;
    /** Sentences of which only a part is translated, because they or their translations are too long. */
    public final long cut;
    /** Sentences that stay as they are: the model cannot read them, or they are in the target language. */
    public final long left;
    private final byte[] bytes;

    Translation(byte[] bytes, long[] counts) {
        this.bytes = bytes;
        sentences = counts[1];
        cut = counts[2];
        left = counts[3];
        error = counts[4] == 0 ? null : new TransformerException((int) counts[4], bytes);
    }

    /** Returns the translation.
        @return the translation
        @throws TransformerException if the text was not translated */
    public String text() {
        if (error != null) throw error;
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
