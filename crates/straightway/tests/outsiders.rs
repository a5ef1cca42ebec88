// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in Rust of the READMEs, in a project of somebody who has added this crate and
//! nothing else, without its features.
#![allow(clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use straightway::{CreateOptions, DeviceOptions, FormatOptions, OpenFile, VolumeDevice, format};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The first block of code in Rust of a page.
fn program_of(page: &str) -> String {
    let page = Path::new(HERE).join(page);
    let text = std::fs::read_to_string(&page).expect("the page");
    let (_, after) = text.split_once("\n```rust").expect("a block in Rust");
    let (_, program) = after.split_once('\n').expect("its first line");
    program.split_once("\n```\n").expect("its end").0.to_owned()
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

/// A project outside the workspace, with this crate as its one dependency.
struct Project(PathBuf);

impl Project {
    /// Makes it with these programs. Its lock file is the workspace's, of which cargo keeps what it
    /// needs: no network is asked.
    fn new(programs: &[(&str, String)]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("straightway-outsider-{}", std::process::id()));
        let sources = folder.join("src/bin");
        std::fs::create_dir_all(&sources).expect("a folder");
        for (name, source) in programs {
            std::fs::write(sources.join(format!("{name}.rs")), source).expect("a program");
        }
        let manifest = format!(
            "[package]\nname = \"outsider\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nstraightway = {{ path = {HERE:?}, default-features = false }}\n\n\
             [profile.dev]\ndebug = false\n\n[workspace]\n"
        );
        std::fs::write(folder.join("Cargo.toml"), manifest).expect("its manifest");
        std::fs::copy(
            Path::new(HERE).join("../../Cargo.lock"),
            folder.join("Cargo.lock"),
        )
        .expect("the workspace's lock file");
        Self(folder)
    }

    /// Builds it where this test was built, so that crates of others are compiled once.
    fn built(&self) -> PathBuf {
        let program = std::env::current_exe().expect("this program's path");
        let mut folders = program.ancestors().skip(3);
        let target = folders.next().expect("cargo's folder");
        run(Command::new("cargo")
            .args(["build", "--offline", "--quiet", "--target-dir"])
            .arg(target)
            .current_dir(&self.0));
        target.join("debug")
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_programs_of_the_pages_need_this_crate_only() {
    if Command::new("cargo").arg("--version").output().is_err() {
        println!("SKIPPED: cargo is not installed");
        return;
    }
    let project = Project::new(&[
        ("outsider-first", program_of("README.md")),
        ("outsider-front", program_of("../../README.md")),
    ]);
    let programs = project.built();
    let printed = |name| run(Command::new(programs.join(name)).current_dir(&project.0));
    let first = printed("outsider-first");
    let (first, second) = first.split_once('\n').expect("two lines");
    assert_eq!(first, "log has 20 bytes");
    assert!(
        second.contains("first.img") && !second.contains(" --"),
        "{second}"
    );
    prepare(&project.0.join("disk.img")).expect("a volume");
    assert_eq!(printed("outsider-front"), "8 bytes\n");
}

/// A volume with the file that the front page's program reads.
fn prepare(disk: &Path) -> Result<(), straightway::Error> {
    let name = disk.to_str().expect("text");
    let made = FormatOptions {
        volume_bytes: Some(16 << 20),
        ..FormatOptions::default()
    };
    format(name, &made)?;
    let write = DeviceOptions {
        write: true,
        ..DeviceOptions::default()
    };
    let mut device = VolumeDevice::open(name, &write)?;
    let mut files = [OpenFile::default()];
    let volume = device.mount(&mut files)?;
    let mut file = volume.create("README.md", &CreateOptions::default())?;
    file.append(&volume, b"straight")?;
    file.close(&volume)?;
    let unmounted = volume.unmount();
    device.close_after(unmounted)
}
