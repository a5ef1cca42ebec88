// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume that another process records on: what that one answers to `ls`, `stat`, `df`, `get`,
//! `cat`, `export` and `status`.
//!
//! A volume has one writer, which alone knows what is in flight. So the readers ask it: the process
//! that records listens at a socket, and its loop answers between the blocks of the recording, one
//! request at a time, from what is committed. Nothing is read from the drive by the side; it works
//! on a path that only one process can have.
//!
//! | module | contents |
//! | --- | --- |
//! | `door` | the recording's socket, and a thread for each reader |
//! | `host` | the answers, on the thread that has mounted the volume |
//! | `reader` | the other end: what a verb asks |
//! | `events` | what has happened in the recording |
//! | `patience` | the wait for an answer, which can be cancelled |
//! | `origin` | files to read, wherever the volume is mounted |
//!
//! A message is a line of JSON; the data of [`Answer::Data`] follows its line. The socket is in
//! Linux's abstract namespace, so that a killed recording leaves nothing behind; each end refuses
//! the other unless it is root's or the same user's.
#![forbid(unsafe_code)]

pub mod door;
pub mod events;
pub mod host;
pub mod origin;
mod patience;
mod pieces;
pub mod reader;

use devices::drive::Drive;
use devices::error::{Error, ErrorKind};
use events::Event;
use files::listing::Listing;
use files::reports::{FileReport, VolumeReport};
use linux::resolve::Resolved;
use pieces::Pieces;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

/// The longest read.
pub const READ_BYTES: usize = 1 << 20;
/// The longest line: the list of a volume's files.
const LINE_BYTES: u64 = 256 << 20;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// All files.
    List,
    /// The volume.
    Volume,
    /// How the recording goes.
    Status,
    /// What has happened in it since the event of this number.
    Events(u64),
    /// A file, by name.
    File(String),
    /// What is committed of a file's data, at most [`READ_BYTES`].
    Read {
        /// The file.
        name: String,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
    },
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Ask::List`].
    List(Listing),
    /// To [`Ask::Volume`].
    Volume(Box<VolumeReport>),
    /// To [`Ask::Status`].
    Status(RecordingStatus),
    /// To [`Ask::Events`], and before [`Answer::Ended`] to whoever has asked for them: the events,
    /// and the number of the next one.
    Events(Vec<Event>, u64),
    /// To [`Ask::File`].
    File(Box<FileReport>),
    /// To [`Ask::Read`]: this many bytes follow.
    Data(Data),
    /// To no request: the recording has ended, and answers nothing more. A process that is killed
    /// does not send it.
    Ended,
    /// It failed.
    Refused {
        /// The kind of the error.
        kind: String,
        /// What failed, and why.
        what: Pieces,
        /// What may help.
        hint: Option<Pieces>,
    },
}

/// How a recording goes: counters that never fall while its process lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "reports", derive(schemars::JsonSchema))]
pub struct RecordingStatus {
    /// The recording's name, without the number of a segment.
    pub name: String,
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// How long it has gone on.
    pub elapsed_us: u64,
    /// Bytes that arrived in a buffer.
    pub bytes: u64,
    /// Bytes of the recording that are durable, including those that the file had before.
    pub durable_bytes: u64,
    /// Blocks that arrived when a buffer was empty.
    pub blocks: u64,
    /// Blocks for which no buffer was empty.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Runs of lost blocks.
    pub gaps: u64,
    /// Datagrams that the kernel dropped before they could be read.
    pub dropped_datagrams: u64,
    /// Datagrams that were longer than a block of packets has room for, whose end is lost.
    pub cut_datagrams: u64,
    /// Blocks completed after their deadline.
    pub misses: u64,
    /// The longest time past a deadline.
    pub lateness_max_us: u64,
    /// Number of buffers.
    pub buffers: u64,
    /// Blocks that wait for the drive now.
    pub waiting_blocks: u64,
    /// The most that waited at one time.
    pub waiting_max_blocks: u64,
    /// Retried commands.
    pub retries: u64,
    /// Number of commits.
    pub commits: u64,
    /// Segments that are complete; 0 for a recording in one file.
    #[serde(default)]
    pub finished_segments: u64,
    /// Segments that a ring removed, whichever recording made them.
    #[serde(default)]
    pub removed_segments: u64,
    /// Free space of the volume, where it is known without reading: the volume was clean when it
    /// was mounted.
    #[serde(default)]
    pub free_bytes: Option<u64>,
}

/// What is known of a file when a part of it was read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Data {
    /// Bytes that follow: fewer than wanted at the end of what is committed.
    pub length_bytes: u64,
    /// Committed bytes of the file.
    pub size_bytes: u64,
    /// Whether the file is open for writing.
    pub is_growing: bool,
    /// Whether the data was compared with checksums.
    pub verified: bool,
    /// When it was committed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

impl From<&Error> for Answer {
    fn from(failure: &Error) -> Self {
        Self::Refused {
            kind: failure.kind().name().to_owned(),
            what: Pieces::of(failure.what()),
            hint: failure.remedy().map(|remedy| Pieces::of(&remedy.words())),
        }
    }
}

impl Answer {
    /// The failure of an answer that is one, or that fits no request of ours.
    fn failure(self) -> Error {
        match self {
            Self::Refused { kind, what, hint } => {
                let failure = Error::new(ErrorKind::named(&kind), what.words());
                match hint {
                    Some(hint) => failure.hint(hint.words()),
                    None => failure,
                }
            }
            _ => Error::other("the recording's process gave the answer to another question"),
        }
    }
}

/// The drive, by what stays the same whatever it is called and whoever drives it.
fn identity(drive: &Drive) -> Option<String> {
    let of_file = |path: &Path| {
        let data = std::fs::metadata(path).ok()?;
        Some(format!("file {}:{}", data.dev(), data.ino()))
    };
    match drive {
        Drive::Nvme(resolved) => Some(of_nvme(resolved)),
        Drive::Disk(disk) => Some(format!("disk {}", disk.name)),
        Drive::File(path) => of_file(path),
        Drive::Model(model) => of_file(model.file.as_deref()?),
        Drive::Array(array) => {
            let members: Option<Vec<String>> = array.drives().map(identity).collect();
            Some(members?.join(", "))
        }
        Drive::Remote(_) => Some(format!("remote {drive}")),
        // The one exists in one process only, the other has many clients by itself.
        Drive::Ram(_) | Drive::Coprocessor(_) => None,
    }
}

fn of_nvme(resolved: &Resolved) -> String {
    let nsid = resolved.namespace.as_ref().and_then(|one| one.nsid);
    let partition = resolved.partition.as_deref().unwrap_or_default();
    let address = resolved.controller.address;
    format!("nvme {address} {} {partition}", nsid.unwrap_or(1))
}

/// The name by which a drive was known to the kernel before the recording took it: for readers who
/// call it that.
fn former_name(name: &str) -> Option<String> {
    let name = Path::new(name).file_name()?.to_str()?;
    Some(format!("name {name}"))
}

/// The socket of a recording on what has this identity.
fn address(identity: &str) -> io::Result<SocketAddr> {
    let hash = hash(identity.as_bytes());
    SocketAddr::from_abstract_name(format!("straightway/live/{hash:032x}"))
}

/// FNV-1a of 128 bits: short enough for a socket's name. Who listens there is asked for its user,
/// so a hash that somebody else can also make does no harm.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

/// Whether the other end is root's or this user's.
fn is_trusted(stream: &UnixStream) -> bool {
    stranger(stream).is_none()
}

/// The user of the other end, unless it is root or this user.
fn stranger(stream: &UnixStream) -> Option<String> {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => {
            let is_trusted = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
            (!is_trusted).then(|| peer.uid.as_raw().to_string())
        }
        Err(_) => Some("unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::door::{Door, End, Letter};
    use super::events::Events;
    use super::*;
    use remedy::{Remedy, words};
    use std::io::{BufRead, BufReader, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn nonsense_ends_a_connection_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("straightway-live-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let drive = Drive::File(path.clone());
        let door = Door::open(&drive, &devices::Progress::default()).unwrap();
        assert!(
            Door::open(&drive, &devices::Progress::default()).is_none(),
            "one recording on a drive"
        );
        let connect = || {
            let address = address(&identity(&drive).unwrap()).unwrap();
            UnixStream::connect_addr(&address).unwrap()
        };
        let (letters_to, letters) = channel();
        let (end, readers) = (End::new().unwrap(), AtomicUsize::new(0));
        let events = Events::default();
        let post = move |letter| letters_to.send(letter).is_ok();
        std::thread::scope(|scope| {
            let (door, end, readers) = (&door, &end, &readers);
            let (post, events) = (&post, &events);
            scope.spawn(move || door.attend(scope, post, events, end, readers));
            let long = [b'x'; 1 << 20];
            for nonsense in [&b"\n"[..], b"{}\n", b"\"List\"", b"\xff\xfe\n", &long] {
                let mut stream = connect();
                // It may end before it has everything.
                let _ = stream.write_all(nonsense);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut line = Vec::new();
                let _ = BufReader::new(stream).read_until(b'\n', &mut line);
                assert_eq!(line, b"", "{:?}", nonsense.get(..10));
            }
            // One that leaves before its answer, and one that waits for it.
            connect().write_all(b"\"Volume\"\n").unwrap();
            let Letter { ask, reply } = letters.recv().unwrap();
            assert!(matches!(ask, Ask::Volume), "{ask:?}");
            let hint = words!["straightway ls ", remedy::Device];
            let failure = Error::missing("gone").hint(hint.clone());
            let _ = reply.send((Answer::from(&failure), Vec::new()));
            let mut stream = connect();
            stream.write_all(b"\"List\"\n").unwrap();
            let Letter { reply, .. } = letters.recv().unwrap();
            reply.send((Answer::from(&failure), Vec::new())).unwrap();
            let mut line = Vec::new();
            BufReader::new(&stream)
                .read_until(b'\n', &mut line)
                .unwrap();
            let answer: Answer = serde_json::from_slice(&line).unwrap();
            let told = answer.failure();
            assert_eq!(
                (told.kind(), told.to_string().as_str()),
                (ErrorKind::Missing, "gone")
            );
            // A value: the reader names its own device.
            assert_eq!(told.remedy().map(Remedy::words), Some(hint));
            // One too many is told so, whatever it asks.
            while readers.load(Ordering::Relaxed) > 1 {
                std::thread::yield_now();
            }
            let all: Vec<UnixStream> = (1..8).map(|_| connect()).collect();
            while readers.load(Ordering::Relaxed) < 8 {
                std::thread::yield_now();
            }
            let mut line = Vec::new();
            let many = connect();
            let _ = (&many).write_all(b"\"List\"\n");
            BufReader::new(many).read_until(b'\n', &mut line).unwrap();
            let answer: Answer = serde_json::from_slice(&line).unwrap();
            let told = answer.failure();
            assert_eq!(told.kind(), ErrorKind::Missing);
            assert!(told.to_string().starts_with("8 other processes"), "{told}");
            drop(all);
            drop(stream);
            while readers.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            // The end does not wait for one that takes nothing.
            let mut stuck = connect();
            stuck.write_all(b"\"List\"\n").unwrap();
            let Letter { reply, .. } = letters.recv().unwrap();
            let much = vec![0; 64 << 20];
            reply.send((Answer::from(&failure), much)).unwrap();
            end.call();
            while readers.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            drop(stuck);
        });
        std::fs::remove_file(path).unwrap();
    }
}
