// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A storage coprocessor, controlled through a file that is shared memory: an emulated machine's
//! RAM, a PCI function's memory in sysfs, or a UIO device on a board.
//!
//! One process takes one client's page, by a lock on the file, so that two never share a ring. A
//! process that dies leaves the lock; the next one that takes the page makes the coprocessor end
//! the dead process's session.

use crate::sys::coprocessor::Mapped;
use crate::{Error, HostMemory, Result, Roots, TscClock, sysfs};
use block::{Completion, Device, Geometry, Refused, Request};
use coprocessor::layout::{CLIENTS, PAGE_BYTES, client_offset};
use coprocessor::{
    Access, AttachFailed, Client, ClientOptions, Code, CoprocessorDisk, Header, HeaderError,
};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// Empty polls before a wait sleeps.
const LOOKS: u32 = 2_000;
/// How long it then sleeps at a time: the coprocessor cannot interrupt this side.
const NAP: Duration = Duration::from_micros(50);
/// How long a coprocessor may take to find its drive and answer, in microseconds.
const ATTACH_US: u64 = 30_000_000;
/// Between two looks at a coprocessor that does not answer yet: a processor that spun for all of
/// that time would be missed by others.
const PAUSE: Duration = Duration::from_micros(100);

/// Options for a coprocessor's drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoprocessorOptions {
    /// Allow writes: no other session that writes blocks is then admitted.
    pub write: bool,
    /// Poll for completions without ever sleeping.
    pub poll: bool,
}

/// The drive behind a coprocessor, as a block device.
#[derive(Debug)]
pub struct Coprocessor {
    // Drop order: the session ends while the window is mapped and locked.
    disk: CoprocessorDisk<TscClock>,
    memory: HostMemory,
    _file: File,
    serial: String,
    model: String,
    write_protected: bool,
    poll: bool,
}

/// A session, the memory for its data, and the file whose lock keeps other processes out.
#[derive(Debug)]
pub struct Session {
    /// The session. It must not outlive the memory.
    pub client: Client<TscClock>,
    /// The memory of its data.
    pub memory: HostMemory,
    /// The lock that keeps other processes from the client's page.
    pub file: File,
}

/// Begins a session with the coprocessor whose window is the file at `path`.
///
/// # Errors
/// If the file is not a coprocessor's window, or the coprocessor has nothing to serve, is in use,
/// or does not answer.
pub fn attach(path: &Path, access: Access, lease_ms: u32) -> Result<Session> {
    let mapped = map(path)?;
    let index = take_page(path, &mapped)?;
    let header = wait_for_header(path, &mapped)?;
    let grant = header.grants.get(index).copied();
    let (start, len) = grant.map_or((0, 0), |grant| (grant.data_offset, grant.data_bytes));
    let options = ClientOptions {
        access,
        index,
        number: session_number(),
        lease_ms,
        attach_timeout_us: ATTACH_US,
        pause: || std::thread::sleep(PAUSE),
        ..ClientOptions::default()
    };
    let (window, memory, file) = mapped.split(start, len);
    let client = Client::attach(window, TscClock::new(), options);
    let client = client.map_err(|failed| refused(path, failed))?;
    Ok(Session {
        client,
        memory,
        file,
    })
}

/// Reads a coprocessor's header, without a session.
///
/// # Errors
/// Those of [`attach`].
pub fn header(path: &Path) -> Result<Header> {
    wait_for_header(path, &map(path)?)
}

fn map(path: &Path) -> Result<Mapped> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|source| Error::io("opening", path, source))?;
    let len = window_bytes(path, &file)?;
    Mapped::new(file, len).map_err(|source| Error::io("mapping", path, source))
}

/// The first client's page that no other process has.
fn take_page(path: &Path, mapped: &Mapped) -> Result<usize> {
    for index in 0..CLIENTS {
        let is_ours = mapped.lock(client_offset(index), PAGE_BYTES);
        if is_ours.map_err(|source| Error::io("locking", path, source))? {
            return Ok(index);
        }
    }
    Err(Error::InUse {
        device: path.display().to_string(),
        reasons: vec![format!("each of its {CLIENTS} clients is another process")],
    })
}

/// The grants are in the header once the coprocessor serves.
fn wait_for_header(path: &Path, mapped: &Mapped) -> Result<Header> {
    let begin = std::time::Instant::now();
    loop {
        let failed = match mapped.peek(Header::read) {
            Ok(header) => match header.state {
                coprocessor::State::Ready => return Ok(header),
                coprocessor::State::Failed(code) => {
                    return Err(refused(path, AttachFailed::Failed(code)));
                }
                coprocessor::State::Starting => AttachFailed::Silent,
            },
            Err(error @ HeaderError::NoHeader) => {
                // A machine that was never started has no header; one that is starting will soon
                // have one.
                if begin.elapsed() > Duration::from_secs(2) {
                    return Err(refused(path, AttachFailed::Header(error)));
                }
                AttachFailed::Header(error)
            }
            Err(error) => return Err(refused(path, AttachFailed::Header(error))),
        };
        if begin.elapsed() > Duration::from_micros(ATTACH_US) {
            return Err(refused(path, failed));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn session_number() -> u32 {
    (RandomState::new().hash_one(std::process::id()) as u32).max(1)
}

/// The window's length: a file's length, or that of a UIO device's first map according to the
/// kernel.
fn window_bytes(path: &Path, file: &File) -> Result<usize> {
    let data = file
        .metadata()
        .map_err(|source| Error::io("reading the size of", path, source))?;
    let no_window = |why| Error::BadName {
        name: path.display().to_string(),
        why,
    };
    if data.file_type().is_char_device() {
        let name = path.file_name().unwrap_or_default();
        let map = Roots::system().sys.join("class/uio").join(name);
        let size = sysfs::text(&map.join("maps/map0/size"));
        let size = size.as_deref().and_then(sysfs::parse_hex);
        let size = size.ok_or_else(|| no_window("it is not a UIO device with a memory map"))?;
        return usize::try_from(size).map_err(|_| no_window("its memory map is too long"));
    }
    if !data.is_file() {
        return Err(no_window("it is neither a file nor a UIO device"));
    }
    let len = usize::try_from(data.len()).unwrap_or(usize::MAX);
    match len {
        0..coprocessor::layout::MIN_WINDOW_BYTES => {
            Err(no_window("it is too short for a coprocessor's window"))
        }
        _ => Ok(len),
    }
}

fn refused(path: &Path, failed: AttachFailed) -> Error {
    let name = format!("coprocessor:{}", path.display());
    match failed {
        AttachFailed::Refused(Code::InUse) => Error::InUse {
            device: name,
            reasons: vec![failed.to_string()],
        },
        AttachFailed::Header(HeaderError::Version { .. }) => Error::Unsupported {
            what: "the coprocessor",
            why: failed.to_string(),
            hint: Some("use the firmware that belongs to this version of straightway".into()),
        },
        _ => Error::NoCoprocessor {
            name,
            why: failed.to_string(),
            lacks_volume: matches!(failed, AttachFailed::Refused(Code::NoVolume)),
        },
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches([' ', '\0'])
        .to_owned()
}

impl Coprocessor {
    /// Opens the drive behind the coprocessor whose window is the file at `path`.
    ///
    /// # Errors
    /// Those of [`attach`].
    pub fn open(path: &Path, options: CoprocessorOptions) -> Result<Self> {
        let access = if options.write {
            Access::WriteBlocks
        } else {
            Access::ReadBlocks
        };
        let session = attach(path, access, 0)?;
        let header = session.client.header();
        let (drive, write_protected) = (header.drive, header.geometry.features.read_only);
        Ok(Self {
            write_protected,
            disk: CoprocessorDisk::new(session.client, access),
            memory: session.memory,
            _file: session.file,
            serial: text(&drive.serial),
            model: text(&drive.model),
            poll: options.poll,
        })
    }

    /// The memory that its buffers come from.
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// The drive's serial number.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// Whether the drive itself is read-only, whatever this session may do.
    pub fn is_write_protected(&self) -> bool {
        self.write_protected
    }

    /// The drive's model.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl Device for Coprocessor {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        self.disk.submit(request)
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }

    /// Polls for a while, then sleeps in short intervals: nothing would wake it.
    fn wait(&mut self, timeout_us: u32) {
        let begin = std::time::Instant::now();
        for _ in 0..LOOKS {
            if self.disk.has_news() {
                return;
            }
            std::hint::spin_loop();
        }
        while !self.poll && begin.elapsed() < Duration::from_micros(u64::from(timeout_us)) {
            std::thread::sleep(NAP);
            if self.disk.has_news() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_window_is_refused_with_the_reason() {
        let options = CoprocessorOptions::default();
        let open = |path: &str| Coprocessor::open(Path::new(path), options).unwrap_err();
        assert!(matches!(open("/nonexistent/x"), Error::Io { .. }));
        assert!(matches!(open("/dev/null"), Error::BadName { .. }));
        let folder = std::env::temp_dir().join(format!("window-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("short");
        std::fs::write(&file, [0; 100]).unwrap();
        assert!(matches!(
            open(&file.to_string_lossy()),
            Error::BadName { .. }
        ));
        std::fs::write(&file, vec![0; 1 << 20]).unwrap();
        let error = open(&file.to_string_lossy());
        assert!(matches!(error, Error::NoCoprocessor { .. }), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
