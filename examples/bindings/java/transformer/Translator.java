package transformer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;

/** Translates texts of any length. Their labels, quotation marks and brackets, and what is in the target language, stay
    as they are: a translation is what the program translate writes for the text. One thread at a time may use a
    translator; others wait. */
public final class Translator implements AutoCloseable {
    private long handle;
    private Results last;

    Translator(long model, Options options) {
        long made = Native.make(model, 0);
        try {
            options.apply(made);
            Native.check(made);
        } catch (RuntimeException error) {
            Native.release(0, made, 0);
            throw error;
        }
        handle = made;
    }

    /** Translates one text.
        @param text the text
        @return its translation
        @throws TransformerException if the text cannot be translated */
    public String translate(String text) {
        return translateAll(Collections.singleton(text)).get(0).text();
    }

    /** Translates texts together, which is faster than one after the other. A text that fails has an error in its
        translation, and the others go on.
        @param texts the texts
        @return their translations, in the same order */
    public List<Translation> translateAll(Iterable<String> texts) {
        List<Translation> all = new ArrayList<>();
        try (Results results = stream(texts.iterator())) {
            results.forEachRemaining(all::add);
        }
        return all;
    }

    /** Translates texts as an iterator gives them, which the thread calls that asks for results. The translator reads
        ahead by some batches (option "max_batch"), so texts without end take bounded memory.
        @param texts the texts
        @return the translations as they come; close it if you do not read it to the end
        @throws TransformerException if another stream of this translator has not ended */
    public synchronized Results stream(Iterator<String> texts) {
        if (handle == 0) throw new IllegalStateException("the translator is closed");
        return last = new Results(Native.make(0, handle), texts);
    }

    /** Frees the translator, and ends its stream. */
    @Override
    public synchronized void close() {
        if (last != null) last.close();
        handle = Native.release(0, handle, 0);
    }

    /** Translations in the order of the texts, as soon as they are known. */
    public final class Results implements Iterator<Translation>, AutoCloseable {
        private final Iterator<String> texts;
        private final long[] counts = new long[5];
        private long run; // 0: it has ended
        private boolean isClosed;
        private Translation made;

        private Results(long run, Iterator<String> texts) {
            this.run = run;
            this.texts = texts;
        }

        @Override
        public boolean hasNext() {
            synchronized (Translator.this) {
                try {
                    while (made == null && run != 0) {
                        byte[] text = Native.next(run, counts);
                        if (counts[0] == Native.HAS_RESULT) made = new Translation(text, counts);
                        else if (counts[0] != Native.NEEDS_TEXT) run = Native.release(run, 0, 0);
                        else {
                            text = texts.hasNext() ? Native.utf8(texts.next()) : null;
                            if (run != 0) Native.give(run, text); // texts may have closed it
                        }
                    }
                } catch (RuntimeException | Error failure) { // of texts, too
                    close();
                    throw failure;
                }
                if (isClosed) throw new IllegalStateException("the stream or its translator is closed");
                return made != null;
            }
        }

        @Override
        public Translation next() {
            if (!hasNext()) throw new NoSuchElementException();
            Translation next = made;
            made = null;
            return next;
        }

        /** Ends the stream. */
        @Override
        public void close() {
            synchronized (Translator.this) {
                isClosed |= run != 0;
                run = Native.release(run, 0, 0);
            }
        }
    }

    /** How a translator translates. What is not set is as the model file says, and one thread. */
    public static final class Options {
        private final Map<String, Double> numbers = new TreeMap<>();
        private final Map<String, String> texts = new TreeMap<>();

        /** No option. */
        public Options() {}

        /** Sets an option that is a number.
            @param name "threads" (at most 64 that translate), "beam", "memory" (the most bytes that all threads together
                may take), "plain" (1: the model gets each text as it is, without a look for labels, quotation marks and
                other languages), or another one of binding.c, for instance "length_penalty". A wrong one is an
                error of {@link Model#translator(Options)}
            @param value the number
            @return this */
        public Options set(String name, double value) {
            numbers.put(name, value);
            return this;
        }

        /** Sets an option that is a text.
            @param name "source_language" and "target_language" of a model that has several, as its file names them;
                "sentences" ("split" or "whole": how the model reads a text; the model file says what is right)
            @param value the text
            @return this */
        public Options set(String name, String value) {
            texts.put(name, value);
            return this;
        }

        void apply(long translator) {
            numbers.forEach((name, value) -> Native.set(translator, Native.name(name), null, value));
            texts.forEach((name, value) -> Native.set(translator, Native.name(name), Native.name(value), 0));
        }
    }
}
