// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of the user's DEVICE: an NVMe drive, another block device, or a substitute for one.

mod array;
mod remote;

pub use array::{ArrayDrive, ArrayShape};
pub use remote::RemoteDrive;

use crate::Context;
use crate::error::{Error, ErrorKind, Result};
use linux::Roots;
use linux::disk::Disk;
use linux::resolve::{Resolved, resolve};
#[cfg(feature = "drives")]
use nvme::PciId;
use remedy::{Part, Setting, words};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::{Size, Time};

/// The verbs that a file system in hardware supports; see [`hardware`](files::hardware).
const OF_HARDWARE: [&str; 8] = ["ls", "put", "get", "rm", "mv", "stat", "info", "blast"];

/// The meaning of a DEVICE argument. `Display` is one line.
#[derive(Clone, Debug)]
pub enum Drive {
    /// A controller or a namespace of this machine.
    Nvme(Box<Resolved>),
    /// Another block device of the kernel: SATA, USB, SD, eMMC, virtio, loop, RAM disk, or a
    /// partition.
    Disk(Box<Disk>),
    /// `file:PATH` or the path of a regular file, whose blocks have 512 bytes.
    File(PathBuf),
    /// `ram:SIZE`: memory that exists until the command ends.
    Ram(u64),
    /// `model:SIZE[,file=PATH][,latency=TIME][,idle=TIME]`: a model NVMe controller that the driver
    /// talks to.
    Model(ModelDrive),
    /// `coprocessor:PATH`: the drive behind a storage coprocessor, whose window is the file.
    Coprocessor(PathBuf),
    /// `stripe:SIZE,DEVICE,...` or `mirror:DEVICE,...`: several devices as one.
    Array(Box<ArrayDrive>),
    /// `tcp://HOST:PORT/NQN`: a namespace of an NVMe/TCP target.
    Remote(Box<RemoteDrive>),
}

/// A model controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDrive {
    /// Size of its one namespace.
    pub size_bytes: u64,
    /// The file that holds its data, created if it is missing; memory otherwise.
    pub file: Option<PathBuf>,
    /// The least time that an I/O command takes.
    pub latency: Duration,
    /// How long it takes to leave the power state that it idles into; none if zero.
    pub idle: Duration,
    /// The PCI identifiers of a controller whose quirks it has; the model's own otherwise.
    #[cfg(feature = "drives")]
    pub pci_id: Option<PciId>,
}

impl Drive {
    /// Resolves `name`.
    ///
    /// # Errors
    /// The name has no meaning, or what it names does not exist.
    pub fn find(roots: &Roots, name: &str) -> Result<Self> {
        match name.split_once(':') {
            Some(("file", path)) => Ok(Self::File(regular_file(path, true)?)),
            Some(("ram", size)) => Ok(Self::Ram(parse_size(name, size)?)),
            Some(("coprocessor", path)) => Ok(Self::Coprocessor(window(name, path)?)),
            Some(("model", words)) => Ok(Self::Model(parse_model(name, words)?)),
            Some(("hwfs", _)) => Err(no_blocks(name)),
            Some((scheme @ ("stripe" | "mirror"), words)) => {
                let array = ArrayDrive::find(roots, name, scheme, words)?;
                Ok(Self::Array(Box::new(array)))
            }
            Some(("tcp", rest)) => Ok(Self::Remote(Box::new(RemoteDrive::parse(name, rest)?))),
            _ => match resolve(roots, name) {
                Ok(resolved) => Ok(Self::Nvme(Box::new(resolved))),
                Err(error) if is_plain_file(&error) => Ok(Self::File(regular_file(name, true)?)),
                Err(error) => match Disk::find(roots, Path::new(name))? {
                    Some(disk) => Ok(Self::Disk(Box::new(disk))),
                    None => Err(not_a_drive(name, error)),
                },
            },
        }
    }

    /// The path if `name` means a plain file, which need not exist: `file:PATH`, or a bare path
    /// that cannot be the name of a drive.
    pub fn plain_file(name: &str) -> Option<&Path> {
        if let Some(path) = name.strip_prefix("file:") {
            return Some(Path::new(path));
        }
        let path = Path::new(name);
        let first = path.file_name()?.to_str()?;
        let is_drive = has_scheme(name)
            || (path.starts_with("/dev") && !path.starts_with("/dev/shm"))
            || path.starts_with("/sys")
            || ["nvme", "ng"].iter().any(|prefix| {
                let rest = first.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            || first.parse::<linux::pci::PciAddress>().is_ok();
        (!is_drive).then_some(path)
    }

    /// The longest that a loss of the network holds up writes, in seconds; 0 for a device of this
    /// machine.
    pub fn longest_stall_s(&self) -> u64 {
        match self {
            Self::Remote(remote) => remote.longest_stall_s(),
            Self::Array(array) => {
                let drives = array.members.iter().flat_map(|member| &member.drive);
                drives.map(Self::longest_stall_s).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Resolves `name` and reports the result.
    ///
    /// # Errors
    /// As [`find`](Drive::find).
    pub fn find_and_say(context: &Context, name: &str) -> Result<Self> {
        let drive = Self::find(&context.roots, name)?;
        // For a plain file the message would add nothing to the name.
        if !matches!(drive, Self::File(_)) {
            context.say(format_args!("{name} is {drive}"));
        }
        Ok(drive)
    }
}

/// The error of a verb that needs blocks.
fn no_blocks(device: &str) -> Error {
    Error::unsupported(format!(
        "`{device}`: a file system in hardware has files, not blocks; it supports only {}",
        OF_HARDWARE.join(", ")
    ))
    .hint(words!["straightway ls ", remedy::Device])
}

/// Whether a name begins with a word that could be a kind of device: `ram:`, but also `rma:`. A
/// path or a time before the colon is part of a file's name.
fn has_scheme(name: &str) -> bool {
    name.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_lowercase())
    })
}

/// The error for a `name` that is not a drive; it reports what `name` is instead.
fn not_a_drive(name: &str, error: linux::Error) -> Error {
    const LIST: &str = "straightway list shows the NVMe drives; other block devices, plain files, ram:SIZE and model:SIZE work too";
    let path = Path::new(name);
    let kind = match std::fs::metadata(path) {
        Ok(data) if data.is_dir() => "a directory",
        Ok(data) => match (kind_of(data.file_type()), &error) {
            (Some(kind), linux::Error::NotPciNvme { .. } | linux::Error::BadName { .. }) => kind,
            _ => return error.into(),
        },
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => match Drive::plain_file(name) {
            Some(path) if !name.is_empty() => {
                let path = path.display();
                return Error::missing(format!("there is no file `{path}`")).hint(words![
                    format!("straightway format {path} "),
                    Part::Option(Setting::Size),
                    " 1G makes a volume; straightway list shows the drives"
                ]);
            }
            _ if matches!(error, linux::Error::NotPciNvme { .. }) => {
                return Error::missing(format!("there is no device `{name}`")).hint(LIST);
            }
            _ => return error.into(),
        },
        Err(_) => return error.into(),
    };
    Error::missing(format!("`{name}` is {kind}, not a drive or a plain file")).hint(LIST)
}

/// What a special file is.
fn kind_of(kind: std::fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_char_device() {
        return Some("a character device");
    }
    if kind.is_fifo() {
        return Some("a pipe");
    }
    kind.is_socket().then_some("a socket")
}

/// Whether the name means a plain file, which does not need `file:`.
fn is_plain_file(error: &linux::Error) -> bool {
    match error {
        linux::Error::NotPciNvme { name, .. } | linux::Error::BadName { name, .. } => {
            Path::new(name).is_file()
        }
        _ => false,
    }
}

fn parse_size(name: &str, text: &str) -> Result<u64> {
    let size: Size = text
        .parse()
        .map_err(|why| Error::usage(format!("`{name}`: {why}")))?;
    match size.0 {
        0..512 => Err(Error::usage(format!(
            "`{name}`: the size is less than a block"
        ))),
        bytes => Ok(bytes),
    }
}

/// A coprocessor's window, which must exist and may be any kind of file.
fn window(name: &str, path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    match std::fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) if path.as_os_str().is_empty() => {
            Err(Error::usage(format!("`{name}`: missing path: {error}"))
                .hint("coprocessor:PATH, the file that is its shared memory"))
        }
        Err(error) => Err(Error::io("opening", &path, &error)
            .with_kind(ErrorKind::Missing)
            .hint("lab/coprocessor --window PATH starts one in emulation")),
    }
}

/// Accepts only a regular file, so that `file:` cannot bypass the safeguards of a drive.
fn regular_file(path: &str, must_exist: bool) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    match std::fs::metadata(&path) {
        Ok(data) if data.is_file() => Ok(path),
        Ok(_) => Err(
            Error::usage(format!("{} is not a regular file", path.display()))
                .hint("name a drive without `file:`"),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::io("opening", &path, &error)
                .with_kind(ErrorKind::Missing)
                .hint(words![
                    format!("straightway format {} ", path.display()),
                    Part::Option(Setting::Size),
                    " 1G makes a volume"
                ]))
        }
        Err(error) => Err(Error::io("opening", &path, &error)),
    }
}

#[cfg(feature = "drives")]
/// `144d:a821`.
fn parse_pci_id(name: &str, text: &str) -> Result<PciId> {
    let digits = |part: &str| match part.len() {
        4 => u16::from_str_radix(part, 16).ok(),
        _ => None,
    };
    let id = text.split_once(':').and_then(|(vendor, device)| {
        Some(PciId {
            vendor: digits(vendor)?,
            device: digits(device)?,
        })
    });
    id.ok_or_else(|| {
        Error::usage(format!("`{name}`: `{text}` is not a vendor and a device"))
            .hint("two numbers of four hexadecimal digits, as pci=144d:a821")
    })
}

fn parse_model(name: &str, words: &str) -> Result<ModelDrive> {
    let mut words = words.split(',');
    let mut drive = ModelDrive {
        size_bytes: parse_size(name, words.next().unwrap_or_default())?,
        file: None,
        latency: Duration::ZERO,
        idle: Duration::ZERO,
        #[cfg(feature = "drives")]
        pci_id: None,
    };
    let time_of = |time: &str| -> Result<Duration> {
        let time: Result<Time, _> = time.parse();
        let time = time.map_err(|why| Error::usage(format!("`{name}`: {why}")))?;
        Ok(time.0)
    };
    for word in words {
        match word.split_once('=') {
            Some(("file", path)) => drive.file = Some(regular_file(path, false)?),
            Some(("latency", time)) => drive.latency = time_of(time)?,
            Some(("idle", time)) => drive.idle = time_of(time)?,
            #[cfg(feature = "drives")]
            Some(("pci", id)) => drive.pci_id = Some(parse_pci_id(name, id)?),
            _ => {
                return Err(
                    Error::usage(format!("`{name}`: unknown option `{word}` of a model")).hint(
                        "model:SIZE[,file=PATH][,latency=TIME][,idle=TIME][,pci=VENDOR:DEVICE]",
                    ),
                );
            }
        }
    }
    Ok(drive)
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvme(resolved) => write!(f, "{resolved}"),
            Self::Disk(disk) => write!(f, "{disk}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Ram(bytes) => write!(f, "{} of memory", Size(*bytes)),
            Self::Array(array) => write!(f, "{array}"),
            Self::Remote(remote) => write!(f, "{remote}"),
            Self::Coprocessor(path) => write!(f, "the drive behind coprocessor {}", path.display()),
            Self::Model(ModelDrive {
                size_bytes, file, ..
            }) => {
                write!(f, "a model controller of {}", Size(*size_bytes))?;
                match file {
                    Some(file) => write!(f, " in {}", file.display()),
                    None => f.write_str(" in memory"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remedy::Members;

    fn find(name: &str) -> Result<Drive> {
        Drive::find(&Roots::under(Path::new("/nonexistent")), name)
    }

    #[test]
    fn uris_are_told_apart() {
        assert!(matches!(find("ram:1M"), Ok(Drive::Ram(1_048_576))));
        let Ok(Drive::Model(model)) = find("model:2KB,file=/nonexistent,latency=5ms") else {
            panic!("not a model");
        };
        assert_eq!(model.size_bytes, 2000);
        assert_eq!(model.file, Some("/nonexistent".into()));
        assert_eq!(model.latency, Duration::from_millis(5));
    }

    #[test]
    fn what_names_nothing_has_its_exit_code() {
        let exit = |name| find(name).unwrap_err().kind();
        assert_eq!(exit("ram:4q"), ErrorKind::Usage);
        assert_eq!(exit("ram:100"), ErrorKind::Usage);
        assert_eq!(exit("model:1G,colour=red"), ErrorKind::Usage);
        assert_eq!(exit("model:1G,latency=5"), ErrorKind::Usage);
        assert_eq!(exit("tcp:10.0.0.1"), ErrorKind::Usage);
        assert_eq!(exit("stripe:64K,nonsense,ram:1M"), ErrorKind::Missing);
        assert_eq!(exit("mirror:nonsense,nothing"), ErrorKind::Missing);
        assert_eq!(exit("mirror:ram:1M"), ErrorKind::Usage);
        assert_eq!(exit("file:/nonexistent/x"), ErrorKind::Missing);
        assert_eq!(exit("coprocessor:/nonexistent/x"), ErrorKind::Missing);
        assert_eq!(exit("coprocessor:"), ErrorKind::Usage);
        assert_eq!(exit("file:/dev/null"), ErrorKind::Usage);
        assert_eq!(exit("0000:01:00.0"), ErrorKind::Missing);
        for missing in [
            "nonsense",
            "/nonexistent/x",
            "./nonsense",
            "/tmp",
            "/dev/null",
        ] {
            assert_eq!(exit(missing), ErrorKind::Missing, "{missing}");
        }
        assert_eq!(exit(""), ErrorKind::Usage);
        assert_eq!(exit("rma:1M"), ErrorKind::Usage);
    }

    #[test]
    fn what_is_no_drive_is_called_what_it_is() {
        for (name, says) in [
            ("nonsense", "there is no file `nonsense`"),
            ("/tmp", "`/tmp` is a directory"),
            ("/dev/null", "`/dev/null` is a character device"),
        ] {
            let failure = find(name).unwrap_err();
            assert!(failure.to_string().starts_with(says), "{failure}");
            assert!(
                failure
                    .hint_in(&Members)
                    .unwrap()
                    .contains("straightway list")
            );
        }
    }

    #[test]
    fn colons_and_shared_memory_are_no_device_words() {
        for file in [
            "./rec-12:30.img",
            "rec-12:30.img",
            "/dev/shm/x.img",
            "a/ram:1",
            "file:ram:1",
        ] {
            assert!(Drive::plain_file(file).is_some(), "{file}");
        }
        for other in [
            "/dev/nvme0n1",
            "/dev/sda",
            "nvme0n1",
            "0000:01:00.0",
            "01:00.0",
            "rma:1M",
            "/sys/x",
        ] {
            assert_eq!(Drive::plain_file(other), None, "{other}");
        }
    }
}
