// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What libblkid finds on a device, where this machine has it. It is loaded at run time; a program
//! that is linked statically has none.

use std::fs::File;

use crate::sys::blkid;

/// A mark of an owner: a magic number at its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// libblkid's name: the `TYPE` of a superblock, or the `PTTYPE` of a partition table.
    pub kind: String,
    /// `filesystem`, `raid`, `crypto` or `other`; `None` for a partition table.
    pub usage: Option<String>,
    /// Where the magic number is.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

/// The library's version, such as `2.38.1`, if it can be loaded.
pub fn version() -> Option<String> {
    blkid::version()
}

/// Every mark on the device or image in `file`, whose logical block has `block_bytes`. Nothing is
/// written. `None` without the library, or if it cannot read the file.
pub fn marks(file: &File, block_bytes: u32) -> Option<Vec<Mark>> {
    blkid::marks(file, block_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    // partner: libblkid | reader
    #[test]
    fn each_mark_is_found_and_nothing_is_written() {
        if version().is_none() {
            println!("SKIPPED: this machine has no libblkid.so.1");
            return;
        }
        let path = std::env::temp_dir().join(format!("straightway-blkid-{}", std::process::id()));
        let options = || File::options().read(true).write(true).create(true).clone();
        let mut file = options().truncate(true).open(&path).unwrap();
        file.set_len(1 << 22).unwrap();
        assert_eq!(marks(&file, 512), Some(vec![]));
        let mut put = |at, bytes: &[u8]| {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(bytes).unwrap();
        };
        put(0, b"hsqs");
        put(28, &[4, 0]);
        put(536, b"LVM2 001");
        // Its header, whose sector number is checked.
        put(512, b"LABELONE\x01\0\0\0\0\0\0\0");
        let before = std::fs::read(&path).unwrap();
        let found = marks(&file, 512).unwrap();
        let kinds: Vec<_> = found.iter().map(|mark| mark.kind.as_str()).collect();
        assert_eq!(kinds, ["LVM2_member", "squashfs"], "{found:?}");
        assert_eq!((found[0].offset_bytes, found[0].length_bytes), (536, 8));
        assert_eq!(found[0].usage.as_deref(), Some("raid"));
        assert!(std::fs::read(&path).unwrap() == before);
        std::fs::remove_file(&path).unwrap();
    }
}
