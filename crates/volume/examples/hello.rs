//! A volume on a RAM disk: format, write a file, read it back.
//!
//! `cargo run -p straightway-volume --example hello`
use block::{Buffer, RamDisk};
use straightway_volume::{
    CreateOptions, Error, FormatOptions, MountOptions, OpenFile, Volume, blocking,
};

/// Memory for the device; a real device reports the alignment that it needs.
fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

fn main() -> Result<(), Error> {
    let mut disk = RamDisk::<_, 8>::new(vec![0; 4 << 20], 9)?;
    let (formatted, _) =
        straightway_volume::format(&mut disk, buffer(4096), &FormatOptions::default());
    formatted?;

    let mut files = [const { OpenFile::new() }; 2];
    let nodes = [buffer(512), buffer(512), buffer(512)];
    let volume = Volume::mount(disk, nodes, &mut files, &MountOptions::default())
        .map_err(|unmounted| unmounted.result.err().unwrap_or(Error::NotAVolume))?;

    let options = CreateOptions::default();
    let file = blocking::run(&volume, volume.create("greeting.txt", &options))?;
    let mut data = buffer(512);
    data[..13].copy_from_slice(b"Hello, world!");
    blocking::append(&volume, file, data, 13).result?;
    blocking::run(&volume, volume.sync(file))?;

    let read = blocking::read(&volume, file, 0, buffer(512));
    read.result?;
    println!("{}", String::from_utf8_lossy(&read.buffer[..13]));
    blocking::run(&volume, volume.close(file))?;
    volume.unmount().result
}
