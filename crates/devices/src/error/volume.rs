// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's errors, in the words and the exit codes of the command.

use crate::error::ErrorKind;
use remedy::{Part, Setting, Words, words};
use std::fmt;
use volume::Error;

/// The volume's error while `doing`, which names the file or the device.
pub fn failed(doing: impl fmt::Display, error: Error) -> crate::Error {
    let what = format!("{doing}: {error}");
    match error {
        Error::Device(error) => crate::Error::request(doing, error.error()),
        Error::NotAVolume => crate::Error::missing(what)
            .hint("name the device with the volume; straightway format makes one"),
        Error::NewerVersion { .. } | Error::UnknownFeatures { .. } | Error::Unsuitable => {
            crate::Error::unsupported(what)
        }
        Error::Overwritten => owned_by_another(what),
        Error::SequenceEnd => crate::Error::unsupported(what).hint(words![
            "straightway get ",
            remedy::Device,
            " ",
            Part::Option(Setting::All),
            " - ",
            Part::Option(Setting::Tar),
            " | straightway put OTHER - ",
            Part::Option(Setting::Tar),
            ", with OTHER from straightway format"
        ]),
        Error::ReadOnly | Error::InUse | Error::TooManyOpen => crate::Error::missing(what),
        Error::BadName | Error::BadParameters | Error::PastEnd | Error::Unaligned => {
            crate::Error::usage(what)
        }
        Error::Truncated { .. } => crate::Error::other(what)
            .hint("name the whole device, or restore the rest of the image"),
        Error::Corrupt(damage) if damage.is_whole_volume() => crate::Error::other(what).hint(
            "no check can repair that: both copies are invalid; restore the device from a copy of it",
        ),
        Error::Corrupt(_) | Error::StaleSuperblock => crate::Error::other(what).hint(words![
            "straightway check ",
            remedy::Device,
            " reports what can be repaired"
        ]),
        Error::Rot { .. } => crate::Error::new(ErrorKind::Rot, what),
        Error::NotFound => crate::Error::new(ErrorKind::NotFound, what)
            .hint(words!["straightway ls ", remedy::Device]),
        Error::Exists => crate::Error::new(ErrorKind::Exists, what)
            .hint("another name, or straightway rm removes that file"),
        Error::NoSpace | Error::MapFull => crate::Error::new(ErrorKind::Full, what)
            .hint("remove files with straightway rm, or use a larger device"),
        Error::TableFull => crate::Error::new(ErrorKind::Full, what).hint(
            "straightway rm gives the table of slots space to grow; straightway check says whether \
             damage keeps it from that",
        ),
        Error::NeedsMount => crate::Error::other(what).hint("run the command again"),
        _ => crate::Error::other(what),
    }
}

/// The refusal to change a volume on a device that another owner has.
pub fn owned_by_another(what: impl Into<Words>) -> crate::Error {
    crate::Error::missing(what).hint(words![
        "straightway get ",
        remedy::Device,
        " ",
        Part::Option(Setting::All),
        " fetches its files; straightway wipe ",
        remedy::Device,
        " removes the volume and leaves the device to its owner, straightway format ",
        remedy::Device,
        " makes a new volume"
    ])
}
