// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the command names settings: its options.

use remedy::{Setting, Value, Wording};

/// Options of the command line.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine;

impl Wording for CommandLine {
    fn setting(&self, setting: Setting) -> String {
        format!("--{}", setting.option())
    }

    fn set(&self, setting: Setting, value: &Value) -> String {
        match value {
            Value::On => self.setting(setting),
            value => format!("{} {value}", self.setting(setting)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use remedy::{Part, Remedy, words};

    #[test]
    fn each_remedy_is_worded_as_an_option_or_a_command_line() {
        let rows: [(Remedy, &str); 10] = [
            (Setting::Path.to("chario"), "--path chario"),
            (Setting::Block.to(Value::Bytes(64 << 10)), "--block 64K"),
            (Setting::Namespace.to(Value::Number(1)), "--namespace 1"),
            (
                Setting::DestroyData.to(Value::choice("SERIAL")),
                "--destroy-data SERIAL",
            ),
            (
                words![Remedy::agree(Setting::Force), ", if its data may be lost"].into(),
                "--force, if its data may be lost",
            ),
            (
                words![
                    "apt install ",
                    words!["fio; or ", Remedy::omit([Setting::Fio])]
                ]
                .into(),
                "apt install fio; or omit --fio",
            ),
            (
                Remedy::omit([Setting::Path, Setting::Mode]),
                "omit --path and --mode",
            ),
            (
                Remedy::one_of([
                    Remedy::More(Setting::Buffers),
                    Remedy::from("larger ones"),
                    Remedy::Less(Setting::Rate),
                    Setting::Policy.to("drop"),
                ]),
                "more --buffers, larger ones, a lower --rate, or --policy drop",
            ),
            (
                Remedy::FreeSpace("/data".into()),
                "free space there: df -h /data",
            ),
            (
                Remedy::Run(words![
                    "straightway get ",
                    remedy::Device,
                    " ",
                    Part::Option(Setting::All)
                ]),
                "straightway get 'my disk' --all",
            ),
        ];
        for (remedy, text) in rows {
            assert_eq!(remedy.word(&CommandLine, Some("my disk")), text);
        }
    }

    #[test]
    fn each_setting_is_an_option_of_a_verb() {
        let command = crate::arguments::Arguments::command();
        let known: Vec<&str> = command
            .get_subcommands()
            .flat_map(|verb| verb.get_arguments())
            .filter_map(|argument| argument.get_long())
            .collect();
        for setting in Setting::ALL {
            assert!(known.contains(&setting.option()), "{setting:?}");
        }
    }
}
