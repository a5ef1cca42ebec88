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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

    /// In the words of `wording`, about the device with this name.
    pub fn word(&self, wording: &dyn Wording, device: Option<&str>) -> String {
        let name = |setting: &Setting| wording.setting(*setting);
        match self {
            Self::Set(setting, value) => wording.set(*setting, value),
            Self::Omit(settings) => {
                let names: Vec<String> = settings.iter().map(name).collect();
                format!("omit {}", names.join(" and "))
            }
            Self::More(setting) => format!("{} {}", setting.amount().more(), name(setting)),
            Self::Less(setting) => format!("{} {}", setting.amount().less(), name(setting)),
            Self::FreeSpace(folder) => format!("free space there: df -h {}", folder.display()),
            Self::Run(words) | Self::Advice(words) => words.word(wording, device),
            Self::OneOf(remedies) => {
                let texts = remedies.iter().map(|remedy| remedy.word(wording, device));
                either(&texts.collect::<Vec<_>>())
            }
        }
    }
}

/// `a, b, or c`.
fn either(texts: &[String]) -> String {
    match texts {
        [all @ .., last] if !all.is_empty() => format!("{}, or {last}", all.join(", ")),
        texts => texts.concat(),
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
