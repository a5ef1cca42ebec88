//! The header is the library's, and programs in C that use it run clean under the address sanitizer and valgrind.
#![allow(clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder with the library, which cargo builds beside this program.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("this program's path");
    program.parent().expect("its folder").to_owned()
}

fn run(command: &mut Command) -> Output {
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{}",
        done.status,
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    done
}

/// Compiles a program of `tests` or `examples` with every warning an error.
fn compiled(source: &str, options: &[&str]) -> PathBuf {
    let library = built();
    let name = Path::new(source)
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let program = library.join(format!(
        "c-{name}{}",
        options.concat().replace(['-', '='], "_")
    ));
    run(Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-g",
            "-O1",
            "-pthread",
        ])
        .args(options)
        .args(["-I", "include", source, "-o"])
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args([
            "-lstraightway",
            &format!("-Wl,-rpath,{}", library.display()),
        ])
        .current_dir(HERE));
    program
}

fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").output().is_err();
    if is_missing {
        println!("SKIPPED: {program} is not installed");
    }
    is_missing
}

/// `STRAIGHTWAY_WRITE_HEADER=1` writes it.
#[test]
fn the_header_is_the_library_s() {
    let config = cbindgen::Config::from_file(Path::new(HERE).join("cbindgen.toml"))
        .expect("a configuration");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(Path::new(HERE).join("src/calls.rs"))
        .with_src(Path::new(HERE).join("src/error.rs"))
        .generate()
        .expect("a header");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let path = Path::new(HERE).join("include/straightway.h");
    if std::env::var_os("STRAIGHTWAY_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header");
    }
    let kept = std::fs::read_to_string(&path).expect("the header");
    assert!(
        kept == made,
        "STRAIGHTWAY_WRITE_HEADER=1 cargo test -p straightway-c writes include/straightway.h, which is:\n{made}"
    );
}

#[test]
fn programs_in_c_run_clean_under_the_address_sanitizer() {
    if is_missing("cc") {
        return;
    }
    let program = compiled(
        "tests/calls.c",
        &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    );
    run(&mut Command::new(program));
}

#[test]
fn programs_in_c_run_clean_under_valgrind() {
    if is_missing("cc") || is_missing("valgrind") {
        return;
    }
    let program = compiled("tests/calls.c", &[]);
    // What is still reachable are Rust's tables of threads.
    run(Command::new("valgrind")
        .args([
            "-q",
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(program));
}

#[test]
fn the_header_is_c_plus_plus_too() {
    if is_missing("c++") {
        return;
    }
    run(Command::new("c++")
        .args([
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c++",
            "include/straightway.h",
        ])
        .current_dir(HERE));
}

#[test]
fn the_example_reads_and_measures() {
    if is_missing("cc") {
        return;
    }
    let program = compiled("examples/queue.c", &[]);
    let image = std::env::temp_dir().join(format!("straightway-c-{}", std::process::id()));
    std::fs::write(&image, vec![7u8; 1 << 20]).expect("an image");
    let done = run(Command::new(&program).arg(&image));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        said.contains("256 reads of 4096 bytes by file-buffered"),
        "{said}"
    );
    std::fs::remove_file(&image).expect("the image");
    // What is missing is said as the command says it.
    let done = Command::new(&program)
        .arg(&image)
        .output()
        .expect("the example");
    assert_eq!(done.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&done.stderr).contains("straightway format"));
}
