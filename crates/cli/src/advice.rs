// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to write instead of words that the command does not know.
//!
//! The parser suggests what is spelled alike. Here stand words that mean the same, and what is
//! never suggested: an option by which data may be lost.

use crate::{arguments, examples, grave};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;
use units::Size;

/// Verbs by other programs' words for them.
const VERBS: [(&str, &[&str]); 13] = [
    ("rm", &["delete", "del", "remove", "unlink"]),
    ("get", &["extract", "fetch", "download", "read-file"]),
    ("put", &["add", "store", "upload", "insert"]),
    ("mv", &["rename", "move"]),
    ("cp", &["copy"]),
    ("format", &["mkfs", "create", "init", "new"]),
    ("check", &["fsck", "verify", "repair", "scrub"]),
    ("compare", &["bench", "benchmark", "fio"]),
    ("ls", &["dir", "files"]),
    ("df", &["du", "usage", "free"]),
    ("record", &["capture", "rec"]),
    ("play", &["replay"]),
    ("serve", &["nbd", "ublk", "vhost-user"]),
];

/// What to do instead, for words that no verb stands for.
const TIPS: [(&str, &str); 3] = [
    (
        "mkdir",
        "a folder comes with its files: straightway put DEVICE FOLDER",
    ),
    (
        "sync",
        "what a verb has stored is durable when it ends; there is nothing to sync",
    ),
    ("umount", "umount FOLDER, the system's own command"),
];

/// Options by other words for them. A verb has at most one of a row's.
const OPTIONS: [(&[&str], &[&str]); 4] = [
    (
        &["duration", "for"],
        &["duration", "for", "time", "seconds", "runtime"],
    ),
    (&["name"], &["as"]),
    (
        &["block-size", "block"],
        &["bs", "blocksize", "block-size", "block"],
    ),
    (&["queue-depth"], &["iodepth", "qd", "depth", "queue-depth"]),
];

/// Whether a word may be a mistake for the option: a third of its letters differ, at most.
fn is_alike(given: &str, suggested: &str) -> bool {
    let (given, option) = (
        given.trim_start_matches('-'),
        suggested.trim_start_matches('-'),
    );
    let option = option.split([' ', '=']).next().unwrap_or(option);
    let most = given.chars().count().max(option.chars().count());
    edits(given, option) * 3 <= most || option.starts_with(given) || given.starts_with(option)
}

/// How many letters are other ones, more or fewer.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (at, wanted) in other.iter().enumerate() {
            let [above, right] = [at, at + 1].map(|at| row.get(at).copied().unwrap_or(0));
            let left = next.last().copied().unwrap_or(0);
            next.push(
                (above + usize::from(letter != *wanted))
                    .min(right + 1)
                    .min(left + 1),
            );
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// The parser's error for these words, with what to write instead.
pub fn advise(mut error: Error, words: &[OsString]) -> Error {
    let mut command = arguments::command();
    command.build();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            if let Some(verb) = text(&error, ContextKind::InvalidSubcommand).and_then(known_verb) {
                let verbs = ContextValue::Strings(vec![verb.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, verbs);
            } else if let Some(tip) = tip_for(&error) {
                error.remove(ContextKind::SuggestedSubcommand);
                suggest(&mut error, tip);
            } else if let Some(tip) = swapped(&command, words) {
                error.remove(ContextKind::SuggestedSubcommand);
                suggest(&mut error, &tip);
            }
        }
        ErrorKind::UnknownArgument => {
            if let Some(verb) = verb_of(&mut command, words) {
                of_argument(&mut error, verb);
            }
        }
        ErrorKind::MissingRequiredArgument => {
            if let Some(verb) = verb_of(&mut command, words) {
                if let Some((what, line)) = examples::of(verb.get_name()).first() {
                    suggest(&mut error, &format!("{what}: {line}"));
                }
            }
        }
        _ => {}
    }
    error
}

/// Words in another order: a verb behind the device.
fn swapped(command: &Command, words: &[OsString]) -> Option<String> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words?;
    let [program, device, verb, rest @ ..] = words.as_slice() else {
        return None;
    };
    let is_verb = command.find_subcommand(verb).is_some();
    (is_verb && !device.starts_with('-')).then(|| {
        let rest: String = rest.iter().map(|word| format!(" {word}")).collect();
        let program = program.rsplit('/').next().unwrap_or(program);
        format!("the verb comes first: {program} {verb} {device}{rest}")
    })
}

fn of_argument(error: &mut Error, verb: &mut Command) {
    let Some(given) = text(error, ContextKind::InvalidArg).map(str::to_owned) else {
        return;
    };
    let suggested = text(error, ContextKind::SuggestedArg).unwrap_or_default();
    let is_grave = grave::options(verb).any(|long| suggested.trim_start_matches("--") == long)
        || !is_alike(&given, suggested);
    let known = known_option(verb, given.trim_start_matches("--"));
    if known.is_some() || is_grave {
        error.remove(ContextKind::SuggestedArg);
        // The parser's one has the option that it suggested.
        let usage = ContextValue::StyledStr(verb.render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    if let Some(option) = known {
        let option = ContextValue::String(format!("--{option}"));
        error.insert(ContextKind::SuggestedArg, option);
    } else if has(verb, "size") && given.parse::<Size>().is_ok() {
        suggest(error, &format!("to give a size, use '--size {given}'"));
    }
}

/// The option of the verb that has another name here.
fn known_option<'n>(verb: &Command, given: &str) -> Option<&'n str> {
    let (names, _) = OPTIONS.iter().find(|(_, others)| others.contains(&given))?;
    names.iter().copied().find(|name| has(verb, name))
}

fn known_verb(given: &str) -> Option<&'static str> {
    let row = VERBS.iter().find(|(_, others)| others.contains(&given));
    row.map(|(verb, _)| *verb)
}

fn tip_for(error: &Error) -> Option<&'static str> {
    let given = text(error, ContextKind::InvalidSubcommand)?;
    TIPS.iter()
        .find(|(word, _)| *word == given)
        .map(|(_, tip)| *tip)
}

fn has(verb: &Command, option: &str) -> bool {
    let mut options = verb.get_arguments().filter_map(|one| one.get_long());
    options.any(|long| long == option)
}

/// The verb that the words name.
fn verb_of<'c>(command: &'c mut Command, words: &[OsString]) -> Option<&'c mut Command> {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let first = words.into_iter().find(|word| !word.starts_with('-'))?;
    command.find_subcommand_mut(first)
}

fn text(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn suggest(error: &mut Error, tip: &str) {
    let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip.to_owned())]);
    error.insert(ContextKind::Suggested, tips);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let parsed = arguments::command_for(&words).try_get_matches_from(&words);
        advise(parsed.unwrap_err(), &words).render().to_string()
    }

    #[test]
    fn other_words_for_verbs_and_options_are_known() {
        for (line, tip) in [
            ("straightway delete a.img x", "'rm'"),
            ("straightway remove a.img x", "'rm'"),
            ("straightway extract a.img x", "'get'"),
            ("straightway sustain a.img --for 1s", "'--duration'"),
            ("straightway record a.img x --duration 1s", "'--for'"),
            ("straightway put a.img x --as y", "'--name'"),
            ("straightway format a.img 64M", "'--size 64M'"),
            ("straightway serve a.img", "straightway serve "),
            ("straightway lst a.img", "'list'"),
            ("straightway mkdir a.img x", "put DEVICE FOLDER"),
            ("straightway sync a.img", "nothing to sync"),
            ("straightway umount x", "umount FOLDER"),
            ("straightway put a.img x --verfy", "'--verify'"),
            (
                "straightway a.img put x",
                "the verb comes first: straightway put a.img x",
            ),
        ] {
            let text = message(line);
            let tips = text
                .split_once("tip: ")
                .unwrap_or_else(|| panic!("{line}: {text}"));
            let tip_line = tips.1.lines().next().unwrap();
            assert!(tip_line.contains(tip), "{line}: {text}");
        }
    }

    #[test]
    fn a_word_that_is_not_alike_is_never_suggested() {
        for line in [
            "straightway put a.img x --ovewrite",
            "straightway put a.img x --overwrite",
            "straightway get a.img x --replace",
            "straightway put a.img x --recursive",
        ] {
            let text = message(line);
            assert!(
                !text.contains("a similar argument exists"),
                "{line}: {text}"
            );
        }
    }

    #[test]
    fn an_option_by_which_data_may_be_lost_is_never_suggested() {
        let mut command = arguments::command();
        command.build();
        for (line, option) in [
            ("straightway sustain a.img --forc", "--force"),
            ("straightway put a.img x --fource", "--force"),
            (
                "straightway write nvme0n1 --destroy-dat S",
                "--destroy-data",
            ),
            ("straightway check a.img --repare", "--repair"),
        ] {
            let text = message(line);
            let asked = text.lines().skip(1).any(|line| line.contains(option));
            assert!(!asked, "{line}: {text}");
        }
        // Wherever it is: a new verb cannot leave the mark out.
        for verb in command.get_subcommands() {
            for name in ["force", "destroy-data", "repair"] {
                let is_marked = grave::options(verb).any(|long| long == name);
                assert_eq!(has(verb, name), is_marked, "{} --{name}", verb.get_name());
            }
        }
    }

    #[test]
    fn the_verbs_and_options_of_the_tables_exist() {
        let command = arguments::command();
        for (verb, others) in VERBS {
            assert!(command.find_subcommand(verb).is_some(), "{verb}");
            for other in others {
                assert!(command.find_subcommand(other).is_none(), "{other}");
            }
        }
        for (names, _) in OPTIONS {
            for name in names {
                assert!(
                    command.get_subcommands().any(|verb| has(verb, name)),
                    "{name}"
                );
            }
        }
    }
}
