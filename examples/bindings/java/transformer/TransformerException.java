package transformer;

import java.nio.charset.StandardCharsets;

/** An error of the library. Its message says what is wrong. */
public final class TransformerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The kind of failure: "IO" if a file cannot be read, "FORMAT" if it is no model, "UTF8", "TOO_LONG", "ARGUMENT"
        for an option, and the other statuses of transformer.h without TFM_E_. */
    public final String status;

    TransformerException(int status, byte[] message) {
        super(new String(message, StandardCharsets.UTF_8));
        this.status = Native.statusName(status);
    }
}
