//! Translates the texts of the command line: `cargo run --release --example hello -- MODEL TEXT ...`
use transformer::{Model, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = Model::open(arguments.next().ok_or("usage: hello MODEL TEXT ...")?)?;
    let mut translator = model.translator(&Options::new().threads(2))?;
    for result in translator.stream(arguments) {
        println!("{}", result?.text);
    }
    Ok(())
}
