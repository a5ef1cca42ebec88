// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One map for several processes: each has a mapping of the same memory, and the server serves the
//! faults of all.
//!
//! ```text
//!  server                         another process
//!    Map::share(path)  <--------    attach(path)          connects
//!    Hello, memory     -------->                          maps the memory
//!                      <--------    address, userfaultfd
//!    ... faults come by the userfaultfd, pages appear in the memory ...
//!    offset, reason    -------->                          makes the page an error
//! ```
//!
//! A page that one process has touched is there for all, and counts once against the limit. Memory
//! that the server takes is gone from all mappings at once. Messages are those of a socket of
//! packets (SOCK_SEQPACKET), in the machine's byte order.

use crate::error::{Error, Result};
use crate::sys::{Mapping, Region, new_socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, connect, recvmsg,
    sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The first eight bytes that a server sends; the digit is the version of the messages.
const MAGIC: &[u8; 8] = b"sw-map-1";
/// The longest message.
const MOST_BYTES: usize = 512;

/// What a server tells a process that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Bytes of memory: whole pages.
    pub len: u64,
    pub page_bytes: u64,
    /// Bytes of content.
    pub size_bytes: u64,
}

impl Hello {
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, word) in [self.len, self.page_bytes, self.size_bytes]
            .iter()
            .enumerate()
        {
            bytes[8 + at * 8..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let words = bytes.strip_prefix(MAGIC)?;
        let word = |at: usize| {
            let bytes = words.get(at * 8..at * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let hello = Self {
            len: word(0)?,
            page_bytes: word(1)?,
            size_bytes: word(2)?,
        };
        let is_whole = hello.len.checked_rem(hello.page_bytes) == Some(0);
        (is_whole && hello.size_bytes <= hello.len && words.len() == 24).then_some(hello)
    }
}

/// Sends one message, with a file if there is one.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    file: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut files = SendAncillaryBuffer::new(&mut space);
    let file = file.as_slice();
    if !file.is_empty() {
        let has_space = files.push(SendAncillaryMessage::ScmRights(file));
        debug_assert!(has_space, "space for one file");
    }
    let message = &message[..message.len().min(MOST_BYTES)];
    let flags = SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(message)], &mut files, flags).map(drop)
}

/// Receives one message and the file with it. No bytes are its end.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    message: &mut [u8],
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut files = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(message)];
    let received = recvmsg(socket, &mut parts, &mut files, RecvFlags::CMSG_CLOEXEC)?;
    let file = files.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((received.bytes, file))
}

/// A page of a shared map that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Offset of the page in the map.
    pub offset_bytes: u64,
    /// The device's error, in words.
    pub reason: String,
}

/// Another process's map, to read: see [`Map::share`](crate::Map::share).
///
/// An access that cannot be served, because the device fails or the server has ended, gets SIGBUS.
/// A child process does not inherit the map: after a fork its accesses get SIGSEGV.
#[derive(Debug)]
pub struct Attached {
    region: Arc<Region>,
    hello: Hello,
    tail_bytes: usize,
    socket: Arc<OwnedFd>,
    unreadable: Arc<Mutex<Vec<Unreadable>>>,
    keeper: Option<JoinHandle<()>>,
}

/// Maps what a process shares at `path`. A thread of this process waits for the server's messages
/// until the map is dropped.
///
/// # Errors
/// [`Error::NoServer`]; [`Error::System`]; [`Error::NotPermitted`]; [`Error::Ended`]: the server
/// refuses, because this is another user or there are too many processes.
pub fn attach(path: &Path) -> Result<Attached> {
    attach_before(0, path)
}

/// As [`attach`], with `tail_bytes` of addresses behind the map whose accesses are SIGBUS: for
/// programs that map more than a file has.
///
/// # Errors
/// As of [`attach`].
pub fn attach_before(tail_bytes: usize, path: &Path) -> Result<Attached> {
    let failed = |doing| {
        move |error: Errno| Error::System {
            doing,
            error: error.into(),
        }
    };
    let address = SocketAddrUnix::new(path).map_err(failed("the socket's path"))?;
    let socket = new_socket(SocketFlags::empty())?;
    connect(&socket, &address).map_err(|error| match error {
        Errno::NOENT | Errno::CONNREFUSED => Error::NoServer(path.to_owned()),
        error => failed("connecting to the map's server")(error),
    })?;
    let mut message = [0; 64];
    let (len, memory) =
        receive(socket.as_fd(), &mut message).map_err(failed("receiving the map"))?;
    let hello = Hello::of(&message[..len]).ok_or(Error::Ended)?;
    let memory = memory.ok_or(Error::Ended)?;
    let len = usize::try_from(hello.len).map_err(|_| Error::Options("the map is too long"))?;

    let mapping = Mapping::attached(memory, len, tail_bytes)?;
    let region = Arc::clone(mapping.region());
    let start = region.start().as_ptr() as u64;
    send(socket.as_fd(), &start.to_ne_bytes(), Some(mapping.uffd()))
        .map_err(failed("sending the userfaultfd"))?;
    let socket = Arc::new(socket);
    let unreadable = Arc::new(Mutex::new(Vec::new()));
    let (listened, list) = (Arc::clone(&socket), Arc::clone(&unreadable));
    let keeper = thread::Builder::new()
        .name("map".into())
        .spawn(move || keep(&listened, &mapping, hello, &list))
        .map_err(|error| Error::System {
            doing: "starting a thread",
            error,
        })?;
    Ok(Attached {
        region,
        hello,
        tail_bytes,
        socket,
        unreadable,
        keeper: Some(keeper),
    })
}

/// Makes pages that cannot be read errors, and all of them when the server ends.
fn keep(socket: &OwnedFd, mapping: &Mapping, hello: Hello, list: &Mutex<Vec<Unreadable>>) {
    let mut message = [0; MOST_BYTES];
    loop {
        let received = match receive(socket.as_fd(), &mut message) {
            Err(Errno::INTR) => continue,
            received => received.map_or(0, |(len, _)| len),
        };
        let Some((offset, reason)) = message[..received].split_first_chunk() else {
            break;
        };
        let offset_bytes = u64::from_ne_bytes(*offset);
        let end = offset_bytes.checked_add(hello.page_bytes);
        if offset_bytes % hello.page_bytes != 0 || end.is_none_or(|end| end > hello.len) {
            break;
        }
        let failure = Unreadable {
            offset_bytes,
            reason: String::from_utf8_lossy(reason).into_owned(),
        };
        let mut failures = list.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push(failure);
        drop(failures);
        if mapping
            .end(offset_bytes as usize, hello.page_bytes as usize)
            .is_err()
        {
            break;
        }
    }
    mapping.end_all();
}

impl Attached {
    /// The first byte. Until the map is dropped, `size_bytes` bytes from there on can be loaded.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.start()
    }

    /// Length in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.hello.size_bytes
    }

    /// Length of the memory in bytes: whole pages.
    pub const fn len_bytes(&self) -> u64 {
        self.hello.len
    }

    /// Bytes of addresses behind the memory.
    pub const fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// Bytes of a page, which is what becomes an error as a whole.
    pub const fn page_bytes(&self) -> u64 {
        self.hello.page_bytes
    }

    /// Pages that cannot be read.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let list = self.unreadable.lock();
        list.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The thread ends when its socket does.
        let _ = shutdown(&self.socket, Shutdown::Both);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}
