// What tests/examples/bindings.sh asks of the assembly for C#. README.md in examples/bindings has a first program.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using Transformer;

internal static class Check
{
    private static TextWriter output;

    private static void Show(string name, Func<string> call)
    {
        string text;
        try { text = call(); }
        catch (TransformerException error) { text = error.Status + " " + error.Message; }
        catch (Exception error) { text = error is ArgumentException || error is InvalidOperationException ? error.GetType().Name : error.Message; }
        output.Write(name + ": " + text + "\n");
    }

    private static IEnumerable<string> Failing()
    {
        yield return "Guten Tag.";
        throw new IOException("no more texts");
    }

    private static void Lines(Model model, bool plain)
    {
        string all = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false)).ReadToEnd();
        using (model)
        using (Translator translator = model.CreateTranslator(new TranslatorOptions { Threads = 2, Plain = plain }))
            foreach (Translation made in translator.Stream(all.Substring(0, all.Length - 1).Split('\n')))
                output.Write((made.Error == null ? made.Text : "") + "\n");
    }

    private static void Checks(string path, string broken)
    {
        var model = new Model(path);
        Action<string, TranslatorOptions> makes = (name, options) => Show(name, () => { model.CreateTranslator(options); return ""; });
        Show("missing", () => new Model("nonesuch").ToString());
        Show("zero", () => new Model("a\0b").ToString());
        Show("broken", () => new Model(broken).ToString());
        Show("bytes", () => new Model(Encoding.ASCII.GetBytes("no model")).ToString());
        Show("empty", () => new Model(new byte[0]).ToString());
        makes("option", new TranslatorOptions { More = { { "nonesuch", 1 } } });
        makes("value", new TranslatorOptions { More = { { "beam", 1.5 } } });
        makes("range", new TranslatorOptions { Threads = 65 });
        makes("language", new TranslatorOptions { SourceLanguage = "xx", TargetLanguage = "yy" });

        Translator translator = model.CreateTranslator(new TranslatorOptions { Threads = 2, Beam = 4, More = { { "length_penalty", 0.6 } } });
        Show("beam", () => translator.Translate("Die alte Brücke über den Fluss wurde gestern gesperrt."));
        Show("empty text", () => translator.Translate(""));
        Translation counts = translator.TranslateAll(new[] { "Guten Tag. This is the house of my brother." })[0];
        Show("counts", () => counts.Sentences + " " + counts.Cut + " " + counts.Left);
        foreach (Translation made in translator.TranslateAll(new[] { "Guten Tag.", "A\ud800", "Danke.", "ä\udc00\ud800" })) Show("not UTF-8", () => made.Text);

        int given = 0;
        IEnumerable<string> endless = Enumerable.Repeat("Guten Tag.", int.MaxValue).Select(text => { given++; return text; });
        foreach (Translation made in translator.Stream(endless).Take(3)) Show("stopped", () => made.Text);
        output.Write("read ahead: " + (given < 100000 ? "true" : "false") + "\n");
        Show("after it", () => translator.Translate("Danke."));

        Show("source", () => translator.TranslateAll(Failing()).Count.ToString());
        Show("after it", () => translator.Translate("Danke."));

        string[] shared = new string[4];
        Thread[] threads = Enumerable.Range(0, 4).Select(i => new Thread(() =>
        {
            using (Translator own = model.CreateTranslator()) shared[i] = own.Translate("Guten Tag.");
        })).ToArray();
        foreach (Thread thread in threads) thread.Start();
        foreach (Thread thread in threads) thread.Join();
        foreach (string made in shared) Show("shared", () => made);

        model.Dispose();
        Show("model closed first", () => translator.Translate("Danke."));
        IEnumerator<Translation> open = translator.Stream(new[] { "Guten Tag.", "Danke." }).GetEnumerator();
        open.MoveNext();
        Show("two streams", () => translator.Translate("Danke."));
        translator.Dispose();
        translator.Dispose();
        Show("stream of it", () => open.MoveNext().ToString());
        Show("closed translator", () => translator.Translate("Danke."));
        makes("closed model", null);
        new Model(path); // forgotten: the finalizer frees it
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    private static void Main(string[] arguments)
    {
        output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false));
        if (arguments[0] == "checks") Checks(arguments[1], arguments[2]);
        else Lines(arguments[0] == "bytes" ? new Model(File.ReadAllBytes(arguments[1])) : new Model(arguments[1]), arguments[0] == "plain");
        output.Flush();
    }
}
