// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How C and Python name settings.

use api::{Setting, Value, Wording};

/// In C: members of a variable `options`, as the header's examples call it.
#[derive(Clone, Copy, Debug)]
pub struct Fields;

/// In Python: keywords of the call.
#[derive(Clone, Copy, Debug)]
pub struct Keywords;

impl Wording for Fields {
    fn setting(&self, setting: Setting) -> String {
        format!("options.{}", setting.member())
    }

    fn set(&self, setting: Setting, value: &Value) -> String {
        format!("{} = {}", self.setting(setting), literal(value, "true"))
    }
}

impl Wording for Keywords {
    fn setting(&self, setting: Setting) -> String {
        setting.member().to_owned()
    }

    fn set(&self, setting: Setting, value: &Value) -> String {
        format!("{}={}", setting.member(), literal(value, "True"))
    }
}

/// A value as both languages write it, except the word for yes.
fn literal(value: &Value, yes: &str) -> String {
    match value {
        Value::On => yes.to_owned(),
        Value::Name(name) => format!("{name:?}"),
        Value::Number(number) | Value::Bytes(number) => number.to_string(),
        Value::Choice(choice) => choice.clone().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Part, Remedy, words};

    #[test]
    fn each_remedy_is_worded_for_c_and_for_python() {
        let rows = [
            (
                Setting::Path.to("chario"),
                "options.path = \"chario\"",
                "path=\"chario\"",
            ),
            (
                Setting::Block.to(Value::Bytes(64 << 10)),
                "options.block_bytes = 65536",
                "block_bytes=65536",
            ),
            (
                Setting::Namespace.to(Value::Number(1)),
                "options.namespace_id = 1",
                "namespace_id=1",
            ),
            (
                Setting::DestroyData.to(Value::choice("SERIAL")),
                "options.destroy_data = SERIAL",
                "destroy_data=SERIAL",
            ),
            (
                words![Remedy::agree(Setting::Force), ", if its data may be lost"].into(),
                "options.force = true, if its data may be lost",
                "force=True, if its data may be lost",
            ),
            (
                Remedy::omit([Setting::Path, Setting::Mode]),
                "omit options.path and options.mode",
                "omit path and mode",
            ),
            (
                Remedy::one_of([
                    Remedy::More(Setting::Buffers),
                    Remedy::Less(Setting::Rate),
                    Setting::Policy.to("drop"),
                ]),
                "more options.buffers, a lower options.bytes_per_second, or options.on_full = \"drop\"",
                "more buffers, a lower bytes_per_second, or on_full=\"drop\"",
            ),
            (
                Remedy::FreeSpace("/data".into()),
                "free space there: df -h /data",
                "free space there: df -h /data",
            ),
            (
                Remedy::Run(words![
                    "straightway get ",
                    api::NamedDevice,
                    " ",
                    Part::Option(Setting::All)
                ]),
                "straightway get 'my disk' --all",
                "straightway get 'my disk' --all",
            ),
        ];
        for (remedy, c, python) in rows {
            let device = Some("my disk");
            assert_eq!(remedy.word(&Fields, device), c);
            assert_eq!(remedy.word(&Keywords, device), python);
        }
    }

    #[test]
    fn no_setting_is_an_option_of_the_command() {
        for &setting in Setting::ALL {
            for text in [Fields.setting(setting), Keywords.setting(setting)] {
                assert!(!text.contains('-'), "{text}");
            }
        }
    }
}
