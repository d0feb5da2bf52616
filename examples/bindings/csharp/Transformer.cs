// Translates text on the CPU, without a network, with the models of transformer.h. Needs
// libtransformer_binding.so (`make bindings`) where the system or the program finds libraries.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

[assembly: CLSCompliant(true)]

namespace Transformer
{
    /// <summary>An error of the library.</summary>
    [Serializable]
    public class TransformerException : Exception
    {
        /// <summary>The kind of failure: "IO" if a file cannot be read, "FORMAT" if it is no model, "UTF8", "TOO_LONG",
        /// "ARGUMENT" for an option, and the other statuses of transformer.h without TFM_E_.</summary>
        public string Status { get; }

        internal TransformerException(int status, string message) : base(message)
        {
            Status = Marshal.PtrToStringAnsi(Native.binding_status_name(status));
        }
    }

    /// <summary>How a translator translates. What is null is as the model file says, and one thread.</summary>
    public sealed class TranslatorOptions
    {
        /// <summary>The number of threads that translate, at most 64.</summary>
        public int? Threads { get; set; }
        /// <summary>The number of hypotheses of the beam search; 1 is greedy.</summary>
        public int? Beam { get; set; }
        /// <summary>The most bytes that all threads together may take to translate. The model is not counted.</summary>
        public long? Memory { get; set; }
        /// <summary>True: the model gets each text as it is, without a look for labels, quotation marks and other
        /// languages.</summary>
        public bool Plain { get; set; }
        /// <summary>The language of the texts, for a model that has several, as its file names it.</summary>
        public string SourceLanguage { get; set; }
        /// <summary>The language of the translations.</summary>
        public string TargetLanguage { get; set; }
        /// <summary>How the model reads a text: "split" by sentences, or "whole". The model file says what is right.</summary>
        public string Sentences { get; set; }
        /// <summary>Other options by the names in binding.c, for instance "length_penalty".</summary>
        public IDictionary<string, double> More { get; } = new SortedDictionary<string, double>(StringComparer.Ordinal);

        internal void Set(TranslatorHandle translator)
        {
            Number(translator, "threads", Threads);
            Number(translator, "beam", Beam);
            Number(translator, "memory", Memory);
            Number(translator, "plain", Plain ? 1 : (double?)null);
            foreach (KeyValuePair<string, double> option in More) Number(translator, option.Key, option.Value);
            Text(translator, "source_language", SourceLanguage);
            Text(translator, "target_language", TargetLanguage);
            Text(translator, "sentences", Sentences);
        }

        private static void Number(TranslatorHandle translator, string name, double? value)
        {
            RawError err;
            if (value != null) Native.Check(Native.binding_translator_number(translator, Native.Utf8(name, "name"), value.Value, out err), ref err);
        }

        private static void Text(TranslatorHandle translator, string name, string value)
        {
            RawError err;
            if (value != null) Native.Check(Native.binding_translator_text(translator, Native.Utf8(name, "name"), Native.Utf8(value, name), out err), ref err);
        }
    }

    /// <summary>A loaded model. It never changes, so any number of threads may share it.</summary>
    public sealed class Model : IDisposable
    {
        private readonly ModelHandle handle;

        /// <summary>Loads a model from a file.</summary>
        /// <exception cref="TransformerException">The file cannot be read, or is no model.</exception>
        public Model(string path)
        {
            RawError err;
            Native.Check(Native.binding_model_open(out handle, Native.Utf8(path, nameof(path)), out err), ref err);
        }

        /// <summary>Loads a model from the bytes of a file, which are copied: a file takes less memory.</summary>
        /// <exception cref="TransformerException">The bytes are no model.</exception>
        public Model(byte[] bytes)
        {
            RawError err;
            if (bytes == null) throw new ArgumentNullException(nameof(bytes));
            Native.Check(Native.binding_model_read(out handle, bytes, (UIntPtr)bytes.LongLength, out err), ref err);
        }

        /// <summary>Makes a translator, which keeps the model: it may be disposed of before the translator.</summary>
        /// <exception cref="TransformerException">An option has a value that cannot be.</exception>
        public Translator CreateTranslator(TranslatorOptions options = null)
        {
            return new Translator(handle, options ?? new TranslatorOptions());
        }

        /// <summary>Frees the model as soon as its translators are disposed of.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }

    /// <summary>The translation of a text.</summary>
    public sealed class Translation
    {
        internal Translation(RawResult raw)
        {
            byte[] bytes = new byte[raw.Size];
            Marshal.Copy(raw.Text, bytes, 0, bytes.Length);
            string text = Encoding.UTF8.GetString(bytes);
            if (raw.Status == 0) this.text = text;
            else Error = new TransformerException((int)raw.Status, text);
            Sentences = raw.Sentences;
            Cut = raw.Cut;
            Left = raw.Left;
        }

        private readonly string text;
        /// <summary>The translation.</summary>
        /// <exception cref="TransformerException">The text was not translated: Error.</exception>
        public string Text { get { return Error == null ? text : throw Error; } }
        /// <summary>Why the text was not translated, or null.</summary>
        public TransformerException Error { get; }
        /// <summary>The number of sentences that the model translated.</summary>
        public long Sentences { get; }
        /// <summary>Sentences of which only a part is translated, because they or their translations are too long.</summary>
        public long Cut { get; }
        /// <summary>Sentences that stay as they are: the model cannot read them, or they are in the target language.</summary>
        public long Left { get; }
    }

    /// <summary>Translates texts of any length. Their labels, quotation marks and brackets, and what is in the target
    /// language, stay as they are: a translation is what the program translate writes for the text. One thread at a time
    /// may use a translator; others wait.</summary>
    public sealed class Translator : IDisposable
    {
        private readonly TranslatorHandle handle;
        private readonly object turn = new object();
        private RunHandle last;

        internal Translator(ModelHandle model, TranslatorOptions options)
        {
            RawError err;
            Native.Check(Native.binding_translator_create(out handle, model, out err), ref err);
            try
            {
                options.Set(handle);
                Native.Check(Native.binding_translator_check(handle, out err), ref err);
            }
            catch
            {
                handle.Dispose();
                throw;
            }
        }

        /// <summary>Translates one text.</summary>
        /// <exception cref="TransformerException">The text cannot be translated.</exception>
        public string Translate(string text)
        {
            foreach (Translation translation in Stream(new[] { text })) return translation.Text;
            throw new InvalidOperationException("a text has a translation");
        }

        /// <summary>Translates texts together, which is faster than one after the other. A text that fails has an error
        /// in its translation, and the others go on.</summary>
        public IList<Translation> TranslateAll(IEnumerable<string> texts)
        {
            return new List<Translation>(Stream(texts));
        }

        /// <summary>Translates texts as an enumerable gives them. The translations come in the order of the texts, as soon
        /// as they are known, while foreach asks for them; leaving its loop ends the run. The translator reads ahead by
        /// some batches (option "max_batch"), so texts without end take bounded memory. A translator has one such loop at
        /// a time.</summary>
        /// <exception cref="TransformerException">The translator is in another loop, or has no memory.</exception>
        public IEnumerable<Translation> Stream(IEnumerable<string> texts)
        {
            if (texts == null) throw new ArgumentNullException(nameof(texts));
            return Run(texts);
        }

        private IEnumerable<Translation> Run(IEnumerable<string> texts)
        {
            RunHandle run;
            RawError err;
            RawResult raw;
            lock (turn)
            {
                Native.Check(Native.binding_run_start(out run, handle, out err), ref err);
                last = run;
            }
            using (run)
            using (IEnumerator<string> each = texts.GetEnumerator())
            {
                for (;;)
                {
                    Translation made = null;
                    int happened;
                    lock (turn)
                    {
                        happened = Native.binding_run_next(run, out raw, out err);
                        if (happened == Native.HasResult) made = new Translation(raw);
                        if (happened == Native.Failed) Native.Check(err.Status, ref err);
                    }
                    if (made != null) yield return made;
                    else if (happened != Native.NeedsText) yield break;
                    else
                    {
                        byte[] text = each.MoveNext() ? Native.Utf8(each.Current) : null; // may use other translators
                        UIntPtr size = text == null ? UIntPtr.Zero : (UIntPtr)(text.LongLength - 1);
                        lock (turn) Native.Check(Native.binding_run_give(run, text, size, out err), ref err);
                    }
                }
            }
        }

        /// <summary>Frees the translator, and ends its loop: its next translation is an ObjectDisposedException.</summary>
        public void Dispose()
        {
            lock (turn)
            {
                if (last != null) last.Dispose();
                handle.Dispose();
            }
        }
    }

    // A SafeHandle is not released while a call uses it, and a forgotten one is released by the finalizer.
    internal abstract class Handle : SafeHandle
    {
        protected Handle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }
    }

    internal sealed class ModelHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.binding_model_release(handle); return true; }
    }

    internal sealed class TranslatorHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.binding_translator_release(handle); return true; }
    }

    internal sealed class RunHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.binding_run_release(handle); return true; }
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct RawError // tfm_error
    {
        public int Status;
        [MarshalAs(UnmanagedType.ByValArray, SizeConst = 256)] public byte[] Text;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct RawResult // binding_result
    {
        public IntPtr Text;
        public long Size, Number, Sentences, Cut, Left, Status;
    }

    internal static class Native
    {
        private const string Library = "transformer_binding";
        internal const int NeedsText = 1, HasResult = 2, Failed = 3; // binding_event

        [DllImport(Library)] internal static extern IntPtr binding_status_name(int status);
        [DllImport(Library)] internal static extern int binding_model_open(out ModelHandle model, byte[] path, out RawError err);
        [DllImport(Library)] internal static extern int binding_model_read(out ModelHandle model, byte[] data, UIntPtr size, out RawError err);
        [DllImport(Library)] internal static extern void binding_model_release(IntPtr model);
        [DllImport(Library)] internal static extern int binding_translator_create(out TranslatorHandle translator, ModelHandle model, out RawError err);
        [DllImport(Library)] internal static extern int binding_translator_number(TranslatorHandle translator, byte[] name, double value, out RawError err);
        [DllImport(Library)] internal static extern int binding_translator_text(TranslatorHandle translator, byte[] name, byte[] value, out RawError err);
        [DllImport(Library)] internal static extern int binding_translator_check(TranslatorHandle translator, out RawError err);
        [DllImport(Library)] internal static extern void binding_translator_release(IntPtr translator);
        [DllImport(Library)] internal static extern int binding_run_start(out RunHandle run, TranslatorHandle translator, out RawError err);
        [DllImport(Library)] internal static extern int binding_run_next(RunHandle run, out RawResult result, out RawError err);
        [DllImport(Library)] internal static extern int binding_run_give(RunHandle run, byte[] text, UIntPtr size, out RawError err);
        [DllImport(Library)] internal static extern void binding_run_release(IntPtr run);

        internal static void Check(int status, ref RawError err)
        {
            if (status == 0) return;
            int size = Array.IndexOf(err.Text, (byte)0);
            throw new TransformerException(status, Encoding.UTF8.GetString(err.Text, 0, size < 0 ? 256 : size));
        }

        // Returns UTF-8, terminated. A char that is half of a pair becomes a byte that is not UTF-8: the library then says
        // where it is, and the encoder would replace it by another character instead.
        internal static byte[] Utf8(string text)
        {
            if (text == null) throw new ArgumentNullException(nameof(text));
            int half = 0;
            while (half < text.Length && (!char.IsSurrogate(text[half]) || char.IsSurrogatePair(text, half)))
                half += char.IsSurrogate(text[half]) ? 2 : 1;
            bool isWhole = half == text.Length;
            byte[] bytes = Encoding.UTF8.GetBytes(text.Substring(0, half) + (isWhole ? "\0" : "\0\0"));
            if (!isWhole) bytes[bytes.Length - 2] = 0xff;
            return bytes;
        }

        // Does the same for a C string, which a zero would end.
        internal static byte[] Utf8(string text, string name)
        {
            if (text == null) throw new ArgumentNullException(name);
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("it has a zero character", name);
            return Utf8(text);
        }
    }
}
