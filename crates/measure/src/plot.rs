//! Plots as inline SVG: a figure against block size, one line a path.
//!
//! Colours and sizes are left to the page's style sheet (classes `s0` to `s9`), so that a plot
//! follows light and dark. Paths differ in colour *and* in marker; a dashed line polls.

use crate::format::{figure, size};
use crate::kind::{self, Kind};
use std::fmt::Write;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;
/// Colours in the style sheet.
const COLOURS: usize = 10;
/// Looks from here on are grey, and differ by marker alone.
const GREY: usize = 100;
/// Markers; has no factor in common with the colours, so that 90 paths differ.
const MARKERS: usize = 9;
/// Block sizes that are labelled before others.
const PREFERRED: [u64; 4] = [4 << 10, 128 << 10, 1 << 20, 16 << 20];
/// Room for one label on the x axis.
const LABEL_WIDTH: f64 = 74.0;

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the path.
    pub name: String,
    /// Its place among all paths of the report, which decides its looks.
    pub style: usize,
    /// Whether it polls.
    pub polls: bool,
    /// The points, by block size.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Block size.
    pub bytes: u64,
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
}

/// One plot. Neighbours that are to be compared share their y scale.
#[derive(Clone, Debug)]
pub struct Plot<'a> {
    /// Read to those who cannot see it.
    pub title: &'a str,
    /// What the y axis shows, with its unit.
    pub y_label: &'a str,
    /// The unit alone, for tooltips.
    pub unit: &'a str,
    /// The y axis.
    pub y_scale: YScale,
    /// The lines.
    pub lines: &'a [Line],
}

/// The values that lines take, error bars included.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// The range of `lines`; values that are not above 0 do not count towards the least.
    pub fn of<'a>(lines: impl Iterator<Item = &'a Line>) -> Self {
        let none = Range {
            least: f64::INFINITY,
            most: 0.0,
        };
        lines
            .flat_map(|line| &line.points)
            .fold(none, |range, point| {
                let high = point.ci95.map_or(point.value, |[_, high]| high);
                let positive = point.value > 0.0;
                Range {
                    least: range
                        .least
                        .min(if positive { point.value } else { f64::INFINITY }),
                    most: range.most.max(high).max(point.value),
                }
            })
    }

    /// An axis from 0 in round steps.
    pub fn linear(self) -> YScale {
        let step = nice_step(self.most);
        let steps = ((self.most / step).ceil() as u32).max(1);
        YScale::Linear { step, steps }
    }

    /// An axis in decades if the values span more than one, for then a linear one shows only the
    /// largest; otherwise from 0.
    pub fn log_if_wide(self) -> YScale {
        if !self.least.is_finite() || self.most / self.least < 10.0 {
            return self.linear();
        }
        YScale::Log {
            low: self.least.log10().floor() as i32,
            high: self.most.log10().ceil() as i32,
        }
    }
}

/// A y axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum YScale {
    /// From 0 in equal steps.
    Linear {
        /// One step.
        step: f64,
        /// How many.
        steps: u32,
    },
    /// In powers of ten.
    Log {
        /// Exponent of the lowest.
        low: i32,
        /// Exponent of the highest.
        high: i32,
    },
}

impl YScale {
    /// Values to label, with their labels.
    fn ticks(self) -> Vec<(f64, String)> {
        match self {
            YScale::Linear { step, steps } => (0..=steps)
                .map(|index| step * f64::from(index))
                .map(|value| (value, tick(value, step)))
                .collect(),
            YScale::Log { low, high } => (low..=high)
                .map(|exponent| 10f64.powi(exponent))
                .map(|value| (value, tick(value, value)))
                .collect(),
        }
    }

    /// Where a value lies, from 0 at the bottom to 1 at the top.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            YScale::Linear { step, steps } => value / (step * f64::from(steps)),
            YScale::Log { low, high } => {
                (value.max(f64::MIN_POSITIVE).log10() - f64::from(low)) / f64::from(high - low)
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// The looks of the paths of a report, each a colour of its own: those of this project stand out,
/// and the others are grey beside them.
pub fn styles(names: &[&str]) -> Vec<usize> {
    let is_ours = |name: &str| kind::named(name).is_some_and(Kind::is_ours);
    let any_ours = names.iter().any(|name| is_ours(name));
    let (mut colours, mut greys) = (0.., GREY..);
    let style = |name: &&str| match !any_ours || is_ours(name) {
        true => colours.next(),
        false => greys.next(),
    };
    names.iter().filter_map(style).collect()
}

/// The class in the style sheet.
pub(crate) fn class(style: usize) -> String {
    match style < GREY {
        true => format!("s{}", style % COLOURS),
        false => "rest".to_owned(),
    }
}

/// The SVG element of a path's marker and line, for a legend.
pub fn legend_key(style: usize, polls: bool) -> String {
    let dash = if polls { " polls" } else { "" };
    let mut svg = format!(
        "<svg class=\"key {}\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" \
         aria-hidden=\"true\"><path class=\"line{dash}\" d=\"M1 7H33\"/>",
        class(style)
    );
    marker(&mut svg, style, 17.0, 7.0);
    svg.push_str("</svg>");
    svg
}

impl Plot<'_> {
    /// The `<svg>` element.
    pub fn svg(&self) -> String {
        let mut sizes: Vec<u64> = self
            .lines
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.bytes))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let scale = Scale::new(&sizes, self.y_scale);
        let mut svg = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escaped(self.title)
        );
        self.axes(&mut svg, &scale, &sizes);
        // What stands out is drawn last.
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.style < GREY);
        for line in lines {
            self.line(&mut svg, &scale, line);
        }
        svg.push_str("</svg>");
        svg
    }

    // Writing to a String cannot fail.
    fn axes(&self, svg: &mut String, scale: &Scale, sizes: &[u64]) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (index, (value, label)) in self.y_scale.ticks().into_iter().enumerate() {
            let y = scale.y(value);
            let class = if index == 0 { "axis" } else { "grid" };
            let _ = write!(
                svg,
                "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.5,
            );
        }
        for &bytes in sizes {
            let x = scale.x(bytes);
            let _ = write!(svg, "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>");
        }
        for bytes in labelled(sizes, scale) {
            let x = scale.x(bytes);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 21.0,
                size(bytes)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">Block size \
             (log scale)</text><text class=\"label\" transform=\"translate(15 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 8.0,
            (TOP + bottom) / 2.0,
            escaped(&match self.y_scale {
                YScale::Linear { .. } => self.y_label.to_owned(),
                YScale::Log { .. } => format!("{} (log scale)", self.y_label),
            })
        );
    }

    fn line(&self, svg: &mut String, scale: &Scale, line: &Line) {
        let dash = if line.polls { " polls" } else { "" };
        let _ = write!(svg, "<g class=\"{}\">", class(line.style));
        let mut path = String::new();
        for (index, point) in line.points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let (x, y) = (scale.x(point.bytes), scale.y(point.value));
            let _ = write!(path, "{letter}{x:.1} {y:.1}");
        }
        let _ = write!(svg, "<path class=\"line{dash}\" d=\"{path}\"/>");
        for point in &line.points {
            let (x, y) = (scale.x(point.bytes), scale.y(point.value));
            let mut title = format!(
                "{}, {}: {} {}",
                line.name,
                size(point.bytes),
                figure(point.value),
                self.unit
            );
            if let Some([low, high]) = point.ci95 {
                let _ = write!(title, " (95 %: {} to {})", figure(low), figure(high));
                let (low, high) = (scale.y(low), scale.y(high));
                let _ = write!(
                    svg,
                    "<path class=\"bar\" d=\"M{:.1} {high:.1}h8m-4 0V{low:.1}m-4 0h8\"/>",
                    x - 4.0
                );
            }
            let _ = write!(svg, "<g class=\"point\"><title>{}</title>", escaped(&title));
            marker(svg, line.style, x, y);
            svg.push_str("</g>");
        }
        svg.push_str("</g>");
    }
}

struct Scale {
    low_log2: f64,
    span_log2: f64,
    y_scale: YScale,
}

impl Scale {
    fn new(sizes: &[u64], y_scale: YScale) -> Self {
        let log2 = |bytes: Option<&u64>| bytes.map_or(0.0, |&bytes| (bytes.max(1) as f64).log2());
        let low_log2 = log2(sizes.first());
        Self {
            low_log2,
            span_log2: log2(sizes.last()) - low_log2,
            y_scale,
        }
    }

    fn x(&self, bytes: u64) -> f64 {
        // Markers keep clear of the axis.
        let (left, right) = (LEFT + 14.0, WIDTH - RIGHT - 14.0);
        if self.span_log2 <= 0.0 {
            return (left + right) / 2.0;
        }
        let share = ((bytes.max(1) as f64).log2() - self.low_log2) / self.span_log2;
        left + share * (right - left)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y_scale.share(value) * (HEIGHT - BOTTOM - TOP)
    }
}

/// 1, 2 or 5 times a power of ten, so that `top` has four to eight steps.
fn nice_step(top: f64) -> f64 {
    if !top.is_finite() || top <= 0.0 {
        return 1.0;
    }
    let least = top / 7.0;
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// A tick's label: as many decimals as its step needs.
fn tick(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    if decimals == 0 {
        return crate::format::count(value.round() as u64);
    }
    format!("{value:.decimals$}")
}

/// The sizes whose labels fit, the well-known ones first.
fn labelled(sizes: &[u64], scale: &Scale) -> Vec<u64> {
    let ends = [sizes.first(), sizes.last()].into_iter().flatten().copied();
    let preferred = PREFERRED.into_iter().filter(|size| sizes.contains(size));
    let mut taken: Vec<u64> = Vec::new();
    for bytes in ends.chain(preferred).chain(sizes.iter().copied()) {
        let fits = |other: &u64| (scale.x(*other) - scale.x(bytes)).abs() >= LABEL_WIDTH;
        if taken.iter().all(fits) {
            taken.push(bytes);
        }
    }
    taken
}

fn marker(svg: &mut String, style: usize, x: f64, y: f64) {
    let _ = match style % MARKERS {
        0 => write!(
            svg,
            "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
        ),
        1 => shape(svg, "mark", x - 3.7, y - 3.7, "h7.4v7.4h-7.4z"),
        2 => shape(svg, "mark", x, y - 5.0, "l4.8 8.4h-9.6z"),
        3 => shape(svg, "mark", x, y - 5.2, "l5.2 5.2-5.2 5.2-5.2-5.2z"),
        4 => shape(svg, "mark", x, y + 5.0, "l4.8-8.4h-9.6z"),
        5 => write!(
            svg,
            "<circle class=\"mark open\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"/>"
        ),
        6 => shape(
            svg,
            "mark stroke",
            x - 3.8,
            y - 3.8,
            "l7.6 7.6m0-7.6l-7.6 7.6",
        ),
        7 => shape(svg, "mark open", x - 3.4, y - 3.4, "h6.8v6.8h-6.8z"),
        _ => shape(svg, "mark stroke", x - 5.0, y, "h10m-5-5v10"),
    };
}

fn shape(svg: &mut String, class: &str, x: f64, y: f64, path: &str) -> std::fmt::Result {
    write!(svg, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}{path}\"/>")
}

/// Text that may stand in an element or an attribute.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[(u64, f64)]) -> Line {
        let point = |&(bytes, value)| Point {
            bytes,
            value,
            ci95: Some([value - 1.0, value + 1.0]),
        };
        Line {
            name: "<a&b>".to_owned(),
            style: 3,
            polls: true,
            points: values.iter().map(point).collect(),
        }
    }

    fn svg(lines: &[Line]) -> String {
        let plot = Plot {
            title: "t",
            y_label: "MiB/s",
            unit: "MiB/s",
            y_scale: Range::of(lines.iter()).log_if_wide(),
            lines,
        };
        plot.svg()
    }

    #[test]
    fn names_are_escaped_and_nothing_is_not_a_number() {
        for lines in [
            vec![],
            vec![line(&[(4096, 5.0)])],
            vec![line(&[(4096, 0.0), (1 << 24, 900.0)])],
        ] {
            let text = svg(&lines);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(!text.contains("<a&b>"));
        }
    }

    #[test]
    fn the_thesis_s_sizes_are_labelled_first() {
        let sizes: Vec<u64> = (12..=24).map(|shift| 1 << shift).collect();
        let scale = Scale::new(&sizes, YScale::Log { low: 0, high: 1 });
        let labels = labelled(&sizes, &scale);
        for size in PREFERRED {
            assert!(labels.contains(&size), "{size}");
        }
    }

    #[test]
    fn each_path_of_ours_has_a_colour_of_its_own_and_the_others_are_grey() {
        let all: Vec<&str> = kind::KINDS.iter().map(|kind| kind.name).collect();
        let styles = styles(&all);
        assert_eq!(styles.len(), all.len());
        let mut ours: Vec<String> = Vec::new();
        for (kind, style) in kind::KINDS.iter().zip(&styles) {
            assert_eq!(class(*style) == "rest", !kind.is_ours(), "{}", kind.name);
            if kind.is_ours() {
                ours.push(class(*style));
            }
        }
        ours.sort();
        ours.dedup();
        assert_eq!(
            ours.len(),
            kind::KINDS.iter().filter(|kind| kind.is_ours()).count()
        );
        // Without any of ours there is nothing to stand out from.
        assert_eq!(super::styles(&["block-direct", "ram"]), [0, 1]);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(nice_step(3210.0), 500.0);
        assert_eq!(nice_step(100.0), 20.0);
        assert_eq!(nice_step(0.0), 1.0);
        assert_eq!(tick(0.4, 0.2), "0.4");
        assert_eq!(tick(3000.0, 500.0), "3,000");
    }
}
