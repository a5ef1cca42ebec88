// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Device, Members, Remedy, Setting, Value, Words, words};
use std::collections::HashSet;

#[test]
fn the_device_is_named_as_a_shell_takes_it() {
    let word = |words: &Words, device| words.word(&Members, device);
    let list = words!["straightway ls ", Device];
    assert_eq!(
        word(&list, Some("/dev/nvme0n1")),
        "straightway ls /dev/nvme0n1"
    );
    assert_eq!(
        word(&list, Some("my disk's.img")),
        "straightway ls 'my disk'\\''s.img'"
    );
    assert_eq!(word(&list, Some("")), "straightway ls ''");
    assert_eq!(word(&list, None), "straightway ls DEVICE");
    // The form of a name is text.
    let form = words!["mirror:DEVICE,DEVICE; see ", list];
    assert_eq!(
        word(&form, Some("ram:1M")),
        "mirror:DEVICE,DEVICE; see straightway ls ram:1M"
    );
}

#[test]
fn remedies_are_worded_in_members() {
    let either = Remedy::one_of([
        Remedy::More(Setting::Buffers),
        Remedy::Less(Setting::Rate),
        Remedy::Set(Setting::Policy, "drop".into()),
    ]);
    assert_eq!(
        either.to_string(),
        "more buffers, a lower bytes_per_second, or on_full drop"
    );
    let two = Remedy::one_of([
        Remedy::omit([Setting::Path, Setting::Mode]),
        Remedy::agree(Setting::Force),
    ]);
    assert_eq!(two.to_string(), "omit path and mode, or force");
    assert_eq!(
        Remedy::one_of([Remedy::from("one")]).to_string(),
        "one",
        "no alternative"
    );
}

#[test]
fn an_option_in_a_command_line_is_an_option_for_every_reader() {
    let line = words![
        "straightway format x ",
        crate::Part::Option(Setting::Size),
        " 1G"
    ];
    assert_eq!(line.to_string(), "straightway format x --size 1G");
}

#[test]
fn bytes_have_the_largest_unit_that_divides_them() {
    let text = |bytes| Value::Bytes(bytes).to_string();
    assert_eq!(text(0), "0");
    assert_eq!(text(700), "700");
    assert_eq!(text(1536), "1536");
    assert_eq!(text(64 << 10), "64K");
    assert_eq!(text(3 << 20), "3M");
    assert_eq!(text(1 << 40), "1024G");
}

#[test]
fn no_two_settings_have_the_same_name() {
    let members: HashSet<_> = Setting::ALL.iter().map(|one| one.member()).collect();
    let options: HashSet<_> = Setting::ALL.iter().map(|one| one.option()).collect();
    assert_eq!(members.len(), Setting::ALL.len());
    assert_eq!(options.len(), Setting::ALL.len());
}

#[test]
fn a_program_finds_the_value_that_a_remedy_proposes() {
    let remedy = Remedy::one_of([
        Remedy::omit([Setting::Path]),
        words![Remedy::agree(Setting::Force), ", if its data may be lost"].into(),
    ]);
    assert_eq!(remedy.value_of(Setting::Force), Some(&Value::On));
    assert_eq!(remedy.value_of(Setting::Path), None);
    let path = Setting::Path.to("chario");
    assert_eq!(path.value_of(Setting::Path), Some(&"chario".into()));
}
