// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's errors, in the words and the exit codes of the command.

use crate::failure::{ErrorKind, Failure};
use remedy::{Part, Setting, Words, words};
use std::fmt;
use volume::Error;

/// The volume's error while `doing`, which names the file or the device.
pub fn failed(doing: impl fmt::Display, error: Error) -> Failure {
    let what = format!("{doing}: {error}");
    match error {
        Error::Device(error) => Failure::request(doing, error.error()),
        Error::NotAVolume => Failure::missing(what)
            .hint("name the device with the volume; straightway format makes one"),
        Error::NewerVersion { .. } | Error::UnknownFeatures { .. } | Error::Unsuitable => {
            Failure::unsupported(what)
        }
        Error::Overwritten => owned_by_another(what),
        Error::SequenceEnd => Failure::unsupported(what).hint(words![
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
        Error::ReadOnly | Error::InUse | Error::TooManyOpen => Failure::missing(what),
        Error::BadName | Error::BadParameters | Error::PastEnd | Error::Unaligned => {
            Failure::usage(what)
        }
        Error::Truncated { .. } => {
            Failure::other(what).hint("name the whole device, or restore the rest of the image")
        }
        Error::Corrupt(_) | Error::StaleSuperblock => Failure::other(what).hint(words![
            "straightway check ",
            remedy::Device,
            " reports what can be repaired"
        ]),
        Error::Rot { .. } => Failure::new(ErrorKind::Rot, what),
        Error::NotFound => {
            Failure::new(ErrorKind::NotFound, what).hint(words!["straightway ls ", remedy::Device])
        }
        Error::Exists => Failure::new(ErrorKind::Exists, what)
            .hint("another name, or straightway rm removes that file"),
        Error::NoSpace | Error::MapFull => Failure::new(ErrorKind::Full, what)
            .hint("remove files with straightway rm, or use a larger device"),
        Error::TableFull => Failure::new(ErrorKind::Full, what).hint(words![
            "another name, straightway rm, or straightway format with more ",
            Part::Option(Setting::Slots)
        ]),
        Error::NeedsMount => Failure::other(what).hint("run the command again"),
        _ => Failure::other(what),
    }
}

/// The refusal to change a volume on a device that another owner has.
pub fn owned_by_another(what: impl Into<Words>) -> Failure {
    Failure::missing(what).hint(words![
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
