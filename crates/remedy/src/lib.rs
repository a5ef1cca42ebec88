// SPDX-License-Identifier: Apache-2.0 OR MIT
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod setting;
mod words;

pub use setting::{Amount, Setting, Value};
pub use words::{Device, Members, Part, Wording, Words};

use std::fmt;
use std::path::PathBuf;

/// What may fix an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Choose this value: another path, a serial number, consent.
    Set(Setting, Value),
    /// Leave these out.
    Omit(Vec<Setting>),
    /// Choose a larger value.
    More(Setting),
    /// Choose a smaller value.
    Less(Setting),
    /// Free space on the file system that holds this.
    FreeSpace(PathBuf),
    /// Run this command line.
    Run(Words),
    /// Any of these, the best first.
    OneOf(Vec<Remedy>),
    /// In words.
    Advice(Words),
}

impl Remedy {
    /// Any of these, the best first.
    pub fn one_of(remedies: impl IntoIterator<Item = Remedy>) -> Self {
        Self::OneOf(remedies.into_iter().collect())
    }

    /// Agree to this.
    pub const fn agree(setting: Setting) -> Self {
        Self::Set(setting, Value::On)
    }

    /// Leave these out.
    pub fn omit(settings: impl IntoIterator<Item = Setting>) -> Self {
        Self::Omit(settings.into_iter().collect())
    }

    /// What it would set `setting` to, if that is a part of it.
    pub fn value_of(&self, setting: Setting) -> Option<&Value> {
        match self {
            Self::Set(of, value) => (*of == setting).then_some(value),
            Self::OneOf(remedies) => remedies.iter().find_map(|one| one.value_of(setting)),
            Self::Run(words) | Self::Advice(words) => words.value_of(setting),
            _ => None,
        }
    }

    /// In words.
    pub fn words(&self) -> Words {
        let listed = |settings: &[Setting]| Words::join(settings.iter().copied(), " and ");
        match self {
            Self::Set(..) => words![self.clone()],
            Self::Omit(settings) => words!["omit ", listed(settings)],
            Self::More(setting) => words![setting.amount().more(), " ", *setting],
            Self::Less(setting) => words![setting.amount().less(), " ", *setting],
            Self::FreeSpace(folder) => {
                words![format!("free space there: df -h {}", folder.display())]
            }
            Self::Run(words) | Self::Advice(words) => words.clone(),
            Self::OneOf(remedies) => match remedies.as_slice() {
                [all @ .., last] if !all.is_empty() => {
                    let all = Words::join(all.iter().map(Self::words), ", ");
                    words![all, ", or ", last.words()]
                }
                one => Words::join(one.iter().map(Self::words), ""),
            },
        }
    }

    /// In the words of `wording`, about the device with this name.
    pub fn word(&self, wording: &dyn Wording, device: Option<&str>) -> String {
        self.words().word(wording, device)
    }
}

/// In the names of the library's own settings.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word(&Members, None))
    }
}

impl<T: Into<Words>> From<T> for Remedy {
    fn from(words: T) -> Self {
        Self::Advice(words.into())
    }
}

#[cfg(test)]
mod tests;
