// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text that names settings and the device as values.

use crate::{Remedy, Setting, Value};
use std::borrow::Cow;
use std::fmt;

/// Who shows an error, and how settings are called there.
pub trait Wording: fmt::Debug + Sync {
    /// The setting's name.
    fn setting(&self, setting: Setting) -> String;

    /// How this setting gets this value.
    fn set(&self, setting: Setting, value: &Value) -> String;
}

/// The library's own: members of its structs of options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Members;

impl Wording for Members {
    fn setting(&self, setting: Setting) -> String {
        setting.member().to_owned()
    }

    fn set(&self, setting: Setting, value: &Value) -> String {
        match value {
            Value::On => setting.member().to_owned(),
            value => format!("{} {value}", setting.member()),
        }
    }
}

/// The device that the error is about, by the name that its user gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Text(Cow<'static, str>),
    /// A setting.
    Setting(Setting),
    /// An option on a command line, which is the same for every reader.
    Option(Setting),
    /// The device, as a shell takes its name; `DEVICE` if it is not known.
    Device,
    /// A remedy within a sentence.
    Remedy(Box<Remedy>),
    /// A text within another.
    Words(Words),
}

/// A text that names settings and the device as values; see [`words!`](crate::words).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<Part>);

/// [`Words`] of texts, settings, [`Device`], numbers and remedies, without anything between them.
#[macro_export]
macro_rules! words {
    ($($part:expr),* $(,)?) => {
        $crate::Words::of([$($crate::Part::from($part)),*])
    };
}

impl Words {
    /// These parts, without anything between them.
    pub fn of(parts: impl Into<Vec<Part>>) -> Self {
        Self(parts.into())
    }

    /// These texts with `between` between each two.
    pub fn join<T: Into<Part>>(texts: impl IntoIterator<Item = T>, between: &'static str) -> Self {
        let mut parts = Vec::new();
        for text in texts {
            if !parts.is_empty() {
                parts.push(Part::from(between));
            }
            parts.push(text.into());
        }
        Self(parts)
    }

    /// What a remedy within it would set `setting` to.
    pub(crate) fn value_of(&self, setting: Setting) -> Option<&Value> {
        self.0.iter().find_map(|part| match part {
            Part::Remedy(remedy) => remedy.value_of(setting),
            Part::Words(words) => words.value_of(setting),
            _ => None,
        })
    }

    /// Its parts, without texts in texts; a remedy among them sets one setting.
    pub fn leaves(&self) -> Vec<Part> {
        let mut leaves = Vec::new();
        for part in &self.0 {
            match part {
                Part::Remedy(remedy) if !matches!(**remedy, Remedy::Set(..)) => {
                    leaves.append(&mut remedy.words().leaves());
                }
                Part::Words(words) => leaves.append(&mut words.leaves()),
                leaf => leaves.push(leaf.clone()),
            }
        }
        leaves
    }

    /// In the words of `wording`, about the device with this name.
    pub fn word(&self, wording: &dyn Wording, device: Option<&str>) -> String {
        let leaves = self.leaves();
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone().into_owned(),
            Part::Setting(setting) => wording.setting(*setting),
            Part::Option(setting) => format!("--{}", setting.option()),
            Part::Device => device.map_or("DEVICE".into(), quoted).into_owned(),
            Part::Remedy(remedy) => match &**remedy {
                Remedy::Set(setting, value) => wording.set(*setting, value),
                remedy => remedy.word(wording, device),
            },
            Part::Words(words) => words.word(wording, device),
        };
        leaves.iter().map(text).collect()
    }
}

/// A name as a shell takes it.
fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:,=@+".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("'{}'", name.replace('\'', "'\\''")))
    }
}

/// In the names of the library's own settings.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word(&Members, None))
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<fmt::Arguments<'_>> for Part {
    fn from(text: fmt::Arguments<'_>) -> Self {
        Self::from(text.to_string())
    }
}

impl From<Setting> for Part {
    fn from(setting: Setting) -> Self {
        Self::Setting(setting)
    }
}

impl From<Device> for Part {
    fn from(_: Device) -> Self {
        Self::Device
    }
}

impl From<u64> for Part {
    fn from(number: u64) -> Self {
        Self::from(number.to_string())
    }
}

impl From<Remedy> for Part {
    fn from(remedy: Remedy) -> Self {
        Self::Remedy(Box::new(remedy))
    }
}

impl From<Words> for Part {
    fn from(words: Words) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        words![text]
    }
}

impl From<&String> for Words {
    fn from(text: &String) -> Self {
        words![text.as_str()]
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        words![text]
    }
}

impl From<Cow<'_, str>> for Words {
    fn from(text: Cow<'_, str>) -> Self {
        words![text.into_owned()]
    }
}

impl From<fmt::Arguments<'_>> for Words {
    fn from(text: fmt::Arguments<'_>) -> Self {
        words![text]
    }
}
