// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts that go to another process: settings and the device stay values, which the reader words.

use remedy::{Part, Remedy, Setting, Value, Words, words};
use serde::{Deserialize, Serialize};

/// A text in pieces.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pieces(Vec<Piece>);

#[derive(Debug, Serialize, Deserialize)]
enum Piece {
    Text(String),
    /// A setting, by its option.
    Setting(String),
    /// An option of a command line.
    Option(String),
    /// The device, which the reader has another name for.
    Device,
}

impl Pieces {
    pub(crate) fn of(words: &Words) -> Self {
        let mut pieces = Vec::new();
        for part in words.leaves() {
            match part {
                Part::Text(text) => pieces.push(Piece::Text(text.into_owned())),
                Part::Setting(setting) => pieces.push(Piece::Setting(setting.option().to_owned())),
                Part::Option(setting) => pieces.push(Piece::Option(setting.option().to_owned())),
                Part::Device => pieces.push(Piece::Device),
                Part::Remedy(remedy) => {
                    let Remedy::Set(setting, value) = *remedy else {
                        continue;
                    };
                    pieces.push(Piece::Setting(setting.option().to_owned()));
                    if value != Value::On {
                        pieces.push(Piece::Text(format!(" {value}")));
                    }
                }
                Part::Words(_) => {}
            }
        }
        Self(pieces)
    }

    pub(crate) fn words(self) -> Words {
        let part = |piece| match piece {
            Piece::Text(text) => Part::from(text),
            Piece::Setting(name) => known(name, Part::Setting),
            Piece::Option(name) => known(name, Part::Option),
            Piece::Device => Part::Device,
        };
        Words::of(self.0.into_iter().map(part).collect::<Vec<_>>())
    }
}

fn known(name: String, part: fn(Setting) -> Part) -> Part {
    Setting::named(&name).map_or_else(|| words![name].into(), part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remedy::Device;

    #[test]
    fn a_text_is_the_same_for_its_reader() {
        let sent = words![
            "a ",
            Remedy::one_of([
                Remedy::More(Setting::Buffers),
                Setting::Path.to("chario"),
                Remedy::agree(Setting::Force),
                words!["straightway ls ", Device, " ", Part::Option(Setting::All)].into(),
            ]),
            words!["."],
        ];
        let json = serde_json::to_string(&Pieces::of(&sent)).unwrap();
        let read: Pieces = serde_json::from_str(&json).unwrap();
        let read = read.words();
        assert_eq!(read.to_string(), sent.to_string());
        let about = |words: &Words| words.word(&remedy::Members, Some("my disk"));
        assert_eq!(about(&read), about(&sent));
        assert!(about(&read).contains("ls 'my disk' --all"));
    }
}
