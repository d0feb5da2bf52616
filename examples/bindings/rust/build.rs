//! Compiles c/binding.c, which contains the library, with the C compiler of the system: CC and CFLAGS choose another
//! one. No crate is needed for that.
use std::{env, path::Path, process::Command};

fn run(command: &mut Command) {
    let what = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{what}: {status}"),
        Err(error) => panic!("{what}: {error}. The package transformer needs a C compiler (CC) and ar (AR)"),
    }
}

fn main() {
    assert!(Path::new("c/binding.c").exists(), "c/binding.c is missing: `make bindings` in the repository copies it");
    let (folder, name) = (env::var("OUT_DIR").unwrap(), |key: &str, or: &str| env::var(key).unwrap_or_else(|_| or.into()));
    let (object, archive) = (format!("{folder}/binding.o"), format!("{folder}/libtransformer_binding.a"));
    let mut flags = name("CFLAGS", "").split_whitespace().map(String::from).collect::<Vec<_>>();
    if env::var("TARGET").map_or(false, |target| !target.contains("windows")) {
        flags.push("-fPIC".into());
    }
    run(Command::new(name("CC", "cc")).args(["-std=gnu99", "-O2"]).args(flags).args(["-Ic", "-c", "c/binding.c", "-o", &object]));
    run(Command::new(name("AR", "ar")).args(["crs", &archive, &object]));
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static=transformer_binding");
    if env::var("CARGO_CFG_UNIX").is_ok() {
        println!("cargo:rustc-link-lib=m");
        println!("cargo:rustc-link-lib=pthread");
    }
    for key in ["CC", "CFLAGS", "AR"] {
        println!("cargo:rerun-if-env-changed={key}");
    }
    println!("cargo:rerun-if-changed=c");
}
