// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of the reports, as SVG that takes its colours and fonts from the page's style sheet:
//! curves with intervals, boxes, and bars of parts. Every chart has the same axes; a scale is
//! linear or logarithmic.
//!
//! A curve's style is a number: below [`GREY`] it is a colour and a marker, from there on a grey.

use askama::filters;
use measure::distribution::BoxPlot;
use measure::format::{duration, figure, size};
use measure::schema::Ci95;
use paths::PathKind;
use std::fmt::Write;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 52.0;
/// The margin between the ends of an axis and its first and last given value.
const MARGIN: f64 = 14.0;
const COLOURS: usize = 10;
pub(crate) const GREY: usize = 100;
const MARKERS: usize = 9;
/// Sizes that are preferred as labels: those of the thesis.
const PREFERRED: [f64; 4] = [4096.0, 131_072.0, 1_048_576.0, 16_777_216.0];

/// A picture that is being drawn.
pub(crate) struct Svg(String);

impl Svg {
    pub(crate) fn open(class: &str, title: &str, width: f64, height: f64) -> Self {
        Self(format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(title)
        ))
    }

    pub(crate) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    pub(crate) fn path(&mut self, class: &str, d: &str) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    pub(crate) fn titled(&mut self, element: &str, title: &str) {
        let _ = write!(self.0, "<{element}><title>{}</title>", escaped(title));
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = write!(
            self.0,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        );
    }

    fn upright(&mut self, middle: f64, text: &str) {
        let _ = write!(
            self.0,
            "<text class=\"label\" transform=\"translate(13 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escaped(text)
        );
    }

    fn upright_rule(&mut self, x: f64, bottom: f64, name: &str) {
        self.path("rule", &format!("M{x:.1} {TOP}V{bottom}"));
        let (anchor, side) = if x > WIDTH / 2.0 {
            ("end", -5.0)
        } else {
            ("start", 5.0)
        };
        self.text("rule-name", x + side, TOP + 10.0, anchor, name);
    }

    pub(crate) fn close(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }
}

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Bytes,
    Number,
    Share,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds => plain(&duration(value.max(0.0).round() as u64)),
            Unit::Bytes => size(value.max(0.0).round() as u64),
            Unit::Number if value >= 1e6 => plain(&figure(value / 1e6)) + "M",
            Unit::Number if value >= 1e5 => plain(&figure(value / 1e3)) + "k",
            Unit::Number => plain(&figure(value)),
            Unit::Share if value > 0.0 && value < 0.001 => format!("{value:.0e}"),
            Unit::Share => plain(&figure(value)),
        }
    }
}

/// `10 µs` for `10.0 µs`: a tick label omits insignificant digits.
fn plain(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    label: String,
    unit: Unit,
    log: bool,
    ticks: Vec<f64>,
    range: Option<[f64; 2]>,
}

impl Axis {
    pub(crate) fn new(label: &str, unit: Unit, log: bool) -> Self {
        Self {
            label: label.to_owned(),
            unit,
            log,
            ticks: Vec::new(),
            range: None,
        }
    }

    /// An axis of block sizes, with a mark at each size.
    pub(crate) fn of_sizes(sizes: &[u64]) -> Self {
        let ticks = sizes.iter().map(|bytes| *bytes as f64).collect();
        Self {
            ticks,
            ..Self::new("Block size", Unit::Bytes, true)
        }
    }

    /// An axis shared by several charts, which covers the points of all; logarithmic, if allowed,
    /// when they differ by more than a factor of ten.
    pub(crate) fn over<'a>(
        label: &str,
        may_be_log: bool,
        points: impl Iterator<Item = &'a Point>,
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for point in points {
            most = most.max(point.ci95.map_or(point.y, |[_, high]| high.max(point.y)));
            if point.y > 0.0 {
                least = least.min(point.y);
            }
        }
        let log = may_be_log && least.is_finite() && most / least >= 10.0;
        let decade = |exponent: f64| 10f64.powf(exponent);
        let range = if log {
            [decade(least.log10().floor()), decade(most.log10().ceil())]
        } else {
            [0.0, most]
        };
        Self {
            range: Some(range),
            ..Self::new(label, Unit::Number, log)
        }
    }

    fn title(&self) -> String {
        let log = if self.log { " (log scale)" } else { "" };
        format!("{}{log}", self.label)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    pub ci95: Ci95,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, ci95: None }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    pub name: String,
    pub style: usize,
    pub dashed: bool,
    pub marked: bool,
    pub points: Vec<Point>,
}

impl Curve {
    /// A line without marks.
    pub(crate) fn plain(name: &str, style: usize, points: &[(f64, f64)]) -> Self {
        Self {
            name: name.to_owned(),
            style,
            points: points.iter().copied().map(Point::from).collect(),
            ..Self::default()
        }
    }
}

struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, axis: &Axis, from: f64, to: f64) -> Self {
        let mut scale = Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            log: axis.log,
            from,
            to,
            ticks: axis.ticks.clone(),
        };
        if let (Some(first), Some(last)) = (axis.ticks.first(), axis.ticks.last()) {
            (scale.low, scale.high) = (*first, *last);
            (scale.from, scale.to) = (from + MARGIN, to - MARGIN);
            return scale;
        }
        let values = values.chain(axis.range.into_iter().flatten());
        for value in values.filter(|v| v.is_finite() && (!axis.log || *v > 0.0)) {
            (scale.low, scale.high) = (scale.low.min(value), scale.high.max(value));
        }
        if !scale.low.is_finite() {
            (scale.low, scale.high) = (1.0, 10.0);
        }
        if axis.log {
            scale.round_to_thirds_of_decades()
        } else {
            scale.round_to_steps()
        }
        scale
    }

    fn round_to_steps(&mut self) {
        self.low = self.low.min(0.0);
        let step = step(self.high - self.low);
        self.high = ((self.high / step).ceil() * step).max(self.low + step);
        let count = ((self.high - self.low) / step).round() as u32;
        self.ticks = (0..=count)
            .map(|i| self.low + step * f64::from(i))
            .collect();
    }

    fn round_to_thirds_of_decades(&mut self) {
        // Rounding would otherwise put the end of a whole decade into the next third.
        let third = |value: f64| (value.log10() * 3.0 * 1e9).round() / 1e9;
        self.low = 10f64.powf(third(self.low).floor() / 3.0);
        self.high = 10f64.powf(third(self.high).ceil() / 3.0);
        if self.high <= self.low * 1.01 {
            self.high = self.low * 10.0;
        }
        let factors: &[f64] = match (self.high / self.low).log10() {
            d if d < 1.2 => &[1.0, 2.0, 5.0],
            d if d < 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let every = ((last - first) / 8 + 1).max(1);
        self.ticks = (first..=last)
            .filter(|exponent| (exponent - first) % every == 0)
            .flat_map(|exponent| factors.iter().map(move |f| f * 10f64.powi(exponent)))
            .filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001)
            .collect();
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // A single value has no scale: it is in the middle.
        let share = if share.is_nan() { 0.5 } else { share };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// The distance of ticks, so that there are about seven.
fn step(span: f64) -> f64 {
    let least = (span / 7.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(least.log10().floor());
    let mut factors = [1.0, 2.0, 5.0].into_iter();
    factors.find(|f| f * power >= least).unwrap_or(10.0) * power
}

fn x_axis(svg: &mut Svg, scale: &Scale, axis: &Axis, bottom: f64) {
    svg.path("axis", &format!("M{LEFT} {bottom}H{RIGHT}"));
    let is_given = !axis.ticks.is_empty();
    for value in &scale.ticks {
        let x = scale.at(*value);
        if is_given {
            svg.path("axis", &format!("M{x:.1} {bottom}v5"))
        } else {
            svg.path("grid", &format!("M{x:.1} {TOP}V{bottom}"))
        }
    }
    for (x, label) in labels(scale, axis) {
        svg.text("", x, bottom + 20.0, "middle", &label);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    svg.text("label", middle, bottom + 44.0, "middle", &axis.title());
}

/// As many labels as fit; for sizes first the ends, then the preferred ones.
fn labels(scale: &Scale, axis: &Axis) -> Vec<(f64, String)> {
    let mut order = Vec::new();
    if let ([first, .., last], false) = (scale.ticks.as_slice(), axis.ticks.is_empty()) {
        order.extend([*first, *last]);
        order.extend(PREFERRED.iter().filter(|one| scale.ticks.contains(one)));
    }
    order.extend(&scale.ticks);
    let mut taken: Vec<(f64, f64, String)> = Vec::new();
    for value in order {
        let label = axis.unit.text(value);
        let half = label.chars().count() as f64 * 4.7;
        let x = scale.at(value).min(WIDTH - half);
        let fits = |(at, other, _): &(f64, f64, String)| (at - x).abs() >= half + other + 4.0;
        if taken.iter().all(fits) {
            taken.push((x, half, label));
        }
    }
    taken.into_iter().map(|(x, _, label)| (x, label)).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
    pub x_rule: Option<(f64, &'static str)>,
    pub y_rule: Option<(f64, &'static str)>,
}

impl Chart {
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, curves: Vec<Curve>) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            curves,
            x_rule: None,
            y_rule: None,
        }
    }

    pub(crate) fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let bottom = HEIGHT - BOTTOM;
        let xs = points().map(|point| point.x);
        let ys = points().map(|point| point.y);
        let xs = xs.chain(self.x_rule.map(|(at, _)| at));
        let ys = ys.chain(self.y_rule.map(|(at, _)| at));
        let x = Scale::new(xs, &self.x, LEFT, RIGHT);
        let y = Scale::new(ys, &self.y, bottom, TOP);
        let mut svg = Svg::open("plot", &self.title, WIDTH, HEIGHT);
        x_axis(&mut svg, &x, &self.x, bottom);
        for value in &y.ticks {
            let at = y.at(*value);
            svg.path("grid", &format!("M{LEFT} {at:.1}H{RIGHT}"));
            let label = self.y.unit.text(*value);
            svg.text("", LEFT - 8.0, at + 4.5, "end", &label);
        }
        svg.upright((TOP + bottom) / 2.0, &self.y.title());
        // Grey curves are drawn below coloured ones.
        let mut curves: Vec<&Curve> = self.curves.iter().collect();
        curves.sort_by_key(|curve| curve.style < GREY);
        for curve in curves {
            self.curve(&mut svg, curve, &x, &y);
        }
        if let Some((at, name)) = self.x_rule {
            svg.upright_rule(x.at(at), bottom, name);
        }
        if let Some((at, name)) = self.y_rule {
            let at = y.at(at);
            svg.path("rule", &format!("M{LEFT} {at:.1}H{RIGHT}"));
            svg.text("rule-name", RIGHT - 3.0, at - 4.0, "end", name);
        }
        svg.close()
    }

    fn curve(&self, svg: &mut Svg, curve: &Curve, x: &Scale, y: &Scale) {
        let mut line = String::new();
        for point in &curve.points {
            let letter = if line.is_empty() { 'M' } else { 'L' };
            let _ = write!(line, "{letter}{:.1} {:.1}", x.at(point.x), y.at(point.y));
        }
        let dash = if curve.dashed { " polls" } else { "" };
        svg.raw(&format!("<g class=\"{}\">", class(curve.style)));
        svg.titled(
            &format!("path class=\"line{dash}\" d=\"{line}\""),
            &curve.name,
        );
        svg.raw("</path>");
        for point in curve.points.iter().filter(|_| curve.marked) {
            let (at, up) = (x.at(point.x), y.at(point.y));
            let place = self.x.unit.text(point.x);
            let mut title = format!("{}, {place}: {}", curve.name, figure(point.y));
            let _ = write!(title, " {}", self.y.label);
            if let Some([low, high]) = point.ci95 {
                let _ = write!(title, " (95 %: {} to {})", figure(low), figure(high));
                let (left, low, high) = (at - 4.0, y.at(low), y.at(high));
                let bar = format!("M{left:.1} {high:.1}h8m-4 0V{low:.1}m-4 0h8");
                svg.path("bar", &bar);
            }
            svg.titled("g class=\"point\"", &title);
            svg.raw(&marker(curve.style, at, up));
            svg.raw("</g>");
        }
        svg.raw("</g>");
    }
}

/// A name, a style and the times that it represents.
pub(crate) type BoxRow = (String, usize, BoxPlot);

/// A row for each of `rows`: box, whiskers and outliers.
pub(crate) fn boxes(
    title: &str,
    label: &str,
    rows: &[BoxRow],
    rule: Option<(f64, &str)>,
) -> String {
    let bottom = TOP + 40.0 * rows.len() as f64;
    let ends = rows.iter().flat_map(|row| [row.2.min_ns, row.2.max_ns]);
    let values = ends.map(|ns| ns as f64).chain(rule.map(|(at, _)| at));
    let axis = Axis::new(label, Unit::Nanoseconds, true);
    let x = Scale::new(values, &axis, LEFT, RIGHT);
    let mut svg = Svg::open("plot", title, WIDTH, bottom + BOTTOM);
    x_axis(&mut svg, &x, &axis, bottom);
    for (index, (name, style, plot)) in rows.iter().enumerate() {
        let y = TOP + 40.0 * index as f64 + 27.0;
        let at = |ns: u64| x.at(ns as f64);
        let (low, high) = (at(plot.whisker_low_ns), at(plot.whisker_high_ns));
        let (first, third) = (at(plot.quartile1_ns), at(plot.quartile3_ns));
        let (above, below, median) = (y - 6.0, y - 4.0, at(plot.median_ns));
        svg.text("label", 4.0, y - 11.0, "start", name);
        let [middle, min, max] = [plot.median_ns, plot.min_ns, plot.max_ns].map(duration);
        let outliers = format!("{} outliers of {}", plot.outliers, plot.count);
        svg.titled(
            &format!("g class=\"{}\"", class(*style)),
            &format!("{name}: median {middle}, {min} to {max}, {outliers}"),
        );
        let whiskers = format!("M{low:.1} {y:.1}H{first:.1}M{third:.1} {y:.1}H{high:.1}");
        let caps = format!("M{low:.1} {below:.1}v8M{high:.1} {below:.1}v8");
        svg.path("bar", &(whiskers + &caps));
        let width = (third - first).max(1.0);
        svg.raw(&format!(
            "<rect class=\"box\" x=\"{first:.1}\" y=\"{above:.1}\" width=\"{width:.1}\" height=\"12\"/>"
        ));
        svg.path("line", &format!("M{median:.1} {above:.1}v12"));
        for ns in &plot.high_outliers_ns {
            svg.raw(&circle("mark open", at(*ns), y, 2.4));
        }
        svg.raw("</g>");
    }
    if let Some((at, name)) = rule {
        svg.upright_rule(x.at(at), bottom, name);
    }
    svg.close()
}

/// A bar for each of `rows`, of parts that each have a style and a length in nanoseconds.
pub(crate) fn stacks(title: &str, rows: &[(String, Vec<(usize, f64)>)], names: &[&str]) -> String {
    let is_dense = rows.len() > 8;
    let row_height = if is_dense { 15.0 } else { 42.0 };
    let bottom = TOP + row_height * rows.len() as f64;
    let totals = rows
        .iter()
        .map(|(_, parts)| parts.iter().map(|(_, ns)| ns).sum());
    let axis = Axis::new("Time from the application's call", Unit::Nanoseconds, false);
    let x = Scale::new(totals, &axis, LEFT, RIGHT);
    let mut svg = Svg::open("plot", title, WIDTH, bottom + BOTTOM);
    x_axis(&mut svg, &x, &axis, bottom);
    if is_dense {
        svg.upright((TOP + bottom) / 2.0, "Request");
    }
    for (index, (name, parts)) in rows.iter().enumerate() {
        let y = TOP + row_height * index as f64;
        let (bar_y, height) = if is_dense {
            (y + 2.0, 11.0)
        } else {
            (y + 19.0, 18.0)
        };
        if is_dense {
            svg.text("", LEFT - 6.0, y + 11.0, "end", name)
        } else {
            svg.text("label", 4.0, y + 13.0, "start", name)
        }
        let mut from = 0.0;
        for (style, ns) in parts {
            let (start, end) = (x.at(from), x.at(from + ns));
            from += ns;
            if *ns <= 0.0 {
                continue;
            }
            let (class, width) = (class(*style), (end - start).max(0.3));
            let part = names.get(*style).copied().unwrap_or("");
            svg.titled(
                &format!(
                    "rect class=\"part {class}\" x=\"{start:.2}\" y=\"{bar_y:.1}\" width=\"{width:.2}\" \
                     height=\"{height}\""
                ),
                &format!("{name}, {part}: {}", duration(ns.round() as u64)),
            );
            svg.raw("</rect>");
        }
    }
    svg.close()
}

/// The style of each path: this project's paths have colours, the others are grey; if there are
/// only others, all have colours.
pub(crate) fn styles(names: &[&str]) -> Vec<usize> {
    let is_ours = |name: &str| paths::named(name).is_some_and(PathKind::is_ours);
    let any_ours = names.iter().any(|name| is_ours(name));
    let (mut colours, mut greys) = (0.., GREY..);
    let style = |name: &&str| {
        if !any_ours || is_ours(name) {
            colours.next()
        } else {
            greys.next()
        }
    };
    names.iter().filter_map(style).collect()
}

pub(crate) fn class(style: usize) -> String {
    if style < GREY {
        format!("s{}", style % COLOURS)
    } else {
        "rest".to_owned()
    }
}

/// The symbol before a name in a legend: a piece of its line, with the marker.
pub(crate) fn legend_key(style: usize, polls: bool) -> String {
    let dash = if polls { " polls" } else { "" };
    format!(
        "<svg class=\"key {}\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" aria-hidden=\"true\">\
         <path class=\"line{dash}\" d=\"M1 7H33\"/>{}</svg>",
        class(style),
        marker(style, 17.0, 7.0)
    )
}

/// The symbol before a name in a legend of areas.
pub(crate) fn swatch(style: usize) -> String {
    format!(
        "<svg class=\"key\" viewBox=\"0 0 14 14\" width=\"14\" height=\"14\" aria-hidden=\"true\">\
         <rect class=\"part {}\" width=\"14\" height=\"14\" rx=\"3\"/></svg>",
        class(style)
    )
}

/// A marker that also differs in shape, for readers who cannot distinguish the colours.
fn marker(style: usize, x: f64, y: f64) -> String {
    let shape = |class: &str, x: f64, y: f64, path: &str| {
        format!("<path class=\"{class}\" d=\"M{x:.1} {y:.1}{path}\"/>")
    };
    match style % MARKERS {
        0 => circle("mark", x, y, 4.0),
        1 => shape("mark", x - 3.7, y - 3.7, "h7.4v7.4h-7.4z"),
        2 => shape("mark", x, y - 5.0, "l4.8 8.4h-9.6z"),
        3 => shape("mark", x, y - 5.2, "l5.2 5.2-5.2 5.2-5.2-5.2z"),
        4 => shape("mark", x, y + 5.0, "l4.8-8.4h-9.6z"),
        5 => circle("mark open", x, y, 3.6),
        6 => shape("mark stroke", x - 3.8, y - 3.8, "l7.6 7.6m0-7.6l-7.6 7.6"),
        7 => shape("mark open", x - 3.4, y - 3.4, "h6.8v6.8h-6.8z"),
        _ => shape("mark stroke", x - 5.0, y, "h10m-5-5v10"),
    }
}

fn circle(class: &str, x: f64, y: f64, r: f64) -> String {
    format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>")
}

/// Escapes `text` for markup.
pub(crate) fn escaped(text: &str) -> String {
    let Ok(safe) = filters::escape(text, filters::Html);
    safe.to_string()
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
