// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors as the user reads them, and exit codes; those of a volume in `volume`.

pub mod volume;

use remedy::{Members, Remedy, Setting, Wording, Words, words};
use std::fmt;
use std::io;
use std::path::Path;

/// The result of every fallible function of the command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The command's exit codes. Codes are only added: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The command failed, or ran with a negative result.
    No = 1,
    /// Invalid arguments.
    Usage = 2,
    /// The device is missing, in use or not permitted.
    Missing = 3,
    /// This machine does not support the path.
    Unsupported = 4,
    /// The measurement is not valid.
    Invalid = 5,
    /// Stored data does not match the checksum that it was written with.
    Rot = 6,
    /// Deadlines were missed, or blocks were lost and reported.
    Late = 7,
    /// No space left, on the volume or on a file system.
    Full = 8,
    /// The name is taken.
    Exists = 9,
    /// A file does not exist, on the volume or among the inputs.
    NotFound = 10,
    /// Ended by a signal: the process ends with 128 and the signal's number ([`crate::cancel::Cancel::exit_status`]).
    Interrupted = 130,
}

impl Exit {
    /// The code of another process of the command; an unknown one is a failure.
    pub fn of(code: u8) -> Self {
        const ALL: [Exit; 12] = [
            Exit::Done,
            Exit::No,
            Exit::Usage,
            Exit::Missing,
            Exit::Unsupported,
            Exit::Invalid,
            Exit::Rot,
            Exit::Late,
            Exit::Full,
            Exit::Exists,
            Exit::NotFound,
            Exit::Interrupted,
        ];
        // SIGHUP, SIGINT and SIGTERM.
        if matches!(code, 129 | 130 | 143) {
            return Self::Interrupted;
        }
        ALL.into_iter()
            .find(|exit| *exit as u8 == code)
            .unwrap_or(Self::No)
    }
}

/// The exit codes and what they mean, for manual pages.
pub const EXIT_STATUS: [(&str, &str); 12] = [
    ("0", "Done."),
    ("1", "The command failed, or ran with a negative result."),
    ("2", "Wrong usage."),
    ("3", "The device is missing, in use or not permitted."),
    ("4", "This machine does not support the path."),
    ("5", "The measurement is not valid."),
    ("6", "Stored data does not match its checksum."),
    ("7", "Deadlines were missed, or blocks were lost."),
    ("8", "No space left, on the volume or on a file system."),
    ("9", "The name exists."),
    ("10", "No such file, on the volume or as an input."),
    ("128 + n", "Ended by signal n."),
];

/// An error: what failed, why, and what may fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    exit: Exit,
    what: Words,
    remedy: Option<Remedy>,
    /// The device that it is about, as the user named it.
    device: Option<String>,
    is_silent: bool,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, what: impl Into<Words>) -> Self {
        Self {
            exit,
            what: what.into(),
            remedy: None,
            device: None,
            is_silent: false,
        }
    }

    /// A failure or a negative result without a specific exit code.
    pub fn other(what: impl Into<Words>) -> Self {
        Self::new(Exit::No, what)
    }

    /// Invalid arguments.
    pub fn usage(what: impl Into<Words>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// The device is missing, in use or not permitted.
    pub fn missing(what: impl Into<Words>) -> Self {
        Self::new(Exit::Missing, what)
    }

    /// The path is not supported here.
    pub fn unsupported(what: impl Into<Words>) -> Self {
        Self::new(Exit::Unsupported, what)
    }

    /// Nothing has this name, or nothing is left.
    pub fn not_found(what: impl Into<Words>) -> Self {
        Self::new(Exit::NotFound, what)
    }

    /// The user ended it.
    pub fn interrupted(what: impl Into<Words>) -> Self {
        Self::new(Exit::Interrupted, what)
    }

    /// The measurement does not answer the question.
    pub fn inconclusive(what: impl Into<Words>) -> Self {
        Self::new(Exit::Invalid, what)
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
            io::ErrorKind::NotFound => Self::new(Exit::NotFound, what),
            io::ErrorKind::AlreadyExists => Self::new(Exit::Exists, what),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::new(Exit::Full, what).hint(Remedy::FreeSpace(folder_of(path).to_owned()))
            }
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

    /// The same failure with another exit code.
    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Standard output was closed, as by `head` when it has enough, or cannot be written.
    pub fn stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self {
                is_silent: true,
                ..Self::new(Exit::Done, "standard output was closed")
            },
            _ => Self::other(format!("writing to standard output: {error}")),
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
                let status = nvme::Status(status);
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
                    // The block layer's one word for a write fault, an unrecovered read, a range that
                    // is read-only and an access that is denied.
                    ENODATA => failed(format!(
                        "{doing}: the drive failed or refused the access there: a medium error, \
                         write protection or no permission (errno {ENODATA})"
                    )),
                    // The file system that holds an image is full.
                    ENOSPC | EDQUOT => Self::new(Exit::Full, format!("{doing}: no space left"))
                        .hint("free space on the file system that holds it: df -h"),
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

    /// The exit code.
    pub const fn exit(&self) -> Exit {
        self.exit
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
        self.is_silent
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
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENODATA: i32 = 61;
const EDQUOT: i32 = 122;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what_in(&Members))
    }
}

impl std::error::Error for Failure {}

/// What failed and why, to be a part of another text.
impl From<Failure> for Words {
    fn from(failure: Failure) -> Self {
        failure.what
    }
}

/// The same.
impl From<&Failure> for Words {
    fn from(failure: &Failure) -> Self {
        failure.what.clone()
    }
}

impl From<linux::Error> for Failure {
    fn from(error: linux::Error) -> Self {
        let exit = match error.kind() {
            linux::Kind::Usage => Exit::Usage,
            linux::Kind::Missing => Exit::Missing,
            linux::Kind::Unsupported => Exit::Unsupported,
        };
        Self {
            remedy: error.hint(),
            ..Self::new(exit, error.to_string())
        }
    }
}

#[cfg(feature = "drives")]
impl From<nvme::Error> for Failure {
    fn from(error: nvme::Error) -> Self {
        let exit = match error {
            nvme::Error::Unsupported(_)
            | nvme::Error::Namespace { .. }
            | nvme::Error::NoInterrupt
            | nvme::Error::NoQueueLeft
            | nvme::Error::Memory { .. } => Exit::Unsupported,
            nvme::Error::Status { .. } => Exit::No,
            _ => Exit::Missing,
        };
        let failure = Self::new(exit, error.to_string());
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
    fn exit_codes_are_those_that_are_documented() {
        let codes = [
            (Exit::Done, 0),
            (Exit::No, 1),
            (Exit::Usage, 2),
            (Exit::Missing, 3),
            (Exit::Unsupported, 4),
            (Exit::Invalid, 5),
            (Exit::Rot, 6),
            (Exit::Late, 7),
            (Exit::Full, 8),
            (Exit::Exists, 9),
            (Exit::NotFound, 10),
        ];
        for (exit, code) in codes {
            assert_eq!(exit as u8, code);
        }
    }

    #[test]
    fn a_failure_is_about_the_first_device_that_it_was_said_of() {
        let hint = |failure: Failure| failure.hint_in(&Members).unwrap_or_default();
        let failure = || Failure::usage("no").hint(words!["straightway ls ", remedy::Device]);
        assert_eq!(hint(failure()), "straightway ls DEVICE");
        assert_eq!(hint(failure().on("ram:1M")), "straightway ls ram:1M");
        let of_two = failure().on("my disk's.img").on("ram:1M");
        assert_eq!(hint(of_two), "straightway ls 'my disk'\\''s.img'");
        // Its name is no part of what failed.
        assert_eq!(failure().on("ram:1M").to_string(), "no");
    }

    #[test]
    fn errors_of_requests_have_their_codes_and_keep_the_drive_s_status() {
        let code = |error| Failure::request("reading", error).exit();
        assert_eq!(code(block::Error::Gone), Exit::Missing);
        assert_eq!(code(block::Error::OutOfRange), Exit::Usage);
        assert_eq!(code(block::Error::Unsupported), Exit::Unsupported);
        assert_eq!(code(block::Error::Os { errno: 19 }), Exit::Missing);
        assert_eq!(code(block::Error::Os { errno: 5 }), Exit::No);
        let failure = Failure::request("reading", block::Error::Nvme { status: 0x281 });
        assert_eq!(failure.exit(), Exit::No);
        assert!(
            failure
                .to_string()
                .contains("Unrecovered Read Error (2/81)"),
            "{failure}"
        );
    }

    #[test]
    fn a_write_without_space_or_permission_says_so_on_every_path() {
        let failed = |error| Failure::request("writing", error);
        let os = |errno| failed(block::Error::Os { errno });
        for errno in [ENOSPC, EDQUOT] {
            let failure = os(errno);
            assert!(failure.to_string().contains("no space"), "{failure}");
            assert_eq!(failure.exit(), Exit::Full);
        }
        for errno in [EPERM, EACCES, EROFS] {
            assert_eq!(os(errno).exit(), Exit::Missing);
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
        let failure = Failure::stdout(&io::ErrorKind::BrokenPipe.into());
        assert!(failure.is_silent());
        assert_eq!(failure.exit(), Exit::Done);
    }

    #[test]
    fn a_denied_access_has_a_hint() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = |path| Failure::io("opening", Path::new(path), &error);
        let device = failure("/dev/nvme0n1");
        assert_eq!(
            (device.exit(), device.remedy()),
            (Exit::Missing, Some(&"run it as root".into()))
        );
        assert_eq!(
            failure("d/x").remedy(),
            Some(&"permissions: ls -ld d/x d".into())
        );
    }

    #[test]
    fn full_taken_and_missing_files_are_told_apart() {
        let exit =
            |kind: io::ErrorKind| Failure::io("opening", Path::new("x"), &kind.into()).exit();
        assert_eq!(exit(io::ErrorKind::StorageFull), Exit::Full);
        assert_eq!(exit(io::ErrorKind::AlreadyExists), Exit::Exists);
        assert_eq!(exit(io::ErrorKind::NotFound), Exit::NotFound);
        let failure = Failure::request("writing", block::Error::Os { errno: 28 });
        assert_eq!(failure.exit(), Exit::Full);
        assert!(failure.hint_in(&Members).unwrap().contains("file system"));
    }
}
