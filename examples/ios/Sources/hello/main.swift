import Transformer

// hello MODEL TEXT
let translator = try Translator(path: CommandLine.arguments[1])
print(try translator.translate(CommandLine.arguments[2]))
