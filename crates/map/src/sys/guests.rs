// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other processes that have the map: each sends the userfaultfd of its own mapping of the same
//! memory.
//!
//! A process connects to the socket, gets the memory and its sizes ([`Hello`]), maps it, and
//! answers with the address and its userfaultfd. From then on it gets a message for each page that
//! cannot be read. What it does can end its own connection only: each socket is without waiting,
//! and one that does not take a message is closed.
#![allow(unsafe_code)]

use super::abi;
use super::mapping::{Touch, failed, take_touches};
use crate::error::{Error, Result};
use crate::share::{Hello, receive, send};
use crate::space::Fault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most processes at a time.
const MOST: usize = 64;

/// A socket for packets to and from other processes.
///
/// # Errors
/// [`Error::System`].
pub fn new_socket(flags: SocketFlags) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | flags;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed("socket"))
}

/// Whether a file is a socket on which no process listens.
fn is_left_behind(path: &Path, address: &SocketAddrUnix) -> Result<bool> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|status| status.file_type().is_socket());
    let caller = new_socket(SocketFlags::NONBLOCK)?;
    Ok(is_socket && connect(&caller, address) == Err(Errno::CONNREFUSED))
}

/// Where processes connect. The socket's file is removed with this.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    path: PathBuf,
    /// What each is told first.
    hello: Hello,
}

impl Listener {
    /// Makes the socket `path`. The socket of a server that was killed is replaced.
    ///
    /// # Errors
    /// [`Error::Exists`], or [`Error::System`].
    pub fn new(path: &Path, hello: Hello) -> Result<Self> {
        let address = SocketAddrUnix::new(path).map_err(failed("the socket's path"))?;
        let socket = new_socket(SocketFlags::NONBLOCK)?;
        // From the look at an existing socket until ours listens, no other server looks or removes.
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = fs::File::open(folder.unwrap_or(Path::new(".")))
            .map_err(|error| system("opening the socket's folder", error))?;
        flock(&folder, FlockOperation::LockExclusive)
            .map_err(failed("locking the socket's folder"))?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if is_left_behind(path, &address)? => {
                fs::remove_file(path)
                    .map_err(|error| system("removing a socket without a server", error))?;
                bind(&socket, &address).map_err(failed("making the socket's file"))?;
            }
            Err(Errno::ADDRINUSE) => return Err(Error::Exists(path.to_owned())),
            bound => bound.map_err(failed("making the socket's file"))?,
        }
        let listener = Self {
            socket: Arc::new(socket),
            path: path.to_owned(),
            hello,
        };
        listen(&listener.socket, 16).map_err(failed("listen"))?;
        Ok(listener)
    }
}

fn system(doing: &'static str, error: io::Error) -> Error {
    Error::System { doing, error }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have been removed by others.
        let _ = fs::remove_file(&self.path);
    }
}

/// A process that has the map.
#[derive(Debug)]
struct Guest {
    socket: Arc<OwnedFd>,
    uffd: Arc<OwnedFd>,
    /// The address of its mapping.
    start: u64,
    /// Pages that its threads wait for.
    waits: Vec<u64>,
}

impl Guest {
    /// Reads what its threads wait for; false if it is no process that has the map.
    fn take_faults(&mut self, faults: &mut Vec<Fault>, len: u64, page_bytes: u64) -> bool {
        let (start, waits) = (self.start, &mut self.waits);
        let taken = take_touches(self.uffd.as_fd(), |touch| {
            let Touch {
                address,
                thread,
                store,
                ..
            } = touch;
            // The start is what the other process says: any number.
            let offset = address.wrapping_sub(start);
            if offset >= len {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let page = offset / page_bytes;
            waits.push(page);
            // A page in memory appears in its mapping by itself.
            let unmapped = false;
            faults.push(Fault {
                page,
                thread,
                store,
                unmapped,
            });
            Ok(())
        });
        taken.is_ok()
    }

    /// Lets its threads that wait for the page continue.
    fn wake(&mut self, page: u64, page_bytes: u64) {
        let waited = self.waits.len();
        self.waits.retain(|&other| other != page);
        if self.waits.len() == waited {
            return;
        }
        let mut range = abi::Range {
            start: self.start.wrapping_add(page * page_bytes),
            len: page_bytes,
        };
        // SAFETY: the structure is the request's; threads of the other process fault again if they
        // have to. A process that has ended needs no answer.
        let _ = unsafe {
            let uffd = self.uffd.as_raw_fd();
            libc::ioctl(uffd, abi::UFFDIO_WAKE as _, &raw mut range)
        };
    }
}

/// The processes that have a map besides its own.
#[derive(Debug, Default)]
pub struct Guests {
    listener: Option<Listener>,
    /// Connections without an answer yet.
    joining: Vec<Arc<OwnedFd>>,
    guests: Vec<Guest>,
    /// Pages that cannot be read, and why: for those who join later.
    poisoned: BTreeMap<u64, String>,
    len: u64,
    page_bytes: u64,
}

impl Guests {
    /// Nobody yet, of memory of `len` bytes in pages of `page_bytes`.
    pub fn new(len: usize, page_bytes: usize) -> Self {
        Self {
            len: len as u64,
            page_bytes: page_bytes as u64,
            ..Self::default()
        }
    }

    /// Lets processes connect from now on.
    pub fn open(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// What becomes readable when there is something to do: the listener, those who join, then the
    /// socket and the userfaultfd of each process. They stay open although a process may end.
    pub fn files(&self) -> Vec<Arc<OwnedFd>> {
        let listener = self.listener.iter().map(|listener| &listener.socket);
        let guests = self.guests.iter();
        let guests = guests.flat_map(|guest| [&guest.socket, &guest.uffd]);
        let files = listener.chain(&self.joining).chain(guests);
        files.cloned().collect()
    }

    /// Appends the threads of other processes that wait to `faults`. Takes processes that connect,
    /// which get `memory`, and lets go those that have ended.
    ///
    /// # Errors
    /// The system call failed.
    pub fn take_faults(
        &mut self,
        memory: BorrowedFd<'_>,
        faults: &mut Vec<Fault>,
    ) -> io::Result<()> {
        if self.listener.is_none() {
            return Ok(());
        }
        let files = self.files();
        let mut files = poll_files(&files);
        let ready = match poll(&mut files, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => files.iter().map(|file| !file.revents().is_empty()),
            Err(error) => return Err(error.into()),
        };
        let mut ready = ready.collect::<Vec<_>>().into_iter();
        let mut is_ready = || ready.next().unwrap_or(false);

        let has_callers = is_ready();
        let mut joined = Vec::new();
        for socket in std::mem::take(&mut self.joining) {
            if is_ready() {
                joined.extend(join(socket))
            } else {
                self.joining.push(socket)
            }
        }
        let (len, page_bytes) = (self.len, self.page_bytes);
        self.guests.retain_mut(|guest| {
            // It sends nothing after its answer, so a socket that is ready has ended.
            let has_ended = is_ready();
            let has_faults = is_ready();
            !has_ended && (!has_faults || guest.take_faults(faults, len, page_bytes))
        });
        for guest in joined {
            let mut poisoned = self.poisoned.iter();
            if poisoned.all(|(&page, reason)| self.tell(&guest, page, reason)) {
                self.guests.push(guest);
            }
        }
        if has_callers {
            self.accept(memory);
        }
        Ok(())
    }

    /// Sends the memory to those who connect.
    fn accept(&mut self, memory: BorrowedFd<'_>) {
        let Some(listener) = &self.listener else {
            return;
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = accept_with(&listener.socket, flags) {
            let is_ours = socket_peercred(&socket).is_ok_and(|peer| peer.uid == geteuid());
            let has_place = self.guests.len() + self.joining.len() < MOST;
            let hello = listener.hello.to_bytes();
            if is_ours && has_place && send(socket.as_fd(), &hello, Some(memory)).is_ok() {
                self.joining.push(Arc::new(socket));
            }
        }
    }

    /// Tells a process that a page cannot be read; false if it does not listen.
    fn tell(&self, guest: &Guest, page: u64, reason: &str) -> bool {
        let offset_bytes = page * self.page_bytes;
        let message = [&offset_bytes.to_ne_bytes(), reason.as_bytes()].concat();
        send(guest.socket.as_fd(), &message, None).is_ok()
    }

    /// Lets the threads that wait for the page continue, unless it cannot be read: then each
    /// process does so itself.
    pub fn wake(&mut self, page: u64) {
        if self.guests.is_empty() || self.poisoned.contains_key(&page) {
            return;
        }
        for guest in &mut self.guests {
            guest.wake(page, self.page_bytes);
        }
    }

    /// Makes each access to the page an error.
    pub fn poison(&mut self, page: u64, error: block::Error) {
        let reason = error.to_string();
        let mut guests = std::mem::take(&mut self.guests);
        guests.retain(|guest| self.tell(guest, page, &reason));
        self.guests = guests;
        self.poisoned.insert(page, reason);
    }
}

/// What `poll` is asked: which files are readable.
pub fn poll_files(files: &[Arc<OwnedFd>]) -> Vec<PollFd<'_>> {
    let poll = |file| PollFd::new(file, PollFlags::IN);
    files.iter().map(poll).collect()
}

/// A process that has answered.
fn join(socket: Arc<OwnedFd>) -> Option<Guest> {
    let mut answer = [0; 8];
    let (received, uffd) = receive(socket.as_fd(), &mut answer).ok()?;
    let uffd = uffd.filter(|_| received == answer.len())?;
    // Another kind of file could make the server wait.
    let kind = fs::read_link(format!("/proc/self/fd/{}", uffd.as_raw_fd())).ok()?;
    let flags = fcntl_getfl(&uffd).ok()?;
    fcntl_setfl(&uffd, flags | OFlags::NONBLOCK).ok()?;
    let is_right = kind.as_os_str() == "anon_inode:[userfaultfd]";
    is_right.then(|| Guest {
        socket,
        uffd: Arc::new(uffd),
        start: u64::from_ne_bytes(answer),
        waits: Vec::new(),
    })
}
