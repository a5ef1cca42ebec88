//! Plots as inline SVG beside those of a comparison: curves, boxes and stacked parts.
//!
//! As in [`crate::plot`], looks are the page's (classes `s0` to `s9`); every plot has a title for
//! those who cannot see it, both axes with units, and its data as tooltips where that helps.

use crate::distribution::BoxPlot;
use crate::format::{duration, figure, size};
use crate::plot::{class, escaped};
use std::fmt::Write;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 52.0;

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// A bare number.
    Number,
    /// A share, from 0 to 1.
    Share,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds => plain(&duration(value.max(0.0).round() as u64)),
            Unit::Bytes => size(value.max(0.0).round() as u64),
            // Beside an axis there is no room for more on a small screen.
            Unit::Number if value >= 1e6 => plain(&figure(value / 1e6)) + "M",
            Unit::Number if value >= 1e4 => plain(&figure(value / 1e3)) + "k",
            Unit::Number => plain(&figure(value)),
            Unit::Share if value > 0.0 && value < 0.001 => format!("{value:.0e}"),
            Unit::Share => plain(&figure(value)),
        }
    }
}

/// `10 µs` for `10.0 µs`: a tick is exact without its zeroes.
fn plain(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    match unit {
        "" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How its values are written.
    pub unit: Unit,
    /// Whether it is logarithmic; linear axes start at 0.
    pub log: bool,
}

impl Axis {
    /// An axis.
    pub fn new(label: impl Into<String>, unit: Unit, log: bool) -> Self {
        Self {
            label: label.into(),
            unit,
            log,
        }
    }
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name, for the tooltip.
    pub name: String,
    /// Its looks.
    pub style: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether its points are marked.
    pub marked: bool,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// A plot of curves.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Read to those who cannot see it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A line across, with its name: a deadline.
    pub x_rule: Option<(f64, String)>,
    /// A line along, with its name.
    pub y_rule: Option<(f64, String)>,
}

/// Values to places on an axis.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (mut low, mut high) = usable
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if !low.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        if log {
            low = 10f64.powf((low.log10() * 3.0).floor() / 3.0);
            high = 10f64.powf((high.log10() * 3.0).ceil() / 3.0);
            if high <= low * 1.01 {
                high = low * 10.0;
            }
        } else {
            low = low.min(0.0);
            let step = step(high - low);
            high = ((high / step).ceil() * step).max(low + step);
        }
        Self {
            low,
            high,
            log,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            let value = value.max(self.low);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = step(self.high - self.low);
            let count = ((self.high - self.low) / step).round() as u32;
            return (0..=count)
                .map(|i| self.low + step * f64::from(i))
                .collect();
        }
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = match decades {
            d if d < 1.2 => &[1.0, 2.0, 5.0],
            d if d < 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let every = ((last - first) / 8 + 1).max(1);
        (first..=last)
            .filter(|exponent| (exponent - first) % every == 0)
            .flat_map(|exponent| factors.iter().map(move |f| f * 10f64.powi(exponent)))
            .filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001)
            .collect()
    }
}

fn step(span: f64) -> f64 {
    let least = (span / 6.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * power >= least);
    factor.unwrap_or(10.0) * power
}

// Writing to a String cannot fail, here and below.
fn open(title: &str, height: f64) -> String {
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escaped(title)
    )
}

fn x_axis(svg: &mut String, scale: &Scale, axis: &Axis, bottom: f64, top: f64, height: f64) {
    let right = WIDTH - RIGHT;
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>");
    let mut last = f64::NEG_INFINITY;
    for value in scale.ticks() {
        let x = scale.at(value);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>");
        let label = axis.unit.text(value);
        let half = label.chars().count() as f64 * 4.7;
        // The last one may not fit under its tick: it ends at the edge.
        let x = x.min(WIDTH - half);
        if x - half < last + 4.0 {
            continue;
        }
        last = x + half;
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 20.0
        );
    }
    let log = if axis.log { " (log scale)" } else { "" };
    let _ = write!(
        svg,
        "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{log}</text>",
        (LEFT + right) / 2.0,
        height - 8.0,
        escaped(&axis.label)
    );
}

impl Chart {
    /// The `<svg>` element.
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let rule = |rule: &Option<(f64, String)>| rule.as_ref().map(|(at, _)| *at);
        let xs = points().map(|(x, _)| *x).chain(rule(&self.x_rule));
        let ys = points().map(|(_, y)| *y).chain(rule(&self.y_rule));
        let x = Scale::new(xs, self.x.log, LEFT, right);
        let y = Scale::new(ys, self.y.log, bottom, TOP);
        let mut svg = open(&self.title, HEIGHT);
        x_axis(&mut svg, &x, &self.x, bottom, TOP, HEIGHT);
        for value in y.ticks() {
            let at = y.at(value);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.5,
                self.y.unit.text(value)
            );
        }
        let log = if self.y.log { " (log scale)" } else { "" };
        let _ = write!(
            svg,
            "<text class=\"label\" transform=\"translate(13 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}{log}</text>",
            (TOP + bottom) / 2.0,
            escaped(&self.y.label)
        );
        for curve in &self.curves {
            self.curve(&mut svg, curve, &x, &y);
        }
        if let Some((at, name)) = &self.x_rule {
            let at = x.at(*at);
            let (anchor, side) = if at > WIDTH / 2.0 {
                ("end", -5.0)
            } else {
                ("start", 5.0)
            };
            let _ = write!(
                svg,
                "<path class=\"rule\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text class=\"rule-name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                at + side,
                TOP + 10.0,
                escaped(name)
            );
        }
        if let Some((at, name)) = &self.y_rule {
            let at = y.at(*at);
            let _ = write!(
                svg,
                "<path class=\"rule\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text class=\"rule-name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                right - 3.0,
                at - 4.0,
                escaped(name)
            );
        }
        svg.push_str("</svg>");
        svg
    }

    fn curve(&self, svg: &mut String, curve: &Curve, x: &Scale, y: &Scale) {
        let dash = if curve.dashed { " polls" } else { "" };
        let _ = write!(
            svg,
            "<g class=\"{}\"><path class=\"line{dash}\" d=\"",
            class(curve.style)
        );
        for (index, (px, py)) in curve.points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(svg, "{letter}{:.1} {:.1}", x.at(*px), y.at(*py));
        }
        let _ = write!(svg, "\"><title>{}</title></path>", escaped(&curve.name));
        if curve.marked {
            for (px, py) in &curve.points {
                let _ = write!(
                    svg,
                    "<circle class=\"mark\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.4\"><title>{}, {}: {}</title></circle>",
                    x.at(*px),
                    y.at(*py),
                    escaped(&curve.name),
                    self.x.unit.text(*px),
                    self.y.unit.text(*py)
                );
            }
        }
        svg.push_str("</g>");
    }
}

/// A row of a plot of boxes.
#[derive(Clone, Debug)]
pub struct BoxRow {
    /// Its name.
    pub name: String,
    /// Its looks.
    pub style: usize,
    /// The box.
    pub plot: BoxPlot,
}

/// Boxes one below another over a logarithmic axis of time, outliers as dots.
pub fn boxes(title: &str, label: &str, rows: &[BoxRow], rule: Option<(f64, &str)>) -> String {
    let height = TOP + 40.0 * rows.len() as f64 + BOTTOM;
    let bottom = height - BOTTOM;
    let values = rows
        .iter()
        .flat_map(|row| [row.plot.min_ns as f64, row.plot.max_ns as f64]);
    let x = Scale::new(
        values.chain(rule.map(|(at, _)| at)),
        true,
        LEFT,
        WIDTH - RIGHT,
    );
    let mut svg = open(title, height);
    let axis = Axis::new(label, Unit::Nanoseconds, true);
    x_axis(&mut svg, &x, &axis, bottom, TOP, height);
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + 40.0 * index as f64 + 27.0;
        let plot = &row.plot;
        let at = |ns: u64| x.at(ns as f64);
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"4\" y=\"{:.1}\">{}</text><g class=\"s{}\"><title>{}: median {}, \
             {} to {}, {} outliers of {}</title>\
             <path class=\"bar\" d=\"M{:.1} {y:.1}H{:.1}M{:.1} {y:.1}H{:.1}M{:.1} {:.1}v8M{:.1} {:.1}v8\"/>\
             <rect class=\"box\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
             <path class=\"line\" d=\"M{:.1} {:.1}v12\"/>",
            y - 11.0,
            escaped(&row.name),
            row.style % 10,
            escaped(&row.name),
            duration(plot.median_ns),
            duration(plot.min_ns),
            duration(plot.max_ns),
            plot.outliers,
            plot.count,
            at(plot.whisker_low_ns),
            at(plot.quartile1_ns),
            at(plot.quartile3_ns),
            at(plot.whisker_high_ns),
            at(plot.whisker_low_ns),
            y - 4.0,
            at(plot.whisker_high_ns),
            y - 4.0,
            at(plot.quartile1_ns),
            y - 6.0,
            (at(plot.quartile3_ns) - at(plot.quartile1_ns)).max(1.0),
            at(plot.median_ns),
            y - 6.0
        );
        for ns in &plot.high_outliers_ns {
            let _ = write!(
                svg,
                "<circle class=\"mark open\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.4\"/>",
                at(*ns)
            );
        }
        svg.push_str("</g>");
    }
    if let Some((at, name)) = rule {
        let at = x.at(at);
        let _ = write!(
            svg,
            "<path class=\"rule\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
             <text class=\"rule-name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at - 4.0,
            TOP - 2.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Rows of parts, one after another along a linear axis of time: a request's way through the
/// machine. `parts` are (looks, nanoseconds).
pub fn stacks(title: &str, rows: &[(String, Vec<(usize, f64)>)], names: &[&str]) -> String {
    let row_height = if rows.len() > 8 { 15.0 } else { 42.0 };
    let height = TOP + row_height * rows.len() as f64 + BOTTOM;
    let bottom = height - BOTTOM;
    let total = |row: &(String, Vec<(usize, f64)>)| row.1.iter().map(|(_, ns)| ns).sum::<f64>();
    let x = Scale::new(rows.iter().map(total), false, LEFT, WIDTH - RIGHT);
    let mut svg = open(title, height);
    let axis = Axis::new("Time from the application's call", Unit::Nanoseconds, false);
    x_axis(&mut svg, &x, &axis, bottom, TOP, height);
    if row_height < 20.0 {
        let _ = write!(
            svg,
            "<text class=\"label\" transform=\"translate(13 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">Request</text>",
            (TOP + bottom) / 2.0
        );
    }
    for (index, (name, parts)) in rows.iter().enumerate() {
        let y = TOP + row_height * index as f64;
        let (bar_y, bar_height) = if row_height > 20.0 {
            let _ = write!(
                svg,
                "<text class=\"label\" x=\"4\" y=\"{:.1}\">{}</text>",
                y + 13.0,
                escaped(name)
            );
            (y + 19.0, 18.0)
        } else {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 11.0,
                escaped(name)
            );
            (y + 2.0, 11.0)
        };
        let mut from = 0.0;
        for (style, ns) in parts {
            let (start, end) = (x.at(from), x.at(from + ns));
            from += ns;
            if *ns <= 0.0 {
                continue;
            }
            let _ = write!(
                svg,
                "<rect class=\"part s{}\" x=\"{start:.2}\" y=\"{bar_y:.1}\" width=\"{:.2}\" \
                 height=\"{bar_height}\"><title>{}, {}: {}</title></rect>",
                style % 10,
                (end - start).max(0.3),
                escaped(name),
                escaped(names.get(*style).copied().unwrap_or("")),
                duration(ns.round() as u64)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A coloured square, for a legend of parts.
pub fn swatch(style: usize) -> String {
    format!(
        "<svg class=\"key\" viewBox=\"0 0 14 14\" width=\"14\" height=\"14\" aria-hidden=\"true\">\
         <rect class=\"part s{}\" width=\"14\" height=\"14\" rx=\"3\"/></svg>",
        style % 10
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, log: bool) -> String {
        Chart {
            title: "t <&>".into(),
            x: Axis::new("Time", Unit::Nanoseconds, log),
            y: Axis::new("Share", Unit::Share, log),
            curves: vec![Curve {
                name: "a".into(),
                style: 0,
                dashed: false,
                marked: true,
                points,
            }],
            x_rule: Some((1e6, "deadline".into())),
            y_rule: None,
        }
        .svg()
    }

    #[test]
    fn nothing_is_not_a_number_and_axes_have_labels() {
        let cases = [
            vec![],
            vec![(0.0, 0.0)],
            vec![(5.0, 1.0), (5.0, 1.0)],
            vec![(1e3, 1e-5), (1e9, 1.0)],
        ];
        for points in cases {
            for log in [false, true] {
                let svg = chart(points.clone(), log);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("Time") && svg.contains("Share") && !svg.contains("<&>"));
                assert!(svg.matches("<text").count() >= 4, "{svg}");
            }
        }
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(plain("10.0 µs"), "10 µs");
        assert_eq!(plain("100 ms"), "100 ms");
        assert_eq!(plain("0.500"), "0.5");
        assert_eq!(plain("2.00"), "2");
        assert_eq!(plain("0 ns"), "0 ns");
    }

    #[test]
    fn boxes_and_stacks_lie_within_the_picture() {
        let plot = BoxPlot::of(&[1_000, 2_000, 3_000, 4_000, 900_000]).unwrap();
        let rows = [BoxRow {
            name: "x".into(),
            style: 1,
            plot,
        }];
        let svg = boxes("t", "Response time", &rows, Some((2_000_000.0, "deadline")));
        assert!(svg.contains("class=\"box\"") && svg.contains("circle"));
        let rows = vec![("a".to_owned(), vec![(0, 10.0), (1, 20.0), (2, 0.0)])];
        let svg = stacks("t", &rows, &["one", "two", "three"]);
        assert_eq!(svg.matches("<rect").count(), 2);
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=WIDTH).contains(&x), "{x}");
        }
    }
}
