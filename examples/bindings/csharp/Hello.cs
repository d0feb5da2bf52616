// Translates the texts of the command line: Hello.exe MODEL TEXT ...
using System;
using System.Linq;
using Transformer;

internal static class Hello
{
    private static void Main(string[] arguments)
    {
        using (var model = new Model(arguments[0]))
        using (var translator = model.CreateTranslator(new TranslatorOptions { Threads = 2 }))
            foreach (Translation translation in translator.Stream(arguments.Skip(1)))
                Console.WriteLine(translation.Text);
    }
}
