// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `stripe:SIZE,DEVICE,...` and `mirror:DEVICE,...`: several devices as one.

use super::Drive;
use crate::error::{Error, ErrorKind, Result};
use linux::Roots;
use std::fmt;
use stripe::MOST_MEMBERS;
use units::Size;

/// An array, as the user named it.
#[derive(Clone, Debug)]
pub struct ArrayDrive {
    /// How the members are used.
    pub shape: ArrayShape,
    /// In order.
    pub members: Vec<Member>,
    /// The whole name.
    pub name: String,
}

/// How an array uses its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayShape {
    /// Stripes of this many bytes.
    Striped {
        /// A power of two.
        stripe_bytes: u64,
        /// Whether the members have labels; an array of the hardware has none.
        has_labels: bool,
    },
    /// Copies.
    Mirror,
}

/// A member of an array.
#[derive(Clone, Debug)]
pub struct Member {
    /// As the user named it.
    pub name: String,
    /// The device, or why it is missing, which only a mirror allows.
    pub drive: std::result::Result<Drive, String>,
}

impl ArrayDrive {
    /// Resolves `words`, the part of `name` after `scheme`.
    ///
    /// # Errors
    /// The words are invalid, or a member does not exist.
    pub fn find(roots: &Roots, name: &str, scheme: &str, words: &str) -> Result<Self> {
        let invalid = |what: String| {
            Error::usage(format!("`{name}`: {what}"))
                .hint("stripe:64K,DEVICE,DEVICE or mirror:DEVICE,DEVICE; 2 to 8 devices")
        };
        let mut words: Vec<&str> = words.split(',').collect();
        let shape = match scheme {
            "mirror" => ArrayShape::Mirror,
            _ => {
                let size: Size = words.remove(0).parse().map_err(invalid)?;
                if !size.0.is_power_of_two() || size.0 < 512 || size.0 > 1 << 30 {
                    let what = "a stripe is a power of two, from 512 bytes to 1 GiB";
                    return Err(invalid(what.to_owned()));
                }
                let has_labels = words.first() != Some(&"bare");
                if !has_labels {
                    words.remove(0);
                }
                ArrayShape::Striped {
                    stripe_bytes: size.0,
                    has_labels,
                }
            }
        };
        if !(2..=MOST_MEMBERS).contains(&words.len()) {
            return Err(invalid(format!("{} devices", words.len())));
        }
        let mut members: Vec<Member> = Vec::new();
        for word in words {
            if members.iter().any(|known| known.name == word) {
                return Err(invalid(format!("`{word}` is named twice")));
            }
            let drive = match Drive::find(roots, word) {
                Ok(Drive::Array(_)) => {
                    return Err(invalid(format!("`{word}` is an array itself")));
                }
                Ok(drive) => Ok(drive),
                Err(failure)
                    if shape == ArrayShape::Mirror
                        && matches!(failure.kind(), ErrorKind::Missing | ErrorKind::NotFound) =>
                {
                    Err(failure.to_string())
                }
                Err(failure) => return Err(failure),
            };
            members.push(Member {
                name: word.to_owned(),
                drive,
            });
        }
        if members.iter().all(|member| member.drive.is_err()) {
            return Err(Error::missing(format!("`{name}`: all members are missing")));
        }
        Ok(Self {
            shape,
            members,
            name: name.to_owned(),
        })
    }

    /// The members that exist.
    pub fn drives(&self) -> impl Iterator<Item = &Drive> {
        self.members
            .iter()
            .filter_map(|member| member.drive.as_ref().ok())
    }
}

impl fmt::Display for ArrayDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            ArrayShape::Mirror => f.write_str("a mirror of")?,
            ArrayShape::Striped { stripe_bytes, .. } => {
                write!(f, "stripes of {} on", Size(stripe_bytes))?;
            }
        }
        for (index, member) in self.members.iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            write!(f, "{separator}{}", member.name)?;
        }
        Ok(())
    }
}
