// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program does wrong is an error value: it changes nothing, and it is worded for programs,
//! without options of the command.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use straightway::{
    CreateOptions, Device, DeviceOptions, Error, ErrorKind, FormatOptions, Members, OpenFile,
    VolumeDevice, format, resize,
};

// What sort of an error each is.
const NO: ErrorKind = ErrorKind::Other;
const USAGE: ErrorKind = ErrorKind::Usage;
const MISSING: ErrorKind = ErrorKind::Missing;
const UNSUPPORTED: ErrorKind = ErrorKind::Unsupported;
const EXISTS: ErrorKind = ErrorKind::Exists;
const NOT_FOUND: ErrorKind = ErrorKind::NotFound;

/// A folder that is removed at the end of a test, with a volume in a file.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("straightway-bad-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("a path of text").to_owned()
    }

    /// A volume in a file, with a file in it.
    fn volume(&self, name: &str) -> String {
        let path = self.path(name);
        format(&path, &made()).expect("a volume");
        let mut device = VolumeDevice::open(&path, &writing()).expect("its device");
        let mut files = [OpenFile::default()];
        let volume = device.mount(&mut files).expect("the volume");
        let mut file = volume
            .create("kept", &CreateOptions::default())
            .expect("a file");
        file.append(&volume, b"kept data").expect("its data");
        file.close(&volume).expect("its end");
        let unmounted = volume.unmount();
        device.close_after(unmounted).expect("the device's end");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn made() -> FormatOptions<'static> {
    FormatOptions {
        volume_bytes: Some(16 << 20),
        ..FormatOptions::default()
    }
}

fn writing() -> DeviceOptions<'static> {
    DeviceOptions {
        write: true,
        ..DeviceOptions::default()
    }
}

/// Whether a text has an option of the command where no command to run is named.
fn has_option(text: &str) -> bool {
    let mut is_command = false;
    text.split(' ').any(|word| {
        is_command |= word == "straightway";
        let has = !is_command && word.trim_start_matches(['(', '`']).starts_with("--");
        is_command &= !word.ends_with([',', ';', ':']);
        has
    })
}

/// Checks an error: its kind, and its words.
#[track_caller]
fn is(result: Result<(), Error>, kind: ErrorKind, says: &str) {
    let error = result.expect_err("an error");
    assert_eq!(error.kind(), kind, "{error:?}");
    let what = error.to_string();
    assert!(what.contains(says), "{error:?}");
    let hint = error.hint_in(&Members).unwrap_or_default();
    assert!(!has_option(&what) && !has_option(&hint), "{error:?}");
}

fn open(name: &str, options: &DeviceOptions<'_>) -> Result<(), Error> {
    Device::open(name, options).and_then(Device::close)
}

fn open_volume(name: &str, options: &DeviceOptions<'_>) -> Result<(), Error> {
    let device = VolumeDevice::open(name, options)?;
    device.close_after(Ok(()))
}

#[test]
fn a_device_in_use_is_refused_and_keeps_its_data() {
    let folder = Folder::new("in-use");
    let name = folder.volume("disk");
    let before = std::fs::read(&name).expect("its bytes");
    let held = VolumeDevice::open(&name, &writing()).expect("the device");
    is(open_volume(&name, &writing()), MISSING, "in use");
    is(
        format(
            &name,
            &FormatOptions {
                force: true,
                ..made()
            },
        ),
        MISSING,
        "in use",
    );
    is(
        resize(&name, &DeviceOptions::default(), Some(8 << 20)).map(drop),
        MISSING,
        "in use",
    );
    held.close_after(Ok(())).expect("its end");
    assert!(std::fs::read(&name).expect("its bytes") == before);
    open_volume(&name, &writing()).expect("it is free again");
}

#[test]
fn a_name_of_the_wrong_kind_is_called_what_it_is() {
    let folder = Folder::new("kind");
    let options = DeviceOptions::default();
    is(open(&folder.path(""), &options), MISSING, "is a directory");
    is(
        open("/dev/null", &options),
        MISSING,
        "is a character device",
    );
    is(
        open("file:/dev/null", &options),
        USAGE,
        "is not a regular file",
    );
    is(
        open(&folder.path("missing"), &options),
        MISSING,
        "there is no file",
    );
    is(open("rma:1M", &options), USAGE, "rma:1M");
    is(open("ram:1q", &options), USAGE, "ram:1q");
    is(open("", &options), USAGE, "");
    is(
        open("hwfs:/dev/uio0", &options),
        UNSUPPORTED,
        "files, not blocks",
    );
    // A file of a volume is not a device, and a device without a volume has no files.
    let name = folder.volume("disk");
    is(open(&format!("{name}/kept"), &options), MISSING, "");
    std::fs::write(folder.path("plain"), vec![7; 1 << 20]).expect("a file");
    let mut device = VolumeDevice::open(&folder.path("plain"), &options).expect("a device");
    let mut files = [];
    is(
        device.mount(&mut files).map(drop),
        MISSING,
        "no Straightway volume",
    );
}

#[test]
fn options_that_contradict_each_other_or_the_device_are_refused() {
    let folder = Folder::new("options");
    let name = folder.volume("disk");
    let before = std::fs::read(&name).expect("its bytes");
    let with = |change: &dyn Fn(&mut DeviceOptions<'static>)| {
        let mut options = DeviceOptions::default();
        change(&mut options);
        open(&name, &options)
    };
    is(
        with(&|options| options.path = Some("nonsense")),
        USAGE,
        "`nonsense` is not a path",
    );
    is(
        with(&|options| options.mode = Some("nonsense")),
        USAGE,
        "nonsense",
    );
    is(
        with(&|options| options.path = Some("vfio")),
        UNSUPPORTED,
        "vfio",
    );
    is(
        with(&|options| options.namespace = Some(7)),
        MISSING,
        "namespace 7",
    );
    is(
        with(&|options| {
            options.path = Some("sync");
            options.mode = Some("poll");
        }),
        UNSUPPORTED,
        "cannot wait",
    );
    is(
        with(&|options| options.write = true),
        USAGE,
        "would overwrite",
    );
    is(
        with(&|options| {
            options.write = true;
            options.destroy_data = Some("another name");
        }),
        USAGE,
        "another name",
    );
    let destroys = DeviceOptions {
        destroy_data: Some("disk"),
        ..writing()
    };
    is(open_volume(&name, &destroys), USAGE, "destroy_data");
    // Without force a volume is not made over another one, and not where it does not fit.
    is(format(&name, &made()), USAGE, "holds a Straightway volume");
    is(
        format(&folder.path("new"), &FormatOptions::default()),
        MISSING,
        "there is no file",
    );
    is(
        format(
            &folder.path("new"),
            &FormatOptions {
                volume_bytes: Some(1),
                ..made()
            },
        ),
        USAGE,
        "1 byte",
    );
    is(
        format(
            &folder.path("new"),
            &FormatOptions {
                unit_bytes: Some(3),
                ..made()
            },
        ),
        USAGE,
        "3 bytes",
    );
    let label = "a label that is longer than thirty-two bytes";
    is(
        format(&folder.path("new"), &FormatOptions { label, ..made() }),
        USAGE,
        "",
    );
    assert!(!Path::new(&folder.path("new")).exists());
    assert!(std::fs::read(&name).expect("its bytes") == before);
}

#[test]
fn a_handle_of_another_volume_or_past_its_rights_is_refused() {
    let folder = Folder::new("handles");
    let (one, other) = (folder.volume("one"), folder.volume("other"));
    let mut devices = [&one, &other].map(|name| VolumeDevice::open(name, &writing()).expect("it"));
    let mut files = [[OpenFile::default()], [OpenFile::default()]];
    let [of_one, of_other] = &mut files;
    let [one, other] = &mut devices;
    let one = one.mount(of_one).expect("a volume");
    let other = other.mount(of_other).expect("a volume");
    let mut file = one.open("kept", false).expect("the file");
    is(file.append(&one, b"more"), NO, "opened for reading only");
    is(file.size_bytes(&other).map(drop), NO, "is not open");
    is(
        one.open("kept", false).map(drop),
        MISSING,
        "too many files are open",
    );
    is(
        one.create("kept", &CreateOptions::default()).map(drop),
        EXISTS,
        "kept",
    );
    is(one.open("nothing", false).map(drop), NOT_FOUND, "nothing");
    is(one.rename("kept", "a/../b\0"), USAGE, "");
    file.close(&one).expect("its end");
    one.unmount().expect("the volume's end");
    other.unmount().expect("the volume's end");
}

#[test]
fn of_two_threads_one_gets_the_device() {
    let folder = Folder::new("threads");
    let name = folder.volume("disk");
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let opened = std::thread::scope(|scope| {
        let one = || {
            begin.wait();
            let opened = VolumeDevice::open(&name, &writing());
            // Both have tried before either gives it back.
            end.wait();
            opened.and_then(|device| device.close_after(Ok(())))
        };
        let threads = [scope.spawn(one), scope.spawn(one)];
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let [one, other] = opened;
    assert!(one.is_ok() != other.is_ok(), "{one:?}, {other:?}");
    is(one.and(other), MISSING, "in use");
    open_volume(&name, &writing()).expect("it is free again");
}

#[cfg(feature = "recorder")]
#[test]
fn what_has_ended_stays_so_and_a_recording_says_what_does_not_fit() {
    use straightway::{
        Format, Hertz, Limit, PlaySettings, Player, RecordSettings, Recorder, Segmentation, Size,
    };
    let folder = Folder::new("ended");
    let name = folder.volume("disk");
    let record = |file: &str| RecordSettings::new(&name, file);
    let mut recorder = Recorder::open(&record("run")).expect("a recording");
    assert!(recorder.append(b"once", 0).expect("a message"));
    // While it goes on, the volume is its thread's.
    is(open_volume(&name, &writing()), MISSING, "in use");
    recorder.finish().expect("its end");
    is(recorder.append(b"again", 0).map(drop), USAGE, "has ended");
    is(recorder.finish(), USAGE, "has ended");
    is(Recorder::open(&record("run")).map(drop), EXISTS, "run");
    let refused = |change: &dyn Fn(&mut RecordSettings), words: &str| {
        let mut settings = record("other");
        change(&mut settings);
        is(Recorder::open(&settings).map(drop), USAGE, words);
    };
    let segment = Some(Limit::Bytes(1 << 20));
    refused(
        &|one| one.segments.keep = Some(Size(1 << 20)),
        "only segments",
    );
    refused(
        &|one| (one.append, one.segments.segment) = (true, segment),
        "another file",
    );
    refused(
        &|one| one.segments.segment = Some(Limit::Bytes(0)),
        "at least a block",
    );
    refused(&|one| one.format = Format::Pcapng, "`pcapng`");
    refused(&|one| one.buffers = Some(1), "1 buffers");
    refused(&|one| one.given_block = Some(Size(100)), "100 bytes");
    refused(
        &|one| one.sigmf.frequency = Some(Hertz(-1.0)),
        "-1 is not a frequency",
    );
    // A name is no template.
    let mut percent = record("50%");
    percent.segments = Segmentation {
        segment,
        keep: None,
    };
    Recorder::open(&percent)
        .expect("a name with a percent sign")
        .finish()
        .expect("its end");
    is(
        Player::open(&PlaySettings::new(&name, "nothing")).map(drop),
        NOT_FOUND,
        "nothing",
    );
    let mut few = PlaySettings::new(&name, "run");
    few.buffers = Some(0);
    is(Player::open(&few).map(drop), USAGE, "0 buffers");
    let mut player = Player::open(&PlaySettings::new(&name, "run")).expect("a playback");
    player.finish().expect("its end");
    player.advance().expect("nothing is left");
    assert!(player.current().is_none());
    open_volume(&name, &writing()).expect("it is free again");
}
