// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors: their kind, what failed, and what may fix it; those of a volume in `volume`.

pub mod volume;

use remedy::{Members, Remedy, Setting, Wording, Words, words};
use std::fmt;
use std::io;
use std::path::Path;

/// The result of a fallible function of the crates on this one.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of an error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// None of those below; also a negative result.
    Other,
    /// What was asked for is invalid.
    Usage,
    /// The device is missing, in use or not permitted.
    Missing,
    /// This machine does not support it.
    Unsupported,
    /// The measurement is not valid.
    Invalid,
    /// Stored data does not match the checksum that it was written with.
    Rot,
    /// Deadlines were missed, or blocks were lost and reported.
    Late,
    /// No space left, on the volume or on a file system.
    Full,
    /// The name is taken.
    Exists,
    /// A file does not exist, on the volume or among the inputs.
    NotFound,
    /// The user ended it.
    Interrupted,
    /// Who took the output wants no more of it.
    Closed,
    /// Who took data on standard output ended before its end.
    Unread,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Other,
        Self::Usage,
        Self::Missing,
        Self::Unsupported,
        Self::Invalid,
        Self::Rot,
        Self::Late,
        Self::Full,
        Self::Exists,
        Self::NotFound,
        Self::Interrupted,
        Self::Closed,
        Self::Unread,
    ];

    /// Its name, for another process.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Usage => "usage",
            Self::Missing => "missing",
            Self::Unsupported => "unsupported",
            Self::Invalid => "invalid",
            Self::Rot => "rot",
            Self::Late => "late",
            Self::Full => "full",
            Self::Exists => "exists",
            Self::NotFound => "not found",
            Self::Interrupted => "interrupted",
            Self::Closed => "closed",
            Self::Unread => "unread",
        }
    }

    /// The kind of this name; an unknown one is another failure.
    pub fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name() == name).unwrap_or(Self::Other)
    }
}

/// An error: what failed, why, and what may fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    what: Words,
    remedy: Option<Remedy>,
    /// The device that it is about, as the user named it.
    device: Option<String>,
}

impl Error {
    /// A failure without a hint.
    pub fn new(kind: ErrorKind, what: impl Into<Words>) -> Self {
        Self {
            kind,
            what: what.into(),
            remedy: None,
            device: None,
        }
    }

    /// A failure or a negative result of no specific kind.
    pub fn other(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Other, what)
    }

    /// Invalid arguments.
    pub fn usage(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Usage, what)
    }

    /// The device is missing, in use or not permitted.
    pub fn missing(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Missing, what)
    }

    /// The path is not supported here.
    pub fn unsupported(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Unsupported, what)
    }

    /// Nothing has this name, or nothing is left.
    pub fn not_found(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::NotFound, what)
    }

    /// The user ended it.
    pub fn interrupted(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Interrupted, what)
    }

    /// The measurement does not answer the question.
    pub fn inconclusive(what: impl Into<Words>) -> Self {
        Self::new(ErrorKind::Invalid, what)
    }

    /// The measurement is not valid.
    pub fn invalid(reasons: &[String]) -> Self {
        let reasons = reasons.join("; ");
        Self::inconclusive(format!("the measurement is not valid: {reasons}"))
            .hint("stop other programs, do not change the machine's settings, and measure again")
    }

    /// A file that could not be read or written.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let what = format!("{doing} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => {
                let folder = folder_of(path);
                let hint = if folder.is_dir() {
                    format!("ls {} shows what is there", folder.display())
                } else {
                    format!("there is no folder {0}: mkdir -p {0}", folder.display())
                };
                Self::new(ErrorKind::NotFound, what).hint(hint)
            }
            io::ErrorKind::AlreadyExists => Self::new(ErrorKind::Exists, what),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::new(ErrorKind::Full, what).hint(Remedy::FreeSpace(folder_of(path).to_owned()))
            }
            io::ErrorKind::FileTooLarge => Self::other(what).hint(TOO_LARGE),
            io::ErrorKind::PermissionDenied => {
                Self::missing(what).hint(linux::permission_hint(path))
            }
            _ => Self::other(what),
        }
    }

    /// The same about the device that the user calls `name`, unless it is about one already.
    #[must_use]
    pub fn on(mut self, name: &str) -> Self {
        self.device.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The same of another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Standard output was closed, as by `head` when it has enough, or cannot be written.
    pub fn stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(ErrorKind::Closed, "standard output was closed"),
            kind => {
                let failure = Self::other(format!("writing to standard output: {error}"));
                match kind {
                    io::ErrorKind::StorageFull => failure.with_kind(ErrorKind::Full),
                    io::ErrorKind::FileTooLarge => failure.hint(TOO_LARGE),
                    _ => failure,
                }
            }
        }
    }

    /// The same of data, all of which its reader was to get.
    pub fn data_to_stdout(error: &io::Error) -> Self {
        let failure = Self::stdout(error);
        match failure.kind {
            ErrorKind::Closed => failure.with_kind(ErrorKind::Unread),
            _ => failure,
        }
    }

    /// A request that the device did not complete.
    pub fn request(doing: impl fmt::Display, error: block::Error) -> Self {
        let failed = |what: String| {
            Self::other(what).hint(words![
                "dmesg; straightway info ",
                remedy::Device,
                " shows its error log"
            ])
        };
        match error {
            block::Error::Nvme { status } => {
                #[cfg(feature = "drives")]
                let status = nvme::StatusField(status);
                failed(format!("{doing}: the drive answered {status}"))
            }
            // The kernel gives a drive that was removed no length.
            block::Error::ShortTransfer { done_bytes: 0 } => {
                Self::missing(format!("{doing}: the drive moved nothing: it was removed"))
                    .hint("straightway list")
            }
            block::Error::Os { errno } => {
                let what = format!("{doing}: {}", io::Error::from_raw_os_error(errno));
                match errno {
                    // The block layer's one word for a write fault, an unrecovered read, a range
                    // that is read-only and an access that is denied.
                    ENODATA => failed(format!(
                        "{doing}: the drive failed or refused the access there: a medium error, \
                         write protection or no permission (errno {ENODATA})"
                    )),
                    // The file system that holds an image is full.
                    ENOSPC | EDQUOT => {
                        Self::new(ErrorKind::Full, format!("{doing}: no space left"))
                            .hint("free space on the file system that holds it: df -h")
                    }
                    EPERM | EACCES | EROFS => {
                        Self::missing(what).hint("run it as root, on a device that may be changed")
                    }
                    // The device has disappeared.
                    ENOENT | ENXIO | ENODEV => Self::missing(what).hint("straightway list"),
                    _ => failed(what),
                }
            }
            other => {
                let what = format!("{doing}: {other}");
                match other {
                    block::Error::Gone => Self::missing(what).hint(
                        "straightway list shows the drives; of tcp:// the line above has the reason",
                    ),
                    block::Error::Replaced => Self::missing(what)
                        .hint(words!["straightway info ", remedy::Device, " shows what is there now"]),
                    block::Error::OutcomeUnknown => Self::other(what).hint(
                        "straightway info tcp://... prints after how long the target has ended it; then straightway check",
                    ),
                    block::Error::ReadOnly => Self::missing(what),
                    block::Error::Unsupported => Self::unsupported(what),
                    block::Error::Unaligned | block::Error::OutOfRange | block::Error::TooLarge => {
                        Self::usage(what)
                    }
                    _ => failed(what),
                }
            }
        }
    }

    /// A program cannot be run; `package` is its Debian package.
    pub fn tool(name: &str, package: impl Into<Words>, error: &io::Error) -> Self {
        Self::unsupported(format!("{name} cannot be run: {error}"))
            .hint(words!["apt install ", package.into()])
    }

    /// Adds what may fix it.
    #[must_use]
    pub fn hint(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds a note after the error.
    #[must_use]
    pub fn and(mut self, remark: impl Into<Words>) -> Self {
        self.what = words![self.what, "; ", remark.into()];
        self
    }

    /// What sort of an error it is.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What failed and why.
    pub const fn what(&self) -> &Words {
        &self.what
    }

    /// What may fix it.
    pub const fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }

    /// What failed and why, in the words of `wording`.
    pub fn what_in(&self, wording: &dyn Wording) -> String {
        self.what.word(wording, self.device.as_deref())
    }

    /// What may fix it, in the words of `wording`.
    pub fn hint_in(&self, wording: &dyn Wording) -> Option<String> {
        let remedy = self.remedy.as_ref()?;
        Some(remedy.word(wording, self.device.as_deref()))
    }

    /// Whether no message is printed.
    pub const fn is_silent(&self) -> bool {
        matches!(self.kind, ErrorKind::Closed | ErrorKind::Unread)
    }
}

/// The folder that `path` is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Error numbers of Linux, the same on every architecture that it is built for here.
/// What to do about a file that became too long for its file system, or for the process.
const TOO_LARGE: &str =
    "a smaller size, ulimit -f unlimited, or a file system that takes longer files";

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENODATA: i32 = 61;
const EDQUOT: i32 = 122;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what_in(&Members))
    }
}

impl std::error::Error for Error {}

/// What failed and why, to be a part of another text.
impl From<Error> for Words {
    fn from(failure: Error) -> Self {
        failure.what
    }
}

/// The same.
impl From<&Error> for Words {
    fn from(failure: &Error) -> Self {
        failure.what.clone()
    }
}

impl From<linux::Error> for Error {
    fn from(error: linux::Error) -> Self {
        let kind = match error.kind() {
            linux::ErrorKind::Usage => ErrorKind::Usage,
            linux::ErrorKind::Missing => ErrorKind::Missing,
            linux::ErrorKind::Unsupported => ErrorKind::Unsupported,
        };
        Self {
            remedy: error.hint(),
            ..Self::new(kind, error.to_string())
        }
    }
}

#[cfg(feature = "drives")]
impl From<nvme::Error> for Error {
    fn from(error: nvme::Error) -> Self {
        let kind = match error {
            nvme::Error::Unsupported(_)
            | nvme::Error::Namespace { .. }
            | nvme::Error::NoInterrupt
            | nvme::Error::NoQueueLeft
            | nvme::Error::Memory { .. } => ErrorKind::Unsupported,
            nvme::Error::Status { .. } => ErrorKind::Other,
            _ => ErrorKind::Missing,
        };
        let failure = Self::new(kind, error.to_string());
        match error {
            nvme::Error::NoNamespace { .. } => failure.hint("straightway list"),
            nvme::Error::NoInterrupt => failure.hint(Setting::Mode.to("poll")),
            nvme::Error::Namespace { nsid, why } => Self {
                remedy: linux::namespace_hint(nsid, why),
                ..failure
            },
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_name() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::named(kind.name()), kind);
        }
        assert_eq!(ErrorKind::named("a later one"), ErrorKind::Other);
    }

    #[test]
    fn a_failure_is_about_the_first_device_that_it_was_said_of() {
        let hint = |failure: Error| failure.hint_in(&Members).unwrap_or_default();
        let failure = || Error::usage("no").hint(words!["straightway ls ", remedy::Device]);
        assert_eq!(hint(failure()), "straightway ls DEVICE");
        assert_eq!(hint(failure().on("ram:1M")), "straightway ls ram:1M");
        let of_two = failure().on("my disk's.img").on("ram:1M");
        assert_eq!(hint(of_two), "straightway ls 'my disk'\\''s.img'");
        // Its name is no part of what failed.
        assert_eq!(failure().on("ram:1M").to_string(), "no");
    }

    #[test]
    fn errors_of_requests_have_their_codes_and_keep_the_drive_s_status() {
        let code = |error| Error::request("reading", error).kind();
        assert_eq!(code(block::Error::Gone), ErrorKind::Missing);
        assert_eq!(code(block::Error::OutOfRange), ErrorKind::Usage);
        assert_eq!(code(block::Error::Unsupported), ErrorKind::Unsupported);
        assert_eq!(code(block::Error::Os { errno: 19 }), ErrorKind::Missing);
        assert_eq!(code(block::Error::Os { errno: 5 }), ErrorKind::Other);
        let failure = Error::request("reading", block::Error::Nvme { status: 0x281 });
        assert_eq!(failure.kind(), ErrorKind::Other);
        assert!(
            failure
                .to_string()
                .contains("Unrecovered Read Error (2/81)"),
            "{failure}"
        );
    }

    #[test]
    fn a_write_without_space_or_permission_says_so_on_every_path() {
        let failed = |error| Error::request("writing", error);
        let os = |errno| failed(block::Error::Os { errno });
        for errno in [ENOSPC, EDQUOT] {
            let failure = os(errno);
            assert!(failure.to_string().contains("no space"), "{failure}");
            assert_eq!(failure.kind(), ErrorKind::Full);
        }
        for errno in [EPERM, EACCES, EROFS] {
            assert_eq!(os(errno).kind(), ErrorKind::Missing);
            assert!(
                os(errno)
                    .hint_in(&Members)
                    .is_some_and(|hint| hint.contains("root"))
            );
        }
        // The error of a write does not mention reading.
        let text = os(ENODATA).to_string();
        assert!(
            !text.contains("read its") && text.contains("write protection"),
            "{text}"
        );
        let full = failed(block::Error::Nvme { status: 0x81 }).to_string();
        assert!(full.contains("Capacity Exceeded (0/81)"), "{full}");
    }

    #[test]
    fn a_closed_pipe_is_silent() {
        let failure = Error::stdout(&io::ErrorKind::BrokenPipe.into());
        assert!(failure.is_silent());
        assert_eq!(failure.kind(), ErrorKind::Closed);
        let failure = Error::data_to_stdout(&io::ErrorKind::BrokenPipe.into());
        assert!(failure.is_silent());
        assert_eq!(failure.kind(), ErrorKind::Unread);
        let full = io::ErrorKind::StorageFull.into();
        assert_eq!(Error::stdout(&full).kind(), ErrorKind::Full);
    }

    #[test]
    fn a_denied_access_has_a_hint() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = |path| Error::io("opening", Path::new(path), &error);
        let device = failure("/dev/nvme0n1");
        assert_eq!(
            (device.kind(), device.remedy()),
            (ErrorKind::Missing, Some(&"run it as root".into()))
        );
        assert_eq!(
            failure("d/x").remedy(),
            Some(&"permissions: ls -ld d/x d".into())
        );
    }

    #[test]
    fn full_taken_and_missing_files_are_told_apart() {
        let exit = |kind: io::ErrorKind| Error::io("opening", Path::new("x"), &kind.into()).kind();
        assert_eq!(exit(io::ErrorKind::StorageFull), ErrorKind::Full);
        assert_eq!(exit(io::ErrorKind::AlreadyExists), ErrorKind::Exists);
        assert_eq!(exit(io::ErrorKind::NotFound), ErrorKind::NotFound);
        let failure = Error::request("writing", block::Error::Os { errno: 28 });
        assert_eq!(failure.kind(), ErrorKind::Full);
        assert!(failure.hint_in(&Members).unwrap().contains("file system"));
    }
}
