// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of every run: one self-contained page, and the same as text.
//!
//! A page has a head, an answer, sections of charts and tables, and a foot that describes the
//! measurement. Each question has its own module here, which makes sections of its results.

#![forbid(unsafe_code)]

/// The example of the crate's page, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod application;
mod chart;
mod comparison;
mod explain;
mod flame;
mod periodic;
mod profile;
mod speed;
mod sustain;
mod sweep;
mod table;
mod trace;

use askama::Template;
use measure::format::{aligned, count, date, duration};
use measure::run_info::RunInfo;
use measure::schema::MissingPath;
pub use table::table;

/// The page could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("the report could not be rendered: {0}")]
pub struct ReportError(#[from] askama::Error);

/// A run that can be reported.
pub trait Reportable {
    /// Makes its report, to be rendered as a page or as text.
    fn page(&self) -> Page<'_>;
}

/// A report, before it is rendered.
#[derive(Template)]
#[template(path = "page.html")]
pub struct Page<'a> {
    run: &'a RunInfo,
    title: String,
    date: String,
    verdict: Option<(&'static str, String)>,
    answer: String,
    lede: String,
    emulated: Option<String>,
    sections: Vec<Section>,
    conditions: Vec<(&'static str, String)>,
    environment: Vec<(&'static str, String, String)>,
    figures: Vec<(&'a str, String)>,
    /// The text, if it is not made from the sections.
    text: Option<String>,
}

/// A heading and its content: cards, then charts with their legend, then tables.
#[derive(Default)]
struct Section {
    title: String,
    caption: String,
    cards: Vec<Card>,
    legend: Vec<(String, String)>,
    panels: Vec<(String, String)>,
    tables: Vec<Table>,
    wide: bool,
}

impl Section {
    fn new(title: impl Into<String>, caption: &str) -> Self {
        Self {
            title: title.into(),
            caption: caption.to_owned(),
            ..Self::default()
        }
    }

    fn legend(mut self, legend: impl IntoIterator<Item = (String, impl Into<String>)>) -> Self {
        let keys = legend.into_iter().map(|(key, name)| (key, name.into()));
        self.legend = keys.collect();
        self
    }

    fn panel(mut self, name: impl Into<String>, svg: String) -> Self {
        self.panels.push((name.into(), svg));
        self
    }

    fn table(mut self, head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.tables.push(Table::new(head, rows));
        self
    }

    /// Its title and tables as text; empty if all of them are folded.
    fn text(&self) -> String {
        let tables = self.tables.iter().filter(|table| !table.folded);
        let tables: Vec<String> = tables.map(Table::text).collect();
        if tables.is_empty() {
            String::new()
        } else {
            format!("{}\n{}\n", self.title, tables.join("\n"))
        }
    }
}

/// Findings by block size, in lists with headings.
struct Card {
    title: String,
    lists: Vec<(&'static str, Vec<[String; 3]>)>,
}

/// A table. A line break in a cell begins a note.
#[derive(Default)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    words: bool,
    folded: bool,
}

impl Table {
    /// The headings are separated by `|`.
    fn new(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let head = head.split('|').map(str::to_owned);
        Self {
            head: head.collect(),
            rows: rows.into_iter().collect(),
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        let head = std::iter::once(&self.head).filter(|head| !head.is_empty());
        let rows = head.chain(&self.rows).map(|row| {
            let cells = row.iter().map(|cell| cell.trim_end().replace('\n', " "));
            cells.collect::<Vec<String>>()
        });
        let left = if self.words { usize::MAX } else { 1 };
        aligned(&rows.collect::<Vec<_>>(), left)
    }

    fn of_facts(facts: Vec<(&str, String)>) -> Self {
        let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
        Self {
            rows: facts.into_iter().map(row).collect(),
            words: true,
            ..Self::default()
        }
    }
}

impl<'a> Page<'a> {
    fn new(run: &'a RunInfo, title: impl Into<String>, lede: String) -> Self {
        let device = &run.device;
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "—".to_owned());
        let capacity = device.size_bytes.map(|bytes| count(bytes) + " bytes");
        let before = run.environment_before.rows().into_iter();
        let after = run.environment_after.rows().into_iter();
        let pairs = before.zip(after);
        let figures = run.figures.iter();
        let limits = run.latency_limits.iter().map(ToString::to_string);
        let limits: Vec<String> = limits.collect();
        let limits = (!limits.is_empty()).then(|| ("latency limit", limits.join("; ")));
        Self {
            run,
            title: title.into(),
            date: date(run.started_unix_s),
            verdict: None,
            answer: String::new(),
            lede,
            emulated: device.emulated(&run.environment_before),
            sections: Vec::new(),
            conditions: vec![
                ("drive", device.name.clone()),
                ("model", known(&device.model)),
                ("serial number", known(&device.serial)),
                ("firmware", known(&device.firmware)),
                ("PCI address", known(&device.pci_address)),
                ("capacity", known(&capacity)),
                ("seed", run.seed.to_string()),
                ("straightway", run.tool_version.clone()),
            ]
            .into_iter()
            .chain(limits)
            .collect(),
            environment: pairs
                .map(|((name, before), (_, after))| (name, before, after))
                .collect(),
            figures: figures
                .map(|figure| (figure.title.as_str(), data_uri(&figure.svg)))
                .collect(),
            text: None,
        }
    }

    /// Renders a self-contained page: no script, no external resources.
    ///
    /// # Errors
    /// The template failed.
    pub fn html(&self) -> Result<String, ReportError> {
        Ok(self.render()?)
    }

    /// Renders text, without charts, captions and folded tables.
    pub fn text(&self) -> String {
        let mut text = match (&self.text, &self.verdict) {
            (Some(text), _) => text.clone(),
            (None, None) => self.sections_text(),
            (None, Some((_, verdict))) => format!("{verdict}: {}", self.sections_text()),
        };
        if let Some(note) = self.emulated.iter().find(|note| !text.contains(*note)) {
            text = format!("{note}\n\n{text}");
        }
        let reasons = self.run.invalid_reasons.iter();
        let unsaid: Vec<&String> = reasons.filter(|one| !text.contains(*one)).collect();
        for reason in unsaid {
            text += &format!("NOT VALID: {reason}\n");
        }
        text
    }

    fn sections_text(&self) -> String {
        let sections = self.sections.iter().map(Section::text);
        format!("{}\n{}\n\n", self.title, self.lede) + &sections.collect::<String>()
    }

    /// The verb that measured.
    pub fn kind(&self) -> &str {
        &self.run.kind
    }

    /// A cell and its note.
    fn parts<'c>(&self, cell: &'c str) -> (&'c str, &'c str) {
        cell.split_once('\n').unwrap_or((cell, ""))
    }

    fn missing(&mut self, missing: &[MissingPath]) {
        if missing.is_empty() {
            return;
        }
        let row = |one: &MissingPath| vec![one.path.clone(), one.reason.clone(), one.hint.clone()];
        let mut section = Section::new("Not measured", "");
        section.tables.push(Table {
            words: true,
            ..Table::new("Path|why|hint", missing.iter().map(row))
        });
        self.sections.push(section);
    }
}

/// A time with its interval, or with the note that it has none.
fn within(ns: u64, ci95: Option<[u64; 2]>) -> String {
    let time = duration(ns);
    match ci95.map(|ends| ends.map(duration)) {
        Some([low, high]) => format!("{time} ({low} to {high})"),
        None => format!("{time} (no interval)"),
    }
}

/// A picture as a data URI of an image, which cannot run scripts.
fn data_uri(svg: &str) -> String {
    let mut uri = String::from("data:image/svg+xml,");
    for byte in svg.bytes() {
        if byte.is_ascii_alphanumeric() || b" /=:.,;-_".contains(&byte) {
            uri.push(char::from(byte))
        } else {
            uri.push_str(&format!("%{byte:02X}"))
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::run_info::Figure;

    #[test]
    fn a_picture_is_shown_as_an_image_that_cannot_leave_its_attribute() {
        let run = RunInfo {
            figures: vec![Figure {
                title: "predictability".into(),
                svg: "<svg onload=\"alert(1)\">\u{b5}#%</svg>".into(),
            }],
            ..RunInfo::default()
        };
        let page = Page::new(&run, "t", "l".into()).html().unwrap();
        assert!(
            page.contains("predictability")
                && page.contains(
                    "data:image/svg+xml,%3Csvg onload=%22alert%281%29%22%3E%C2%B5%23%25%3C/svg%3E"
                ),
            "{page}"
        );
        let none = RunInfo::default();
        let page = Page::new(&none, "t", "l".into()).html().unwrap();
        assert!(!page.contains("<img"));
    }

    #[test]
    fn a_note_is_set_off_and_a_folded_table_has_its_summary() {
        let run = RunInfo::default();
        let mut page = Page::new(&run, "t", "l".into());
        let mut section = Section::new("s", "");
        section.tables.push(Table {
            title: "all of it".into(),
            folded: true,
            ..Table::new("a|b", [vec!["x\ndrifting".to_owned(), "1\n/ 2".to_owned()]])
        });
        page.sections.push(section);
        let page = page.html().unwrap();
        assert!(
            page.contains("<details><summary>all of it</summary>"),
            "{page}"
        );
        assert!(
            page.contains("x<span class=\"marks\">drifting</span>"),
            "{page}"
        );
        assert!(
            page.contains("1 <span class=\"faint\">/ 2</span>"),
            "{page}"
        );
    }
}
