import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import transformer.Model;
import transformer.Translation;
import transformer.TransformerException;
import transformer.Translator;

/** What tests/examples/bindings.sh asks of the package for Java. README.md in examples/bindings has a first program. */
public final class Check {
    private static PrintStream out;
    private static int given;

    private static void show(String name, Callable<String> call) {
        String text;
        try {
            text = call.call();
        } catch (TransformerException error) {
            text = error.status + " " + error.getMessage();
        } catch (Exception error) {
            boolean isOurs = error instanceof IllegalArgumentException || error instanceof IllegalStateException;
            text = isOurs ? error.getClass().getSimpleName() : error.getMessage();
        }
        out.print(name + ": " + text + "\n");
    }

    private static void lines(Model model, double plain) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int next; (next = System.in.read()) >= 0; ) bytes.write(next);
        String all = bytes.toString("UTF-8");
        Iterator<String> texts = Arrays.asList(all.substring(0, all.length() - 1).split("\n", -1)).iterator();
        try (Model used = model;
                Translator translator = used.translator(new Translator.Options().set("threads", 2).set("plain", plain));
                Translator.Results results = translator.stream(texts)) {
            results.forEachRemaining(made -> out.print((made.error == null ? made.text() : "") + "\n"));
        }
    }

    private static void makes(String name, Model model, Translator.Options options) {
        show(name, () -> {
            model.translator(options).close();
            return "";
        });
    }

    private static void checks(String path, String broken) throws Exception {
        Model model = new Model(path);
        show("missing", () -> new Model("nonesuch").toString());
        show("zero", () -> new Model("a\0b").toString());
        show("broken", () -> new Model(broken).toString());
        show("bytes", () -> new Model("no model".getBytes(StandardCharsets.US_ASCII)).toString());
        show("empty", () -> new Model(new byte[0]).toString());
        makes("option", model, new Translator.Options().set("nonesuch", 1));
        makes("value", model, new Translator.Options().set("beam", 1.5));
        makes("range", model, new Translator.Options().set("threads", 65));
        makes("language", model, new Translator.Options().set("source_language", "xx").set("target_language", "yy"));

        Translator translator = model.translator(new Translator.Options().set("threads", 2).set("beam", 4).set("length_penalty", 0.6));
        show("beam", () -> translator.translate("Die alte Brücke über den Fluss wurde gestern gesperrt."));
        show("empty text", () -> translator.translate(""));
        Translation counts = translator.translateAll(Collections.singleton("Guten Tag. This is the house of my brother.")).get(0);
        show("counts", () -> counts.sentences + " " + counts.cut + " " + counts.left);
        for (Translation made : translator.translateAll(Arrays.asList("Guten Tag.", "A\ud800", "Danke.", "ä\udc00\ud800"))) show("not UTF-8", made::text);

        try (Translator.Results results = translator.stream(Stream.generate(() -> "Guten Tag.").peek(text -> given++).iterator())) {
            for (int i = 0; i < 3; i++) show("stopped", () -> results.next().text());
        }
        out.print("read ahead: " + (given < 100000) + "\n");
        show("after it", () -> translator.translate("Danke."));

        show("source", () -> translator.translateAll(() -> Stream.of("Guten Tag.", "").map(text -> {
            if (text.isEmpty()) throw new UnsupportedOperationException("no more texts");
            return text;
        }).iterator()).toString());
        show("after it", () -> translator.translate("Danke."));

        String[] shared = new String[4];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                try (Translator own = model.translator(new Translator.Options())) {
                    shared[number] = own.translate("Guten Tag.");
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        for (String made : shared) show("shared", () -> made);

        model.close();
        show("model closed first", () -> translator.translate("Danke."));
        Translator.Results open = translator.stream(Arrays.asList("Guten Tag.", "Danke.").iterator());
        show("two streams", () -> translator.translate("Danke."));
        translator.close();
        translator.close();
        show("stream of it", () -> open.next().text());
        show("closed translator", () -> translator.translate("Danke."));
        makes("closed model", model, new Translator.Options());
    }

    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(System.out, false, "UTF-8");
        String path = arguments[1];
        if (arguments[0].equals("checks")) checks(path, arguments[2]);
        else if (arguments[0].equals("bytes")) lines(new Model(Files.readAllBytes(Paths.get(path))), 0);
        else lines(new Model(path), arguments[0].equals("plain") ? 1 : 0);
        out.flush();
    }
}
