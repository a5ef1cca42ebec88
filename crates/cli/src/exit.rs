// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command's exit statuses.

use devices::error::ErrorKind;

/// The command's exit statuses. They are only added: scripts rely on them.
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
    /// The reader of data on standard output ended before its end, as SIGPIPE would say.
    Unread = 141,
    /// Ended by a signal: the process ends with [`of_signal`].
    Interrupted = 130,
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Closed => Self::Done,
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Missing => Self::Missing,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Rot => Self::Rot,
            ErrorKind::Late => Self::Late,
            ErrorKind::Full => Self::Full,
            ErrorKind::Exists => Self::Exists,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::Unread => Self::Unread,
            _ => Self::No,
        }
    }
}

/// The exit status of a command that this signal ended: 128 and its number, as a shell reports it;
/// of SIGINT if there was none.
pub fn of_signal(signal: Option<usize>) -> u8 {
    signal
        .and_then(|signal| u8::try_from(128 + signal).ok())
        .unwrap_or(Exit::Interrupted as u8)
}

/// The exit statuses and what they mean, for manual pages.
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
    (
        "128 + n",
        "Ended by signal n; 141 also when the reader of data on standard output ends before their end.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_documented_exit_status() {
        let statuses = ErrorKind::ALL.map(|kind| (kind, Exit::from(kind) as u8));
        let expected = [
            (ErrorKind::Other, 1),
            (ErrorKind::Usage, 2),
            (ErrorKind::Missing, 3),
            (ErrorKind::Unsupported, 4),
            (ErrorKind::Invalid, 5),
            (ErrorKind::Rot, 6),
            (ErrorKind::Late, 7),
            (ErrorKind::Full, 8),
            (ErrorKind::Exists, 9),
            (ErrorKind::NotFound, 10),
            (ErrorKind::Interrupted, 130),
            (ErrorKind::Closed, 0),
            (ErrorKind::Unread, 141),
        ];
        assert_eq!(statuses, expected);
        assert_eq!((of_signal(None), of_signal(Some(15))), (130, 143));
    }
}
