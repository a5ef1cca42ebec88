// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fmt;
use std::io;

/// How a command ended: the numbers of `rtl/hwfs/hwfs_pkg.sv`, and from 48 on those of
/// `rtl/hwfs_axi/hwfs_axi_pkg.sv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreStatus(pub u8);

impl CoreStatus {
    /// It succeeded.
    pub const OK: CoreStatus = CoreStatus(0);
    /// The drive no longer responds.
    pub const GONE: CoreStatus = CoreStatus(9);
    /// The volume is not mounted, or has to be mounted again after a change that was interrupted.
    pub const NOT_MOUNTED: CoreStatus = CoreStatus(17);
    /// The drive has no volume.
    pub const NOT_A_VOLUME: CoreStatus = CoreStatus(18);
    /// The volume has a newer version of the format, or features that this core does not know.
    pub const NEWER_VERSION: CoreStatus = CoreStatus(19);
    /// The volume's nodes are longer than this core's buffers, or it has more slots than its index.
    pub const UNSUITABLE: CoreStatus = CoreStatus(20);
    /// The volume is read-only, or mounted so.
    pub const READ_ONLY: CoreStatus = CoreStatus(23);
    /// The name is empty, longer than 64 bytes, or not UTF-8 without NUL.
    pub const BAD_NAME: CoreStatus = CoreStatus(24);
    /// There is no such file.
    pub const NOT_FOUND: CoreStatus = CoreStatus(25);
    /// A file of that name exists.
    pub const EXISTS: CoreStatus = CoreStatus(26);
    /// No free slot is left for the name.
    pub const TABLE_FULL: CoreStatus = CoreStatus(27);
    /// There is not enough free space.
    pub const NO_SPACE: CoreStatus = CoreStatus(28);
    /// The file would have more extents than a map holds.
    pub const MAP_FULL: CoreStatus = CoreStatus(29);
    /// The file is open.
    pub const IN_USE: CoreStatus = CoreStatus(30);
    /// The bytes are not all in the file.
    pub const PAST_END: CoreStatus = CoreStatus(33);
    /// The volume uses a feature of the format that this core leaves out.
    pub const UNSUPPORTED: CoreStatus = CoreStatus(34);
    /// Memory answered with SLVERR.
    pub const SLAVE_ERROR: CoreStatus = CoreStatus(48);
    /// Memory answered with DECERR.
    pub const DECODE_ERROR: CoreStatus = CoreStatus(49);
}

impl fmt::Display for CoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => "success",
            6 => "the drive failed a request",
            7 => "the drive or the memory stalled for too long",
            9 => "the drive no longer responds",
            16 => "no such command or file number",
            17 => "not mounted",
            18 => "not a volume",
            19 => "a newer version of the format",
            20 => "a volume that this core is too small for",
            21 => "corrupt",
            22 => "the newest superblock was lost: mount it read-only",
            23 => "read-only",
            24 => "a bad name",
            25 => "no such file",
            26 => "the file exists",
            27 => "no free slot for the name",
            28 => "no space left",
            29 => "too many extents",
            30 => "the file is in use",
            31 => "the file is not open",
            32 => "the file is not open to write",
            33 => "beyond the end of the file",
            34 => "not supported by this core",
            35 => "the volume needs recovery",
            48 => "the memory answered with an error (SLVERR)",
            49 => "no memory at the buffer's address (DECERR)",
            50 => "a buffer outside of what the hardware reaches",
            other => return write!(f, "status {other}"),
        };
        f.write_str(text)
    }
}

/// Why a command was not carried out.
#[derive(Debug)]
pub enum Error {
    /// The hardware's status, with the command's value; for a drive's error that is the drive's own
    /// code.
    Status(CoreStatus, u64),
    /// The board, or the source or sink of the data, failed.
    Io(io::Error),
    /// The register ID has this value: there is no front.
    NoFront(u32),
    /// The front has this version of the registers, which this library does not know.
    Version(u8),
    /// A command that another user started is in progress.
    Busy,
    /// The interrupt was raised, but STATUS does not count one more completed command: another user
    /// is using the front.
    OutOfStep(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Status(CoreStatus(6), code) => {
                write!(f, "{} (its code is {code:#x})", CoreStatus(6))
            }
            Error::Status(status, _) => status.fmt(f),
            Error::Io(error) => error.fmt(f),
            Error::NoFront(id) => write!(
                f,
                "no file system in hardware: its register ID is {id:#010x}"
            ),
            Error::Version(version) => write!(f, "version {version} of the registers is not known"),
            Error::Busy => f.write_str("a command of another user is in progress"),
            Error::OutOfStep(status) => {
                write!(f, "another user ran a command (STATUS is {status:#010x})")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}
