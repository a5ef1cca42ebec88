// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in C of the READMEs, compiled by somebody who has only the header and the shared
//! library.
#![allow(clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The first block of code in C of a page.
fn program_of(page: &str) -> String {
    let page = Path::new(HERE).join(page);
    let text = std::fs::read_to_string(&page).expect("the page");
    let after = text.split_once("\n```c\n").expect("a block in C").1;
    after.split_once("\n```\n").expect("its end").0.to_owned()
}

fn run(command: &mut Command) -> String {
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{}",
        done.status,
        text(&done.stdout),
        text(&done.stderr)
    );
    text(&done.stdout)
}

/// A folder with nothing of this repository but the header and the library.
struct Outside(PathBuf);

impl Outside {
    fn new() -> Self {
        let folder =
            std::env::temp_dir().join(format!("straightway-outside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let built = std::env::current_exe().expect("this program's path");
        let built = built.parent().expect("its folder");
        let library = built.join("libstraightway.so");
        std::fs::copy(library, folder.join("libstraightway.so")).expect("the library");
        // The name of the interface, which `make install-c` also makes.
        std::os::unix::fs::symlink("libstraightway.so", folder.join("libstraightway.so.0"))
            .expect("a link");
        let header = Path::new(HERE).join("include/straightway.h");
        std::fs::copy(header, folder.join("straightway.h")).expect("the header");
        Self(folder)
    }

    /// Compiles a program with every warning an error, runs it here, and returns what it printed.
    fn printed(&self, name: &str, source: &str) -> String {
        let file = format!("{name}.c");
        std::fs::write(self.0.join(&file), source).expect("the source");
        run(Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(["-I.", &file, "-o", name, "-L.", "-lstraightway"])
            .arg("-Wl,-rpath,$ORIGIN")
            .current_dir(&self.0));
        run(Command::new(self.0.join(name)).current_dir(&self.0))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A volume with the file that the front page's program reads, made by a program too.
const PREPARED: &str = r#"
#include <straightway.h>

int main(void)
{
        struct straightway_format_options made = STRAIGHTWAY_FORMAT_OPTIONS_INIT;
        struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
        straightway_volume volume;
        straightway_file file;

        made.volume_bytes = 16 << 20;
        options.write = 1;
        return straightway_format("disk.img", &made) || straightway_volume_open("disk.img", &options, &volume) ||
               straightway_file_create(volume, "README.md", 0, 0, 0, &file) || straightway_file_append(file, "straight", 8) ||
               straightway_volume_close(volume);
}
"#;

#[test]
fn the_programs_of_the_pages_need_the_header_and_the_library_only() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("SKIPPED: cc is not installed");
        return;
    }
    let outside = Outside::new();
    let printed = outside.printed("first", &program_of("../straightway/README.md"));
    let (first, second) = printed.split_once('\n').expect("two lines");
    assert_eq!(first, "log has 20 bytes");
    assert!(
        second.contains("first.img") && !second.contains(" --"),
        "{second}"
    );
    outside.printed("prepare", PREPARED);
    let printed = outside.printed("front", &program_of("../../README.md"));
    assert_eq!(printed, "8 bytes\n");
}
