// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints for programs: options of the command in the words of the library.
//!
//! A hint that is a command to run stays: the user can run it beside the program.

/// Options of the command that the library calls by another name; every other one differs in its dashes only.
const NAMES: [(&str, &str); 9] = [
    ("--block", "block_bytes"),
    ("--keep", "keep_bytes"),
    ("--memory", "memory_bytes"),
    ("--namespace", "namespace_id"),
    ("--page-size", "page_bytes"),
    ("--policy", "on_full"),
    ("--rate", "bytes_per_second"),
    ("--segment", "segment_bytes"),
    ("--size", "volume_bytes"),
];

/// The hint with members of the options of C, which are the keywords of Python, in place of the command's options.
pub(super) fn for_programs(hint: &str) -> String {
    let mut is_command = false;
    let mut words = Vec::new();
    for word in hint.split(' ') {
        is_command |= word == "straightway";
        let name = word.trim_end_matches([',', ';', ':', '.', ')']);
        let opening = name.len() - name.trim_start_matches('(').len();
        let (before, option) = name.split_at(opening);
        words.push(match option.strip_prefix("--") {
            Some(plain) if !is_command && !plain.is_empty() => {
                let known = NAMES.iter().find(|(of_command, _)| *of_command == option);
                let ours =
                    known.map_or_else(|| plain.replace('-', "_"), |(_, ours)| (*ours).into());
                format!("{before}{ours}{}", &word[name.len()..])
            }
            _ => word.to_owned(),
        });
        // The command ends with its clause.
        is_command &= !word.ends_with([',', ';', ':']);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::for_programs;

    #[test]
    fn options_are_named_as_members_and_commands_stay() {
        for (command, program) in [
            (
                "--force, if its data may be lost",
                "force, if its data may be lost",
            ),
            ("--destroy-data S/N-1", "destroy_data S/N-1"),
            (
                "more --buffers, or --policy drop",
                "more buffers, or on_full drop",
            ),
            ("omit --path (--mode)", "omit path (mode)"),
            (
                "straightway format --size 1G x; --block 4096",
                "straightway format --size 1G x; block_bytes 4096",
            ),
            ("a file, or -", "a file, or -"),
        ] {
            assert_eq!(for_programs(command), program);
        }
    }
}
