import java.util.Arrays;
import transformer.Model;
import transformer.Translator;

/** Translates the texts of the command line: java Hello MODEL TEXT ... */
public final class Hello {
    private Hello() {}

    /** Translates.
        @param arguments the model file, and texts */
    public static void main(String[] arguments) {
        try (Model model = new Model(arguments[0]);
                Translator translator = model.translator(new Translator.Options().set("threads", 2));
                Translator.Results results = translator.stream(Arrays.asList(arguments).listIterator(1))) {
            results.forEachRemaining(result -> System.out.println(result.text()));
        }
    }
}
