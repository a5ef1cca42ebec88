// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many small files of a program.

use straightway::{
    DeviceOptions, ErrorKind, FormatOptions, NewFile, OpenFile, VolumeDevice, format,
};

/// The slots that they need are added together, before a file would have to move: bucket by bucket
/// the table would have just enough of them.
#[test]
fn they_are_made_with_their_slots_and_removed_together() {
    let path = std::env::temp_dir().join(format!("straightway-many-{}", std::process::id()));
    let name = path.to_str().expect("a path of text");
    let shape = FormatOptions {
        volume_bytes: Some(64 << 20),
        slots: Some(64),
        ..FormatOptions::default()
    };
    format(name, &shape).expect("a volume");
    let options = DeviceOptions {
        write: true,
        ..DeviceOptions::default()
    };
    let mut device = VolumeDevice::open(name, &options).expect("its device");
    let mut files: [OpenFile; 2] = Default::default();
    let volume = device.mount(&mut files).expect("a mount");
    let names: Vec<String> = (0..300).map(|number| format!("file {number}")).collect();
    let new: Vec<NewFile<'_>> = names
        .iter()
        .map(|name| NewFile {
            name,
            data: name.as_bytes(),
            mtime_ns: 1,
            app_tag: 0,
        })
        .collect();
    let (made, result) = volume.create_many(&new, false);
    assert_eq!((made, result.is_ok()), (300, true));
    let (mut from, mut found, mut last) = (0, 0, 0);
    while let Some(file) = volume.next_file(from).expect("a list") {
        found += 1;
        last = file.slot;
        from = file.slot + 1;
    }
    assert_eq!(found, 300);
    assert!((400..512).contains(&last), "slot {last}");
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.insert(250, "nothing");
    let (removed, result) = volume.remove_many(&names);
    let kind = result.map_err(|error| error.kind());
    assert_eq!((removed, kind), (250, Err(ErrorKind::NotFound)));
    let (removed, result) = volume.remove_many(&names[251..]);
    assert_eq!((removed, result.is_ok()), (50, true));
    assert!(volume.next_file(0).expect("a list").is_none());
    volume.unmount().expect("an unmount");
    drop(device);
    std::fs::remove_file(path).expect("the file");
}
