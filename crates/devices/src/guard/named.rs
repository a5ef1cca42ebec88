// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The required value of `--destroy-data`.
//!
//! A drive is named by its serial number; a disk without one and a file, whether it is a disk
//! itself or a model controller's, by its path or its name. Memory holds no data to lose and needs
//! no name.

use crate::drive::{ArrayDrive, Drive};
use crate::error::{Error, Result};
use remedy::{Setting, Value, words};
use std::path::Path;

/// Checks what the user gave to `--destroy-data` against what is known before the drive is opened.
///
/// # Errors
/// The value is missing, or names something else.
pub fn check(drive: &Drive, given: Option<&str>) -> Result<()> {
    match drive {
        Drive::Nvme(resolved) => {
            let serial = resolved.controller.serial.as_deref();
            match (given, serial) {
                (None, _) => Err(refusal(drive, serial)),
                (Some(given), Some(serial)) => check_serial(given, serial),
                // A drive without its kernel driver is queried after opening; see `check_opened`.
                (Some(_), None) => Ok(()),
            }
        }
        Drive::Disk(disk) => match (given, &disk.serial) {
            (None, Some(serial)) => Err(refusal(drive, Some(serial))),
            (Some(given), Some(serial)) => check_serial(given, serial),
            (_, None) => check_file(drive, &disk.node, given),
        },
        Drive::File(path) => check_file(drive, path, given),
        Drive::Model(model) => match &model.file {
            Some(path) => check_file(drive, path, given),
            None => Ok(()),
        },
        Drive::Ram(_) => Ok(()),
        Drive::Array(array) => check_members(drive, array, given),
        // The coprocessor reports the drive's serial number; see `check_opened`.
        Drive::Coprocessor(_) | Drive::Remote(_) if given.is_some() => Ok(()),
        Drive::Coprocessor(_) | Drive::Remote(_) => Err(refusal(drive, None)),
    }
}

/// Each member that holds data is named, in order, separated by commas.
fn check_members(drive: &Drive, array: &ArrayDrive, given: Option<&str>) -> Result<()> {
    let named: Vec<&Drive> = array
        .drives()
        .filter(|member| check(member, None).is_err())
        .collect();
    let given: Vec<&str> = given
        .map(|given| given.split(',').collect())
        .unwrap_or_default();
    if given.len() != named.len() {
        return Err(Error::usage(format!(
            "this would overwrite data on {drive}; nothing was done"
        ))
        .hint(words![
            Setting::DestroyData.to(Value::choice("NAME,NAME")),
            " with each member's serial number or file name, in order; see: straightway list"
        ]));
    }
    let mut both = named.into_iter().zip(given);
    both.try_for_each(|(member, given)| check(member, Some(given)))
}

/// Checks the value against the opened drive's serial number, before anything is written.
///
/// # Errors
/// It names another drive.
pub fn check_opened(drive: &Drive, given: Option<&str>, serial: Option<&str>) -> Result<()> {
    match (drive, given, serial) {
        (Drive::Nvme(_) | Drive::Coprocessor(_) | Drive::Remote(_), Some(given), Some(serial)) => {
            check_serial(given, serial)
        }
        _ => Ok(()),
    }
}

fn refusal(drive: &Drive, name: Option<&str>) -> Error {
    let failure = Error::usage(format!(
        "this would overwrite data on {drive}; nothing was done"
    ));
    match name {
        Some(name) => failure.hint(Setting::DestroyData.to(name.to_owned())),
        None => failure.hint(words![
            Setting::DestroyData.to(Value::choice("SERIAL")),
            ", with the serial that `straightway info` shows"
        ]),
    }
}

fn check_serial(given: &str, serial: &str) -> Result<()> {
    if given.trim() == serial.trim() {
        Ok(())
    } else {
        Err(Error::usage(words![
            Setting::DestroyData,
            format!(
                " names `{given}`, and the drive's serial number is `{serial}`; nothing was done"
            )
        ])
        .hint("make sure that it is the drive you mean; see: straightway list"))
    }
}

fn check_file(drive: &Drive, path: &Path, given: Option<&str>) -> Result<()> {
    let written = path.to_string_lossy();
    let Some(given) = given else {
        return Err(refusal(drive, Some(&written)));
    };
    let name = path.file_name().map(|name| name.to_string_lossy());
    if given == written || name.is_some_and(|name| name == given) {
        Ok(())
    } else {
        Err(Error::usage(words![
            Setting::DestroyData,
            format!(" names `{given}`, and the file is `{written}`; nothing was done")
        ])
        .hint(Setting::DestroyData.to(written.into_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_file_is_named_by_its_path_or_its_name() {
        let drive = Drive::File("/tmp/disk.img".into());
        assert!(check(&drive, Some("/tmp/disk.img")).is_ok());
        assert!(check(&drive, Some("disk.img")).is_ok());
        for given in [None, Some(""), Some("disk"), Some("/tmp")] {
            assert_eq!(check(&drive, given).unwrap_err().kind(), ErrorKind::Usage);
        }
    }

    #[test]
    fn memory_needs_no_name() {
        assert!(check(&Drive::Ram(4096), None).is_ok());
    }

    #[test]
    fn serials_are_compared_whole() {
        assert!(check_serial("abc1", "abc1  ").is_ok());
        assert!(check_serial("abc", "abc1").is_err());
        assert!(check_serial("ABC1", "abc1").is_err());
    }
}
