// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages, generated from the parser: one for the command, one for each verb.

use crate::examples;
use crate::exit::EXIT_STATUS;
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use std::fmt::Write;

/// The page of the whole command.
///
/// # Errors
/// It cannot be formatted.
pub fn main_page(command: &Command) -> std::io::Result<String> {
    let mut page = top(command)?;
    section(
        &mut page,
        "SYNOPSIS",
        "\\fBstraightway\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR ...\n",
    );
    add(
        &mut page,
        |man, to| man.render_description_section(to),
        command,
    )?;
    add(&mut page, |man, to| man.render_options_section(to), command)?;
    let mut verbs = String::new();
    for verb in examples::groups().into_iter().flat_map(|(_, verbs)| verbs) {
        if let Some(verb) = command.find_subcommand(verb) {
            let about = verb.get_about().map(ToString::to_string);
            let (name, about) = (
                escaped(verb.get_name()),
                escaped(&about.unwrap_or_default()),
            );
            let _ = write!(verbs, ".TP\n\\fBstraightway\\-{name}\\fR(1)\n{about}\n");
        }
    }
    section(&mut page, "COMMANDS", &verbs);
    notes(&mut page, command);
    exit_status(&mut page);
    Ok(page)
}

/// The page of a verb.
///
/// # Errors
/// It cannot be formatted.
pub fn verb_page(verb: &Command) -> std::io::Result<String> {
    let name = verb.get_name().to_owned();
    let named = verb.clone().name(format!("straightway-{name}"));
    let mut page = top(&named)?;
    section(&mut page, "SYNOPSIS", &synopsis(verb));
    add(
        &mut page,
        |man, to| man.render_description_section(to),
        &named,
    )?;
    add(&mut page, |man, to| man.render_options_section(to), &named)?;
    notes(&mut page, verb);
    let mut text = String::new();
    for (what, line) in examples::of(&name) {
        let (what, line) = (escaped(what), escaped(line));
        let _ = write!(text, ".PP\n{what}:\n.PP\n.RS 4\n.nf\n{line}\n.fi\n.RE\n");
    }
    section(&mut page, "EXAMPLES", &text);
    exit_status(&mut page);
    let groups = examples::groups().into_iter();
    let own = groups.filter(|(_, verbs)| verbs.contains(&name.as_str()));
    let mut also = "\\fBstraightway\\fR(1)".to_owned();
    for other in own
        .flat_map(|(_, verbs)| verbs)
        .filter(|other| *other != name)
    {
        let _ = write!(also, ",\n\\fBstraightway\\-{}\\fR(1)", escaped(other));
    }
    section(&mut page, "SEE ALSO", &(also + "\n"));
    Ok(page)
}

/// The beginning of each page's title.
pub const TITLE: &str = ".TH straightway";

/// Title and name.
fn top(command: &Command) -> std::io::Result<String> {
    let mut page = String::new();
    add(&mut page, |man, to| man.render_title(to), command)?;
    add(&mut page, |man, to| man.render_name_section(to), command)?;
    Ok(page)
}

fn add(
    page: &mut String,
    render: impl Fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>,
    command: &Command,
) -> std::io::Result<()> {
    let man = Man::new(command.clone())
        .source(format!("straightway {}", env!("CARGO_PKG_VERSION")))
        .manual("Straightway");
    let mut bytes = Vec::new();
    render(&man, &mut bytes)?;
    page.push_str(&String::from_utf8_lossy(&bytes));
    Ok(())
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, ".SH {title}\n{text}");
}

/// The help's text after the options, without the examples, which have their own section.
fn notes(page: &mut String, command: &Command) {
    let text = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(ToString::to_string);
    let text = text.unwrap_or_default();
    let paragraphs = text.split("\n\n").filter(|one| {
        !one.is_empty() && !one.starts_with("Exit status:") && !one.starts_with("Examples:")
    });
    let mut notes = String::new();
    for paragraph in paragraphs {
        let _ = write!(notes, ".PP\n{}\n", escaped(paragraph));
    }
    if !notes.is_empty() {
        section(page, "NOTES", &notes);
    }
}

fn exit_status(page: &mut String) {
    let mut text = String::new();
    for (code, means) in EXIT_STATUS {
        let _ = write!(text, ".TP\n\\fB{code}\\fR\n{}\n", escaped(means));
    }
    section(page, "EXIT STATUS", &text);
}

/// Each option with its value; optional parts are in brackets.
fn synopsis(verb: &Command) -> String {
    let mut text = format!("\\fBstraightway {}\\fR", escaped(verb.get_name()));
    let shown = |argument: &&Arg| {
        !argument.is_hide_set()
            && !matches!(
                argument.get_action(),
                ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
            )
    };
    for argument in verb.get_arguments().filter(shown) {
        let values: Vec<String> = match argument.get_value_names() {
            Some(names) if argument.get_action().takes_values() => names
                .iter()
                .map(|name| format!("\\fI{}\\fR", escaped(name)))
                .collect(),
            _ => Vec::new(),
        };
        let mut word = match argument.get_long() {
            Some(long) if !argument.is_positional() => format!("\\fB\\-\\-{}\\fR", escaped(long)),
            _ => String::new(),
        };
        if !values.is_empty() {
            word += if word.is_empty() { "" } else { " " };
            word += &values.join(" ");
        }
        let many = argument
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1);
        word += if many { " ..." } else { "" };
        let _ = if argument.is_required_set() {
            write!(text, "\n{word}")
        } else {
            write!(text, "\n[{word}]")
        };
    }
    text + "\n"
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    let lines = text.lines().map(|line| {
        if line.starts_with(['.', '\'']) {
            format!("\\&{line}")
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
