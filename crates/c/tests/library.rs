// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header is the library's, and programs in C that use it run clean under the address sanitizer
//! and valgrind.
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

/// The name under which a program looks for the library that cargo built, as `make build` makes it.
fn name_of_interface(library: &Path) {
    let name = library.join("libstraightway.so.0");
    if is_missing("make") {
        // Another test may have made it.
        let _ = std::os::unix::fs::symlink("libstraightway.so", &name);
    } else {
        run(Command::new("make")
            .args(["-C", "../..", "link-c"])
            .arg(format!("LIBRARY={}", library.display()))
            .current_dir(HERE));
    }
    assert!(name.exists(), "{}", name.display());
}

/// Compiles a program of `tests` or `examples` with every warning an error.
fn compiled(source: &str, options: &[&str]) -> PathBuf {
    let library = built();
    name_of_interface(&library);
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
        .with_src(Path::new(HERE).join("src/command_calls.rs"))
        .with_src(Path::new(HERE).join("src/volume_calls.rs"))
        .with_src(Path::new(HERE).join("src/record_calls.rs"))
        .with_src(Path::new(HERE).join("src/play_calls.rs"))
        .with_src(Path::new(HERE).join("src/map_calls.rs"))
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

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("straightway-c-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The programs in C; each is given a folder to work in.
const PROGRAMS: [&str; 4] = [
    "tests/calls.c",
    "tests/volumes.c",
    "tests/record.c",
    "tests/play.c",
];
/// One that needs userfaultfd, which valgrind does not know.
const MAP: &str = "tests/map.c";
const SANITIZER: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

#[test]
fn programs_in_c_run_clean_under_the_address_sanitizer() {
    if is_missing("cc") {
        return;
    }
    for source in PROGRAMS.into_iter().chain([MAP]) {
        let folder = Folder::new("sanitizer");
        let done = run(Command::new(compiled(source, &SANITIZER)).arg(&folder.0));
        // What this machine lacks.
        print!("{}", String::from_utf8_lossy(&done.stdout));
    }
}

/// Whether this run of all tests takes the cell of this number, of those that are dealt over four
/// runs (`tools/suites/deal.py`).
fn is_taken(index: usize) -> bool {
    let part = std::env::var("STRAIGHTWAY_CELLS").unwrap_or_default();
    part.parse::<usize>().map_or(true, |part| index % 4 == part)
}

#[test]
fn programs_in_c_run_clean_under_valgrind() {
    if is_missing("cc") || is_missing("valgrind") {
        return;
    }
    let folder = Folder::new("valgrind");
    let example = ("examples/queue.c", "ram:1M".as_ref());
    let programs = PROGRAMS.map(|source| (source, folder.0.as_os_str()));
    let programs = programs.into_iter().chain([example]).enumerate();
    // The sanitizer sees each of them in each run; this takes six times as long.
    for (_, (source, argument)) in programs.filter(|(index, _)| is_taken(*index)) {
        // What is still reachable are Rust's tables of threads.
        run(Command::new("valgrind")
            .args([
                "-q",
                "--error-exitcode=99",
                "--leak-check=full",
                "--errors-for-leak-kinds=definite",
            ])
            .arg(compiled(source, &[]))
            .arg(argument));
    }
}

/// A program that has options of each kind, in each scope.
const OPTIONS: &str = r#"
#ifdef __cplusplus
extern "C" { // As programs do for headers that do not know C++.
#endif
#include "straightway.h"
#ifdef __cplusplus
}
#endif
static struct straightway_options outer = STRAIGHTWAY_OPTIONS_INIT;
int main(void) {
  struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
  struct straightway_format_options format = STRAIGHTWAY_FORMAT_OPTIONS_INIT;
  struct straightway_record_options record = STRAIGHTWAY_RECORD_OPTIONS_INIT;
  struct straightway_play_options play = STRAIGHTWAY_PLAY_OPTIONS_INIT;
  struct straightway_map_options map = STRAIGHTWAY_MAP_OPTIONS_INIT;
  int right = outer.size == sizeof outer && options.size == sizeof options && format.size == sizeof format &&
              record.size == sizeof record && play.size == sizeof play && map.size == sizeof map;
  int zero = !options.path && !options.write && !format.label && !record.segment_bytes && !play.no_verify;
  return right && zero ? 0 : 1;
}
"#;

#[test]
fn options_are_initialised_in_each_c_and_c_plus_plus() {
    let folder = Folder::new("dialects");
    let dialects = [
        ("gcc", "c", &["c99", "c11", "c17"][..]),
        ("g++", "c++", &["c++11", "c++14", "c++17", "c++20"][..]),
    ];
    for (compiler, language, standards) in dialects {
        if is_missing(compiler) {
            continue;
        }
        let source = folder.0.join(format!("options.{language}"));
        std::fs::write(&source, OPTIONS).expect("a source");
        for standard in standards {
            let program = folder.0.join(standard);
            run(Command::new(compiler)
                .args([&format!("-std={standard}"), "-x", language])
                .args(["-Wall", "-Wextra", "-Wpedantic", "-pedantic-errors"])
                .args(["-Wshadow", "-Werror", "-Iinclude"])
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .current_dir(HERE));
            run(&mut Command::new(&program));
        }
    }
}

#[test]
fn the_example_stores_and_lists_files() {
    if is_missing("cc") {
        return;
    }
    let program = compiled("examples/files.c", &SANITIZER);
    let folder = Folder::new("files");
    let image = folder.0.join("image");
    let options = api::FormatOptions {
        volume_bytes: Some(8 << 20),
        ..api::FormatOptions::default()
    };
    api::format(image.to_str().expect("text"), &options).expect("a volume");
    let input = folder.0.join("input");
    std::fs::write(&input, vec![7u8; (2 << 20) + 5]).expect("an input");
    let store = |name| {
        let input = std::fs::File::open(&input).expect("the input");
        let mut command = Command::new(&program);
        command.arg(&image).arg(name).stdin(input);
        command
    };
    run(&mut store("one"));
    let done = run(&mut store("two"));
    let said = String::from_utf8_lossy(&done.stdout);
    let mut lines: Vec<&str> = said.lines().map(str::trim).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["2097157 one", "2097157 two"]);
    let done = store("two").output().expect("the example");
    assert_eq!(done.status.code(), Some(9));
}

#[test]
fn the_example_reads_and_measures() {
    if is_missing("cc") {
        return;
    }
    let program = compiled("examples/queue.c", &SANITIZER);
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

/// `make install-c`, as a user builds a program against it: shared and static.
#[test]
fn an_installed_library_is_found_by_pkg_config() {
    if is_missing("cc") || is_missing("make") || is_missing("pkg-config") {
        return;
    }
    let folder = Folder::new("install");
    run(Command::new("make")
        .args(["-C", "../..", "install-c", "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", folder.0.display()))
        .arg(format!("LIBRARY={}", built().display()))
        .current_dir(HERE));
    let lib = folder.0.join("usr/lib");
    let flags = |more: &[&str]| {
        let done = run(Command::new("pkg-config")
            .args(["--cflags", "--libs", "straightway"])
            .args(more)
            .env("PKG_CONFIG_SYSROOT_DIR", &folder.0)
            .env("PKG_CONFIG_LIBDIR", lib.join("pkgconfig")));
        String::from_utf8(done.stdout).expect("text")
    };
    let build = |name: &str, flags: &str| {
        let program = folder.0.join(name);
        run(Command::new("cc")
            .args(["-o".as_ref(), program.as_os_str()])
            .arg("examples/queue.c")
            .args(flags.split_whitespace())
            .current_dir(HERE));
        program
    };
    let version = run(Command::new("pkg-config")
        .args(["--modversion", "straightway"])
        .env("PKG_CONFIG_LIBDIR", lib.join("pkgconfig")));
    let version = String::from_utf8_lossy(&version.stdout);
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let shared = build("shared", &flags(&[]));
    run(Command::new(shared)
        .arg("ram:1M")
        .env("LD_LIBRARY_PATH", &lib));
    for name in ["libstraightway.so", "libstraightway.so.0"] {
        std::fs::remove_file(lib.join(name)).expect("a link");
    }
    // Only the static one is left.
    let fixed = build("static", &flags(&["--static"]));
    run(Command::new(fixed).arg("ram:1M"));
}

/// What cargo-c is told is what the Makefile, build.rs and the description for pkg-config have;
/// tools/cinstall compares the installed files.
#[test]
fn cargo_c_has_the_same_facts_as_make() {
    let read = |name: &str| std::fs::read_to_string(Path::new(HERE).join(name)).expect(name);
    let (manifest, description) = (read("Cargo.toml"), read("straightway.pc.in"));
    let (_, capi) = manifest
        .split_once("[package.metadata.capi.header]")
        .expect("a section for cargo-c");
    for (field, key) in [("Name", "name"), ("Description", "description")] {
        let value = description
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{field}: ")));
        let value = value.expect("a field");
        assert!(capi.contains(&format!("\n{key} = \"{value}\"\n")), "{key}");
    }
    assert!(capi.contains("\"include/straightway.h\""));
    // The first component of the version, as build.rs and the Makefile have it.
    assert!(capi.contains("\nversion_suffix_components = 1\n"));
    assert!(read("build.rs").contains("CARGO_PKG_VERSION_MAJOR"));
    assert!(read("../../Makefile").contains("libstraightway.so.$(MAJOR)"));
}
