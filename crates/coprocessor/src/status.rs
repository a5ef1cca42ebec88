// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Status codes: converts every error of `block` and `volume`, and those of the interface itself,
//! to two numbers and back (`docs/coprocessor.md`, "Status codes").

use block::Error as Block;

/// Errors of the interface itself, and states of the coprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// No such command, or not one of this session's access.
    BadOpcode = 0x80,
    /// A flag, length or number that the command does not allow.
    BadField = 0x81,
    /// The data is not inside the client's grant.
    OutsideGrant = 0x82,
    /// The file number does not belong to this session.
    BadFile = 0x83,
    /// The client rang for more entries than the ring has, or took more completions than there are.
    BadIndex = 0x84,
    /// The session does not have the right to do this.
    NoRight = 0x85,
    /// The lease expired: the client sent no heartbeat.
    LeaseOver = 0x86,
    /// The client detached, or attached again.
    Detached = 0x87,
    /// Another session uses the drive in a way that excludes this one: try again when it has ended.
    InUse = 0x88,
    /// The file belongs to an active stream, or no more streams are possible.
    StreamBusy = 0x89,
    /// This session has no such active stream.
    NoStream = 0x8a,
    /// The stream has ended and accepts nothing more.
    StreamEnded = 0x8b,
    /// A block arrived and no place of the stream's ring was empty.
    Overrun = 0x8c,
    /// The volume cannot be mounted: there is none, or this coprocessor cannot use it.
    NoVolume = 0x8d,
    /// A stream's ring, or its companion's block or file, is unsuitable.
    BadRing = 0x8e,
    /// More blocks were handed in or given back than were taken.
    NotTaken = 0x8f,
    /// The machine has no PCI Express root complex.
    NoRootComplex = 0xa0,
    /// There is no drive.
    NoDrive = 0xa1,
    /// There are several drives and the boot arguments do not select one.
    SeveralDrives = 0xa2,
    /// The drive did not become ready.
    NotReady = 0xa3,
    /// The drive cannot be used; the detail is in the log.
    Unusable = 0xa4,
    /// The machine's description lacks something.
    BadMachine = 0xa5,
}

impl Code {
    const ALL: &'static [Code] = &[
        Code::Ok,
        Code::BadOpcode,
        Code::BadField,
        Code::OutsideGrant,
        Code::BadFile,
        Code::BadIndex,
        Code::NoRight,
        Code::LeaseOver,
        Code::Detached,
        Code::InUse,
        Code::StreamBusy,
        Code::NoStream,
        Code::StreamEnded,
        Code::Overrun,
        Code::NoVolume,
        Code::BadRing,
        Code::NotTaken,
        Code::NoRootComplex,
        Code::NoDrive,
        Code::SeveralDrives,
        Code::NotReady,
        Code::Unusable,
        Code::BadMachine,
    ];

    /// The code with this number, if there is one.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| *one as u16 == number)
    }

    /// The code in words.
    pub const fn text(self) -> &'static str {
        match self {
            Code::Ok => "done",
            Code::BadOpcode => "no such command for this access",
            Code::BadField => "a flag, length or number that the command does not allow",
            Code::OutsideGrant => "the data is not inside the client's grant",
            Code::BadFile => "the file number is not this session's",
            Code::BadIndex => "the client's ring indices are impossible",
            Code::NoRight => "the session lacks the right to do this",
            Code::LeaseOver => "the client's lease expired",
            Code::Detached => "the session was ended by its client or by another in its place",
            Code::InUse => "another client uses the drive in a way that excludes this",
            Code::StreamBusy => "the file has an active stream, or no more streams are possible",
            Code::NoStream => "this session has no such active stream",
            Code::StreamEnded => "the stream has ended",
            Code::Overrun => "the drive did not keep up: the stream's ring was full",
            Code::NoVolume => "no volume that the coprocessor can mount is on the drive",
            Code::BadRing => {
                "the ring's places are not whole numbers of drive blocks (of 64 KiB to compare \
                 checksums), or the file of gaps is not empty"
            }
            Code::NotTaken => "more blocks were given back than were taken",
            Code::NoRootComplex => "the machine has no PCI Express root complex",
            Code::NoDrive => "there is no NVMe drive",
            Code::SeveralDrives => {
                "there are several drives: choose one with drive=BUS:DEVICE.FUNCTION"
            }
            Code::NotReady => "the drive did not become ready",
            Code::Unusable => "the drive cannot be used",
            Code::BadMachine => "the machine's description lacks something",
        }
    }
}

/// A code and its detail, as a completion has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionStatus {
    /// The code.
    pub code: u16,
    /// Its detail.
    pub detail: u32,
}

/// An error, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A block error.
    Block(Block),
    /// A volume's error.
    #[cfg(feature = "files")]
    Volume(volume::Error),
    /// An error of the interface.
    Interface(Code),
    /// A code that this side does not know.
    Unknown(CompletionStatus),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Block(error) => error.fmt(f),
            #[cfg(feature = "files")]
            Error::Volume(error) => error.fmt(f),
            Error::Interface(code) => f.write_str(code.text()),
            Error::Unknown(status) => write!(
                f,
                "the coprocessor answered with status {:#x} ({:#x}), which this version does not know",
                status.code, status.detail
            ),
        }
    }
}

impl core::error::Error for Error {}

impl From<Block> for Error {
    fn from(error: Block) -> Self {
        Error::Block(error)
    }
}

impl From<Code> for CompletionStatus {
    fn from(code: Code) -> Self {
        CompletionStatus {
            code: code as u16,
            detail: 0,
        }
    }
}

impl CompletionStatus {
    /// Done.
    pub const OK: CompletionStatus = CompletionStatus { code: 0, detail: 0 };

    const fn with(code: u16, detail: u32) -> Self {
        Self { code, detail }
    }

    /// The status as a result.
    ///
    /// # Errors
    /// Any code except done.
    pub fn result(self) -> Result<(), Error> {
        if self.code == 0 {
            return Ok(());
        }
        if let Some(error) = block_error(self) {
            return Err(Error::Block(error));
        }
        #[cfg(feature = "files")]
        if let Some(error) = files::volume_error(self) {
            return Err(Error::Volume(error));
        }
        Err(Code::from_number(self.code).map_or(Error::Unknown(self), Error::Interface))
    }
}

impl From<Block> for CompletionStatus {
    fn from(error: Block) -> Self {
        match error {
            Block::QueueFull => CompletionStatus::with(1, 0),
            Block::Unaligned => CompletionStatus::with(2, 0),
            Block::TooLarge => CompletionStatus::with(3, 0),
            Block::OutOfRange => CompletionStatus::with(4, 0),
            Block::BufferUnreachable => CompletionStatus::with(5, 0),
            Block::Unsupported => CompletionStatus::with(6, 0),
            Block::ReadOnly => CompletionStatus::with(7, 0),
            Block::Busy => CompletionStatus::with(8, 0),
            Block::Nvme { status } => CompletionStatus::with(9, status as u32),
            Block::Os { errno } => CompletionStatus::with(10, errno as u32),
            Block::TimedOut => CompletionStatus::with(11, 0),
            Block::Aborted => CompletionStatus::with(12, 0),
            Block::ShortTransfer { done_bytes } => CompletionStatus::with(13, done_bytes),
            // Gone, and what later versions of `block` add: nothing that a client could fix.
            _ => CompletionStatus::with(14, 0),
        }
    }
}

fn block_error(status: CompletionStatus) -> Option<Block> {
    let detail = status.detail;
    Some(match status.code {
        1 => Block::QueueFull,
        2 => Block::Unaligned,
        3 => Block::TooLarge,
        4 => Block::OutOfRange,
        5 => Block::BufferUnreachable,
        6 => Block::Unsupported,
        7 => Block::ReadOnly,
        8 => Block::Busy,
        9 => Block::Nvme {
            status: detail as u16,
        },
        10 => Block::Os {
            errno: detail as i32,
        },
        11 => Block::TimedOut,
        12 => Block::Aborted,
        13 => Block::ShortTransfer { done_bytes: detail },
        14 => Block::Gone,
        _ => return None,
    })
}

#[cfg(feature = "files")]
mod files {
    use super::CompletionStatus;
    use volume::{Error, Node};

    /// Errors without a detail, each at its number; a number is never used for another.
    const PLAIN: &[(u16, Error)] = &[
        (0x20, Error::NotAVolume),
        (0x23, Error::StaleSuperblock),
        (0x24, Error::Unsuitable),
        (0x25, Error::BadParameters),
        (0x26, Error::Memory),
        (0x27, Error::ReadOnly),
        (0x28, Error::BadName),
        (0x29, Error::NotFound),
        (0x2a, Error::Exists),
        (0x2b, Error::TableFull),
        (0x2c, Error::NoSpace),
        (0x2d, Error::MapFull),
        (0x2e, Error::InUse),
        (0x2f, Error::TooManyOpen),
        (0x30, Error::NotOpen),
        (0x31, Error::NotWritable),
        (0x32, Error::PastEnd),
        (0x33, Error::Unaligned),
        (0x35, Error::NeedsMap),
        (0x36, Error::NeedsReservation),
        (0x37, Error::NeedsCommit),
        (0x38, Error::UnalignedEnd),
        (0x39, Error::AppendFailed),
        (0x3a, Error::NothingToRetry),
        (0x3b, Error::Busy),
        (0x3c, Error::NeedsMount),
        (0x3d, Error::Unsupported),
        (0x44, Error::SequenceEnd),
    ];
    const NEWER: u16 = 0x21;
    const FEATURES: u16 = 0x22;
    const SPLIT: u16 = 0x34;
    const ROT: u16 = 0x3e;
    const TRUNCATED: u16 = 0x3f;
    const BAD_SUPERBLOCK: u16 = 0x40;
    const BAD_SLOT: u16 = 0x41;
    const BAD_BITMAP: u16 = 0x42;
    const BAD_MAP: u16 = 0x43;
    /// An error of a later version of `volume`.
    const OTHER: u16 = 0x7f;

    impl From<Error> for CompletionStatus {
        fn from(error: Error) -> Self {
            match error {
                Error::Device(error) => error.error().into(),
                Error::NewerVersion { major } => CompletionStatus::with(NEWER, major),
                Error::UnknownFeatures { bits } => CompletionStatus::with(FEATURES, bits),
                Error::Truncated { missing_kib } => CompletionStatus::with(TRUNCATED, missing_kib),
                Error::Split { at_bytes } => CompletionStatus::with(SPLIT, at_bytes),
                Error::Rot { chunk } => CompletionStatus::with(ROT, chunk),
                Error::Corrupt(damage) => match damage.node() {
                    Node::Superblock => CompletionStatus::with(BAD_SUPERBLOCK, 0),
                    Node::Slot(number) => CompletionStatus::with(BAD_SLOT, number),
                    Node::Bitmap(number) => CompletionStatus::with(BAD_BITMAP, number),
                    Node::Map(number) => CompletionStatus::with(BAD_MAP, number),
                },
                plain => {
                    let found = PLAIN.iter().find(|(_, one)| *one == plain);
                    CompletionStatus::with(found.map_or(OTHER, |(code, _)| *code), 0)
                }
            }
        }
    }

    pub(super) fn volume_error(status: CompletionStatus) -> Option<Error> {
        let detail = status.detail;
        Some(match status.code {
            NEWER => Error::NewerVersion { major: detail },
            FEATURES => Error::UnknownFeatures { bits: detail },
            TRUNCATED => Error::Truncated {
                missing_kib: detail,
            },
            SPLIT => Error::Split { at_bytes: detail },
            ROT => Error::Rot { chunk: detail },
            BAD_SUPERBLOCK => Node::Superblock.into(),
            BAD_SLOT => Node::Slot(detail).into(),
            BAD_BITMAP => Node::Bitmap(detail).into(),
            BAD_MAP => Node::Map(detail).into(),
            code => PLAIN.iter().find(|(one, _)| *one == code)?.1,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::super::{Code, CompletionStatus, Error as Failure};
        use super::{Error, Node, PLAIN};

        #[test]
        fn every_error_of_a_volume_comes_back_as_it_was() {
            let with_detail = [
                Error::NewerVersion { major: 9 },
                Error::UnknownFeatures { bits: 0x8000_0001 },
                Error::Truncated { missing_kib: 5 },
                Error::Split { at_bytes: 4096 },
                Error::Rot { chunk: 77 },
                Node::Superblock.into(),
                Node::Slot(3).into(),
                Node::Bitmap(4).into(),
                Node::Map(5).into(),
            ];
            let plain = PLAIN.iter().map(|(_, error)| *error);
            for error in plain.chain(with_detail) {
                let status = CompletionStatus::from(error);
                assert_eq!(status.result(), Err(Failure::Volume(error)));
                assert!(Code::from_number(status.code).is_none(), "{error:?}");
            }
        }
    }
}

#[cfg(feature = "stream")]
pub use streams::StreamEnd;

#[cfg(feature = "stream")]
mod streams {
    use super::{Code, CompletionStatus};
    use stream::Error;

    /// How a stream ended, as numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StreamEnd {
        /// Why.
        pub status: CompletionStatus,
        /// The offset in the file.
        pub offset_bytes: u64,
        /// The time of an overrun, counted from the first block's arrival.
        pub at_us: u64,
    }

    /// An error of a later version of `stream`.
    const OTHER: CompletionStatus = CompletionStatus::with(0x7e, 0);

    impl From<Result<(), Error>> for StreamEnd {
        fn from(result: Result<(), Error>) -> Self {
            let (status, offset_bytes, at_us) = match result {
                Ok(()) => (CompletionStatus::OK, 0, 0),
                Err(Error::Overrun {
                    offset_bytes,
                    at_us,
                }) => (Code::Overrun.into(), offset_bytes, at_us),
                Err(Error::Device {
                    offset_bytes,
                    error,
                }) => (error.into(), offset_bytes, 0),
                Err(Error::Volume {
                    offset_bytes,
                    error,
                }) => (error.into(), offset_bytes, 0),
                Err(Error::BadRing) => (Code::BadRing.into(), 0, 0),
                Err(Error::NotTaken) => (Code::NotTaken.into(), 0, 0),
                Err(Error::Ended) => (Code::StreamEnded.into(), 0, 0),
                Err(_) => (OTHER, 0, 0),
            };
            Self {
                status,
                offset_bytes,
                at_us,
            }
        }
    }

    impl StreamEnd {
        /// The end as a result. A code that this side does not know still counts as an end.
        ///
        /// # Errors
        /// Any code except done.
        pub fn result(self) -> Result<(), Error> {
            let offset_bytes = self.offset_bytes;
            Err(match self.status.result() {
                Ok(()) => return Ok(()),
                Err(super::Error::Block(error)) => Error::Device {
                    offset_bytes,
                    error,
                },
                Err(super::Error::Volume(error)) => Error::Volume {
                    offset_bytes,
                    error,
                },
                Err(super::Error::Interface(Code::Overrun)) => Error::Overrun {
                    offset_bytes,
                    at_us: self.at_us,
                },
                Err(super::Error::Interface(Code::BadRing)) => Error::BadRing,
                Err(super::Error::Interface(Code::NotTaken)) => Error::NotTaken,
                Err(super::Error::Interface(_) | super::Error::Unknown(_)) => Error::Ended,
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{Error, StreamEnd};

        #[test]
        fn every_error_of_a_stream_comes_back_as_it_was() {
            let offset_bytes = 1 << 40;
            let all = [
                Error::Overrun {
                    offset_bytes,
                    at_us: 1 << 33,
                },
                Error::Device {
                    offset_bytes,
                    error: block::Error::Nvme { status: 0x4281 },
                },
                Error::Volume {
                    offset_bytes,
                    error: volume::Error::Rot { chunk: 9 },
                },
                Error::BadRing,
                Error::NotTaken,
                Error::Ended,
            ];
            for error in all {
                assert_eq!(StreamEnd::from(Err(error)).result(), Err(error));
            }
            assert_eq!(StreamEnd::from(Ok(())).result(), Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_device_comes_back_as_it_was() {
        let all = [
            Block::QueueFull,
            Block::Unaligned,
            Block::TooLarge,
            Block::OutOfRange,
            Block::BufferUnreachable,
            Block::Unsupported,
            Block::ReadOnly,
            Block::Busy,
            Block::Nvme { status: 0x4281 },
            Block::Os { errno: 5 },
            Block::TimedOut,
            Block::Aborted,
            Block::ShortTransfer { done_bytes: 512 },
            Block::Gone,
        ];
        for error in all {
            let status = CompletionStatus::from(error);
            assert_eq!(status.result(), Err(super::Error::Block(error)));
            assert!(Code::from_number(status.code).is_none());
        }
        assert_eq!(CompletionStatus::OK.result(), Ok(()));
        for &code in Code::ALL.iter().skip(1) {
            assert_eq!(
                CompletionStatus::from(code).result(),
                Err(super::Error::Interface(code))
            );
        }
        let unknown = CompletionStatus {
            code: 0x3ff,
            detail: 1,
        };
        assert_eq!(unknown.result(), Err(super::Error::Unknown(unknown)));
    }
}
