// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Help, completions and manual pages come from here.

use crate::examples;
use crate::verbs::{self, Verb};
use clap::{Arg, Command, CommandFactory, Parser};
use devices::error::Error;
use devices::path::PathChoice;
use std::ffi::OsString;

const AFTER_HELP: &str = "\
DEVICE is /dev/nvme0n1, /dev/ng0n1, nvme0, a PCI address (0000:01:00.0 or 01:00.0), a link such as
/dev/disk/by-id/..., any other block device (/dev/sda, /dev/mmcblk0, /dev/loop0; paths through the kernel), a plain file's path or file:PATH, ram:SIZE, or model:SIZE[,file=PATH][,latency=TIME][,idle=TIME][,pci=VENDOR:DEVICE] (a model
controller). Several are one device as stripe:64K,DEVICE,DEVICE or mirror:DEVICE,DEVICE, and
tcp://HOST:4420/NQN is a namespace of an NVMe/TCP target. ls, put, get, rm, mv, stat, info and blast also take hwfs:PATH, a file system in hardware: PATH is its UIO
device, or the socket of a simulation.

Sizes: plain bytes; K, M, G, T or KiB, MiB, ... are 1024 each; KB, MB, ... are 1000 each.
Times need their unit: 250us, 200ms, 3s, 1min.

Exit status: 0 done; 1 failed, or ran with a negative result; 2 wrong usage; 3 the device is
missing, in use or not permitted; 4 the path is not supported here; 5 the measurement is not valid;
6 stored data does not match its checksum; 7 deadlines were missed or blocks lost; 8 no space left;
9 the name exists; 10 no such file; 128 + n ended by signal n. With --json an error is a line of
JSON, the last line of standard error: `straightway schema error`.";

/// Examples for new users.
const OVERVIEW_EXAMPLES: [(&str, &str); 4] = [
    (
        "a volume in a file",
        "straightway format disk.img --size 256M",
    ),
    (
        "record into it",
        "some-program | straightway record disk.img take1",
    ),
    ("drives and their users", "straightway list"),
    ("every path, side by side", "straightway compare nvme0n1"),
];
/// Options that the short help leaves to the long one.
const RARE: &[&str] = &[
    "acknowledge",
    "block-size",
    "buffers",
    "cache",
    "cell-duration",
    "channels",
    "checksums",
    "commit-bytes",
    "commit-interval",
    "connections",
    "coprocessor",
    "figure",
    "frequency",
    "hardware",
    "hybrid",
    "keep-partial",
    "latency-limit",
    "memory",
    "mode",
    "namespace",
    "no-checksums",
    "no-fua",
    "no-verify",
    "once",
    "path",
    "queue-depth",
    "sample-rate",
    "seed",
    "sigmf-datatype",
    "span",
    "warm-up",
];
/// Columns of the screen that the command without words prints.
const COLUMNS: usize = 80;

/// Record, keep and measure data on drives
#[derive(Clone, Debug, Parser)]
#[command(name = "straightway", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Common {
    /// Say nothing but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// Record, keep and measure data on drives
#[derive(Clone, Debug, Parser)]
#[command(name = "straightway")]
pub struct Arguments {
    /// What precedes the verb, and the command's own help.
    #[command(flatten)]
    pub common: Common,
    /// The verb
    #[command(subcommand)]
    pub verb: Verb,
}

/// The command line's parser; help, manual pages and completions are generated from it too.
pub fn command() -> Command {
    let command = flowing(Arguments::command()).mut_subcommands(complete);
    let template = overview(&command);
    command.help_template(template)
}

/// The parser for these words. If they begin with a verb, it has no other: the parsers of all verbs
/// take most of the time in which a small processor starts the command.
pub fn command_for(words: &[OsString]) -> Command {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let first = words.into_iter().find(|word| !word.starts_with('-'));
    match first.and_then(verbs::alone) {
        Some(verb) => Common::command()
            .subcommand_required(true)
            .subcommand(complete(verb)),
        None => command(),
    }
}

/// A verb with its examples, and the text of its help in paragraphs.
fn complete(verb: Command) -> Command {
    with_examples(flowing(verb)).mut_args(value).mut_args(short)
}

/// The error for `--size -1` explains what a size is; it does not suggest `-- -1`.
fn value(argument: Arg) -> Arg {
    if argument.get_action().takes_values() && !argument.is_positional() {
        let defaults = argument.get_default_values();
        let is_blank = defaults.iter().any(|value| value.is_empty());
        argument
            .allow_negative_numbers(true)
            .hide_default_value(is_blank)
    } else {
        argument
    }
}

/// An option whose short help is a line or two, and whose long help has all of it.
fn short(argument: Arg) -> Arg {
    let long = argument.get_long().unwrap_or_default();
    let (is_rare, names_paths) = (RARE.contains(&long), matches!(long, "path" | "paths"));
    let help = argument.get_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let first = first_words(&help);
    // Options that replace or destroy data have a heading, and say all that they do.
    let keeps_all = argument.is_positional()
        || argument.get_help_heading().is_some()
        || argument.get_long_help().is_some();
    // The whole command's help has the names of paths, once.
    let hides = argument.is_hide_possible_values_set() || names_paths;
    let argument = argument
        .hide_short_help(is_rare)
        .hide_possible_values(hides);
    if keeps_all || first.len() == help.len() {
        argument
    } else {
        argument.help(first.to_owned()).long_help(help)
    }
}

/// What the short help has of an option's text: its first clause, if all of it is more than a line.
fn first_words(help: &str) -> &str {
    const LINE: usize = 48;
    let ends = ["; ", ": ", ". "].into_iter();
    let end = ends.filter_map(|mark| help.find(mark)).min();
    let first = end.and_then(|end| help.get(..end));
    // Not within a bracket.
    let first = first.filter(|first| help.len() > LINE && !first.contains(['[', '(']));
    first.unwrap_or(help)
}

fn flowing(command: Command) -> Command {
    match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(flow(&text)),
        None => command,
    }
}

/// The help of the whole command: its verbs under the headings of their groups.
fn overview(command: &Command) -> String {
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (title, verbs) in examples::groups() {
        text += &format!("\n{title}:\n");
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {verb:<12} {about}\n");
        }
    }
    let paths = PathChoice::names().collect::<Vec<_>>().join(", ");
    text += &format!("\nPaths, for --path and --paths: {paths}\n");
    text += "\nOptions:\n{options}\n\nExamples:";
    for (what, line) in OVERVIEW_EXAMPLES {
        text += &format!("\n  {line:<42} {what}");
    }
    text + "{after-help}"
}

/// What the command prints without words: what it is, how to begin, and the verbs' names, as far as
/// each group fits its line.
pub fn first_screen() -> String {
    let mut text = "straightway: record, keep and measure data on drives\n\n".to_owned();
    for (what, line) in OVERVIEW_EXAMPLES {
        text += &format!("  {line:<50} {what}\n");
    }
    text += "\n";
    for (title, verbs) in examples::groups() {
        let mut line = format!("{title:<16} ");
        for (index, verb) in verbs.iter().enumerate() {
            let left = verbs.len() - index;
            let more = format!("{left} more");
            let is_last = left == 1;
            if !is_last && line.len() + verb.len() + ", ".len() + more.len() > COLUMNS {
                line += &more;
                break;
            }
            line += verb;
            line += if is_last { "" } else { ", " };
        }
        text += &line;
        text += "\n";
    }
    text + "\n`straightway VERB -h` explains a verb, `straightway --help` lists all of them.\n"
}

/// The verb's help with examples at its end; the short one has the first of them only.
fn with_examples(verb: Command) -> Command {
    let mut text = verb
        .get_after_help()
        .map_or(String::new(), |text| format!("{text}\n\n"));
    text += "Examples:";
    let all = examples::of(verb.get_name());
    for (what, line) in &all {
        text += &format!("\n  {what}:\n    {line}");
    }
    let first = all
        .first()
        .map_or(String::new(), |(_, line)| format!("Example: {line}"));
    verb.after_help(first).after_long_help(text)
}

/// Text with one line per paragraph, so that only the terminal's width wraps it. A paragraph with
/// indented lines is left unchanged.
fn flow(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if paragraph.lines().any(|line| line.starts_with(' ')) {
            paragraph.to_owned()
        } else {
            paragraph.lines().collect::<Vec<_>>().join(" ")
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Converts the parser's error to a `Error`.
pub fn failure(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let mut parts = text.split("\n\n");
    let line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let what = line(parts.next().unwrap_or_default());
    let failure = Error::usage(what.strip_prefix("error: ").unwrap_or(&what));
    let tip = parts.map(line).find_map(|part| {
        let tip = part.strip_prefix("tip: ")?;
        Some(tip.to_owned())
    });
    failure.hint(tip.unwrap_or_else(|| "see --help".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_help_of_a_verb_fits_a_screen() {
        for verb in command().get_subcommands() {
            let text = verb.clone().term_width(80).render_help().to_string();
            let lines = text.lines().count();
            assert!(lines <= 36, "{} has {lines} lines: {text}", verb.get_name());
            assert!(text.contains("Example: ") && !text.contains("Exit status"));
        }
    }

    #[test]
    fn the_first_screen_has_fifteen_lines() {
        let text = first_screen();
        assert_eq!(text.lines().count(), 15, "{text}");
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        for (_, verbs) in examples::groups() {
            assert!(text.contains(verbs[0]), "{text}");
        }
    }

    #[test]
    fn a_verb_has_the_same_help_alone() {
        let mut whole = command();
        let verbs: Vec<String> = whole
            .get_subcommands()
            .map(|verb| verb.get_name().to_owned())
            .collect();
        for verb in verbs {
            let words = ["straightway", "-q", &verb, "--help"].map(OsString::from);
            let alone = command_for(&words).try_get_matches_from(&words);
            let all = whole.try_get_matches_from_mut(&words);
            let text = |error: clap::Error| error.render().to_string();
            assert_eq!(alone.map_err(text), all.map_err(text), "{verb}");
        }
        for words in [
            &["straightway"][..],
            &["straightway", "help"],
            &["straightway", "nonsense"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert!(
                command_for(&words)
                    .render_help()
                    .to_string()
                    .contains("Examples:")
            );
        }
    }
}
