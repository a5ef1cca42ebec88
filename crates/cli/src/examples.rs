// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of the verbs, and examples of each, for help and manual pages: read from
//! `examples.txt`.
//!
//! In that file a line that begins with `# ` is a group, a line without indentation is a verb, a
//! line indented by two is the description of an example, and the line after it is the example.

/// A description and a command line.
pub type Example = (&'static str, &'static str);

const TEXT: &str = include_str!("examples.txt");

/// The examples of a verb.
pub fn of(verb: &str) -> Vec<Example> {
    let mut lines = TEXT.lines().skip_while(|line| *line != verb).skip(1);
    let mut examples = Vec::new();
    while let (Some(what), Some(line)) = (lines.next(), lines.next()) {
        let Some(what) = what.strip_prefix("  ") else {
            break;
        };
        examples.push((what, line.trim_start()));
    }
    examples
}

/// The groups in the order of the help, each with its verbs.
pub fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in TEXT.lines().filter(|line| !line.starts_with(' ')) {
        match (line.strip_prefix("# "), groups.last_mut()) {
            (Some(title), _) => groups.push((title, Vec::new())),
            (None, Some((_, verbs))) => verbs.push(line),
            (None, None) => {}
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_examples_that_parse() {
        let command = crate::arguments::command();
        for verb in command.get_subcommands() {
            let verb = verb.get_name();
            assert!(!of(verb).is_empty(), "{verb}");
            let all = groups();
            let groups = all.iter().filter(|(_, group)| group.contains(&verb));
            assert_eq!(groups.count(), 1, "{verb}");
            for (what, line) in of(verb) {
                let (_, ours) = line.rsplit_once("straightway ").unwrap_or_default();
                let ours = ours.split(" > ").next().unwrap_or_default();
                let words = std::iter::once("straightway").chain(ours.split(' '));
                let parsed = command.clone().try_get_matches_from(words);
                let matches = parsed.unwrap_or_else(|error| panic!("{what}: {line}: {error}"));
                assert_eq!(matches.subcommand_name(), Some(verb), "{line}");
            }
        }
    }
}
