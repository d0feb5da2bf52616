package example;

import android.app.Activity;
import android.os.Bundle;
import android.widget.TextView;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import transformer.Model;
import transformer.TransformerException;
import transformer.Translator;

/** Shows one translation. */
public final class MainActivity extends Activity {
    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        TextView view = new TextView(this);
        setContentView(view);
        new Thread(() -> {
            String text;
            try (InputStream file = getAssets().open("de-en.safetensors")) {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                byte[] part = new byte[1 << 16];
                for (int n; (n = file.read(part)) > 0; ) bytes.write(part, 0, n);
                try (Model model = new Model(bytes.toByteArray());
                        Translator translator = model.translator(new Translator.Options())) {
                    text = translator.translate("Guten Tag.");
                }
            } catch (IOException | TransformerException error) {
                text = error.getMessage();
            }
            String shown = text;
            runOnUiThread(() -> view.setText(shown));
        }).start();
    }
}
