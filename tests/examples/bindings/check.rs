//! What tests/examples/bindings.sh asks of the Rust package. README.md in examples/bindings has a first program.
use std::io::{Read, Write};
use transformer::{Error, Model, Options, Translation};

fn show(name: &str, result: Result<String, Error>) {
    println!("{name}: {}", result.unwrap_or_else(|error| format!("{} {error}", error.status)));
}

fn lines() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all).unwrap();
    all.pop();
    all.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn write(results: impl Iterator<Item = Result<Translation, Error>>) {
    let mut out = std::io::stdout().lock();
    for result in results {
        writeln!(out, "{}", result.map_or(String::new(), |made| made.text)).unwrap();
    }
}

fn checks(path: &str, broken: &str) -> Result<(), Error> {
    let model = Model::open(path)?;
    let made = |options: Options| model.translator(&options).map(|_| String::new());
    show("missing", Model::open("nonesuch").map(|_| String::new()));
    show("zero", Model::open("a\0b").map(|_| String::new()));
    show("broken", Model::open(broken).map(|_| String::new()));
    show("bytes", Model::from_bytes(b"no model").map(|_| String::new()));
    show("empty", Model::from_bytes(b"").map(|_| String::new()));
    show("option", made(Options::new().set("nonesuch", 1.0)));
    show("value", made(Options::new().set("beam", 1.5)));
    show("range", made(Options::new().threads(65)));
    show("language", made(Options::new().languages("xx", "yy")));

    let mut translator = model.translator(&Options::new().threads(2).beam(4).set("length_penalty", 0.6))?;
    show("beam", translator.translate("Die alte Brücke über den Fluss wurde gestern gesperrt."));
    show("empty text", translator.translate(""));
    show("counts", translator.stream(["Guten Tag. This is the house of my brother."]).next().unwrap().map(|m| format!("{} {} {}", m.sentences, m.cut, m.left)));
    let mixed = translator.translate_all([&b"Guten Tag."[..], b"A\xff", b"Danke."]);
    mixed.into_iter().for_each(|result| show("not UTF-8", result));

    let mut given = 0;
    let endless = std::iter::from_fn(|| {
        given += 1;
        Some("Guten Tag.")
    });
    translator.stream(endless).take(3).for_each(|result| show("stopped", result.map(|made| made.text)));
    println!("read ahead: {}", given < 100_000);
    show("after it", translator.translate("Danke."));

    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let texts = (0..2).map(|i| if i == 0 { "Guten Tag." } else { panic!("no more texts") });
        translator.stream(texts).for_each(drop)
    }));
    println!("source: {}", caught.unwrap_err().downcast::<&str>().unwrap());
    show("after it", translator.translate("Danke."));

    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut own = model.translator(&Options::new())?;
            Ok(std::thread::spawn(move || own.translate("Guten Tag.")))
        })
        .collect::<Result<_, Error>>()?;
    threads.into_iter().for_each(|thread| show("shared", thread.join().unwrap()));

    drop(model);
    show("model closed first", translator.translate("Danke."));
    std::mem::forget(translator.stream(["Danke."]));
    show("two streams", translator.translate("Danke."));
    Ok(())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments[2].as_str();
    let options = Options::new().threads(2);
    std::panic::set_hook(Box::new(|_| {}));
    match arguments[1].as_str() {
        "checks" => return checks(path, &arguments[3]),
        "lines" => write(Model::open(path)?.translator(&options)?.stream(lines())),
        "plain" => write(Model::open(path)?.translator(&options.plain())?.stream(lines())),
        _ => write(Model::from_bytes(&std::fs::read(path).unwrap())?.translator(&options)?.stream(lines())),
    }
    Ok(())
}
