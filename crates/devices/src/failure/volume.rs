// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's errors, in the words and the exit codes of the command.

use crate::failure::{Exit, Failure};
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
        Error::SequenceEnd => Failure::unsupported(what).hint(
            "straightway get DEVICE --all - --tar | straightway put OTHER - --tar, with OTHER from straightway format",
        ),
        Error::ReadOnly | Error::InUse | Error::TooManyOpen => Failure::missing(what),
        Error::BadName | Error::BadParameters | Error::PastEnd | Error::Unaligned => {
            Failure::usage(what)
        }
        Error::Truncated { .. } => {
            Failure::other(what).hint("name the whole device, or restore the rest of the image")
        }
        Error::Corrupt(_) | Error::StaleSuperblock => {
            Failure::other(what).hint("straightway check DEVICE reports what can be repaired")
        }
        Error::Rot { .. } => Failure::new(Exit::Rot, what),
        Error::NotFound => Failure::new(Exit::NotFound, what).hint("straightway ls DEVICE"),
        Error::Exists => Failure::new(Exit::Exists, what)
            .hint("another name, or straightway rm removes that file"),
        Error::NoSpace | Error::MapFull => Failure::new(Exit::Full, what)
            .hint("remove files with straightway rm, or use a larger device"),
        Error::TableFull => Failure::new(Exit::Full, what)
            .hint("another name, straightway rm, or straightway format with more --slots"),
        Error::NeedsMount => Failure::other(what).hint("run the command again"),
        _ => Failure::other(what),
    }
}

/// The refusal to change a volume on a device that another owner has.
pub fn owned_by_another(what: String) -> Failure {
    Failure::missing(what).hint(
        "straightway get DEVICE --all fetches its files; straightway wipe DEVICE removes the volume and \
         leaves the device to its owner, straightway format DEVICE makes a new volume",
    )
}
