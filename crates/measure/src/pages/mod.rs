//! The report of every run but a comparison: one HTML file from the same parts, in the same style.
//!
//! A page is a title, a verdict, and sections of plots and tables; at its end the commands, the
//! drive, and the machine before and after. It needs no network, no script and no other file.

mod explain;
mod periodic;
mod profile;
mod speed;
mod sustain;
mod sweep;
mod trace;
mod workload;

use crate::format::{count, date};
use crate::report::ReportError;
use crate::run_info::RunInfo;
use askama::Template;

/// A run that has a report.
pub trait Report {
    /// The text of an HTML file.
    ///
    /// # Errors
    /// Only if the template cannot be rendered, which no run causes.
    fn html(&self) -> Result<String, ReportError>;

    /// The same in short, for a terminal.
    fn text(&self) -> String;

    /// Where, when and under which conditions it ran.
    fn info(&self) -> &RunInfo;

    /// The text, and why it is not valid where the text itself does not say so.
    fn judged_text(&self) -> String {
        let mut text = self.text();
        let info = self.info();
        let emulated = info.device.emulated(&info.environment_before);
        if let Some(note) = emulated.filter(|note| !text.contains(note.as_str())) {
            text = format!("{note}\n\n{text}");
        }
        let reasons = self.info().invalid_reasons.iter();
        let unsaid: Vec<&String> = reasons.filter(|one| !text.contains(one.as_str())).collect();
        for reason in unsaid {
            text += &format!("NOT VALID: {reason}\n");
        }
        text
    }
}

/// A page before it is rendered.
#[derive(Template)]
#[template(path = "page.html")]
pub(crate) struct Page<'a> {
    run: &'a RunInfo,
    title: String,
    date: String,
    /// Class (`good`, `bad`, `open`) and words.
    verdict: Option<(&'static str, String)>,
    lede: String,
    /// What has to be said of an emulator.
    emulated: Option<String>,
    sections: Vec<Section>,
    conditions: Vec<(String, String)>,
    environment: Vec<(&'static str, String, String, bool)>,
    /// Title and data URI.
    figures: Vec<(&'a str, String)>,
}

/// A part of a page.
#[derive(Default)]
pub(crate) struct Section {
    title: String,
    caption: String,
    /// Key (SVG) and name.
    legend: Vec<(String, String)>,
    /// Heading and SVG.
    panels: Vec<(String, String)>,
    tables: Vec<Table>,
    /// Whether a panel takes the whole width.
    wide: bool,
}

/// A table; the first cell of a row names it.
#[derive(Default)]
pub(crate) struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether its cells are words rather than figures.
    words: bool,
}

impl Table {
    pub(crate) fn new(head: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            head: head.iter().map(|name| (*name).to_owned()).collect(),
            rows,
            ..Self::default()
        }
    }

    /// Names and what they are.
    pub(crate) fn of_facts(rows: Vec<(&str, String)>) -> Self {
        let rows = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value]);
        Self {
            head: Vec::new(),
            rows: rows.collect(),
            words: true,
            ..Self::default()
        }
    }
}

impl<'a> Page<'a> {
    pub(crate) fn new(run: &'a RunInfo, title: String, lede: String) -> Self {
        let device = &run.device;
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "—".to_owned());
        let before = run.environment_before.rows();
        let after = run.environment_after.rows();
        Self {
            run,
            title,
            date: date(run.started_unix_s),
            verdict: None,
            lede,
            emulated: device.emulated(&run.environment_before),
            sections: Vec::new(),
            conditions: vec![
                ("drive".to_owned(), device.name.clone()),
                ("model".to_owned(), known(&device.model)),
                ("serial number".to_owned(), known(&device.serial)),
                ("firmware".to_owned(), known(&device.firmware)),
                ("PCI address".to_owned(), known(&device.pci_address)),
                (
                    "capacity".to_owned(),
                    device
                        .size_bytes
                        .map_or("—".to_owned(), |bytes| format!("{} bytes", count(bytes))),
                ),
                ("seed".to_owned(), run.seed.to_string()),
                ("straightway".to_owned(), run.tool_version.clone()),
            ],
            environment: before
                .into_iter()
                .zip(after)
                .map(|((name, before), (_, after))| {
                    let changed = before != after;
                    (name, before, after, changed)
                })
                .collect(),
            figures: run
                .figures
                .iter()
                .map(|figure| (figure.title.as_str(), data_uri(&figure.svg)))
                .collect(),
        }
    }

    pub(crate) fn finish(&self) -> Result<String, ReportError> {
        Ok(self.render()?)
    }
}

/// A picture as the source of an image: as text, but for what an attribute or a URI cannot hold.
fn data_uri(svg: &str) -> String {
    let mut uri = String::from("data:image/svg+xml,");
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b' '
            | b'/'
            | b'='
            | b':'
            | b'.'
            | b','
            | b';'
            | b'-'
            | b'_' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_info::Figure;

    #[test]
    fn a_picture_is_shown_as_an_image_that_cannot_leave_its_attribute() {
        let run = RunInfo {
            figures: vec![Figure {
                title: "predictability".into(),
                svg: "<svg onload=\"alert(1)\">\u{b5}#%</svg>".into(),
            }],
            ..RunInfo::default()
        };
        let page = Page::new(&run, "t".into(), "l".into()).finish().unwrap();
        assert!(
            page.contains("predictability")
                && page.contains(
                    "data:image/svg+xml,%3Csvg onload=%22alert%281%29%22%3E%C2%B5%23%25%3C/svg%3E"
                ),
            "{page}"
        );
        let none = RunInfo::default();
        let page = Page::new(&none, "t".into(), "l".into()).finish().unwrap();
        assert!(!page.contains("<img"));
    }
}
