// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file as a stream of the C library (`fopen`). The library's own streams read inside it, past
//! `calls`: so each of these is one whose reads are functions of ours (`fopencookie`).
#![allow(unsafe_code)]

use crate::file::{self, Errno};
use crate::status;
use libc::{FILE, c_char, c_int, c_void, off_t, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// The streams, and the descriptor of each, which such a stream itself does not know.
static STREAMS: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());
/// There was a stream. A program without one takes no lock, which a fork could leave taken.
static HAD_STREAM: AtomicBool = AtomicBool::new(false);

/// Opens the file.
pub fn open(mode: *const c_char) -> Result<*mut FILE, Errno> {
    if mode.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's text ends with a zero, as the C library's function requires.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    if mode.first() != Some(&b'r') || mode.contains(&b'+') {
        return Err(libc::EACCES);
    }
    let fd = file::open(if mode.contains(&b'e') {
        libc::O_CLOEXEC
    } else {
        0
    })?;
    on(fd).inspect_err(|_| {
        close_descriptor(fd);
    })
}

/// A stream on a descriptor of the file, which closes it.
pub fn on(fd: c_int) -> Result<*mut FILE, Errno> {
    let functions = Functions {
        read,
        write: None,
        seek,
        close,
    };
    let cookie = fd as usize as *mut c_void;
    // SAFETY: the functions take this cookie, and the mode ends with a zero.
    let stream = unsafe { fopencookie(cookie, c"r".as_ptr(), functions) };
    if stream.is_null() {
        return Err(libc::ENOMEM);
    }
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    streams.push((stream as usize, fd));
    HAD_STREAM.store(true, Ordering::Release);
    Ok(stream)
}

/// Recognises the descriptors that this program was started with, before its first instruction. Its
/// standard input is a stream of the C library, which would read past `calls`.
extern "C" fn inherit() {
    file::inherit();
    if file::is_open(libc::STDIN_FILENO)
        && let Ok(stream) = on(libc::STDIN_FILENO)
    {
        // SAFETY: no other thread runs yet.
        unsafe { stdin = stream };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static INHERIT: extern "C" fn() = inherit;

/// The descriptor of one of these streams.
pub fn descriptor(stream: *mut FILE) -> Option<c_int> {
    if !HAD_STREAM.load(Ordering::Acquire) {
        return None;
    }
    let streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = streams.iter().find(|(one, _)| *one == stream as usize);
    found.map(|&(_, fd)| fd)
}

fn fd_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

fn fail(errno: Errno) -> c_int {
    // SAFETY: the place is this thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    let fd = fd_of(cookie);
    let done = status::seek(fd, 0, libc::SEEK_CUR).and_then(|at| {
        // SAFETY: the C library's buffer for so many bytes.
        let done = unsafe { file::read_at(to.cast(), len, at) }?;
        status::seek(fd, at + done as off_t, libc::SEEK_SET)?;
        Ok(done as ssize_t)
    });
    done.unwrap_or_else(|errno| fail(errno) as ssize_t)
}

unsafe extern "C" fn seek(cookie: *mut c_void, position: *mut off_t, from: c_int) -> c_int {
    // SAFETY: the C library passes a place for the position, in and out.
    let position = unsafe { &mut *position };
    match status::seek(fd_of(cookie), *position, from) {
        Ok(at) => {
            *position = at;
            0
        }
        Err(errno) => fail(errno),
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    close_descriptor(fd_of(cookie))
}

fn close_descriptor(fd: c_int) -> c_int {
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    streams.retain(|&(_, one)| one != fd);
    drop(streams);
    file::forget(fd);
    file::close_really(fd)
}
