//! Compiles native/binding.c with the C compiler of the system (or $CC), and links it and the model.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let native = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("native");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (compiler, archiver) = (tool("CC", "cc"), tool("AR", "ar"));
    let object = out.join("binding.o");
    let source = native.join("binding.c");
    run(Command::new(&compiler).args(["-O2", "-fPIC", "-c"]).arg(source).arg("-o").arg(&object));
    let library = out.join("lib@NAME@_binding.a");
    let _ = std::fs::remove_file(&library);
    run(Command::new(&archiver).arg("rcs").arg(&library).arg(&object));
    let model = native.join("libmodel.a");
    std::fs::copy(&model, out.join("lib@NAME@_model.a")).expect("native/libmodel.a");
    println!("cargo:rerun-if-changed=native");
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=@NAME@_binding");
    println!("cargo:rustc-link-lib=static=@NAME@_model");
    if env::var("CARGO_CFG_UNIX").is_ok() {
        println!("cargo:rustc-link-lib=m");
        println!("cargo:rustc-link-lib=pthread");
    }
}

fn tool(variable: &str, name: &str) -> String {
    println!("cargo:rerun-if-env-changed={variable}");
    env::var(variable).unwrap_or_else(|_| name.to_string())
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} ended with {status}"),
        Err(error) => panic!("{command:?} cannot be run: {error}; set CC and AR"),
    }
}
