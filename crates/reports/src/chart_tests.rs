// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn chart(points: Vec<Point>, x: Axis, y: Axis) -> String {
    let curve = Curve {
        name: "<a&b>".into(),
        style: 3,
        dashed: true,
        marked: true,
        points,
    };
    let mut chart = Chart::new("t <&>", x, y, vec![curve]);
    chart.x_rule = Some((1e6, "deadline"));
    chart.svg()
}

#[test]
fn nothing_is_not_a_number_axes_have_labels_and_names_are_escaped() {
    let cases = [
        vec![],
        vec![(0.0, 0.0)],
        vec![(5.0, 1.0), (5.0, 1.0)],
        vec![(1e3, 1e-5), (1e9, 1.0)],
    ];
    for points in cases {
        let points: Vec<Point> = points.into_iter().map(Point::from).collect();
        for log in [false, true] {
            let x = Axis::new("Time", Unit::Nanoseconds, log);
            let svg = chart(points.clone(), x, Axis::new("Share", Unit::Share, log));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("Time") && svg.contains("Share"));
            assert!(!svg.contains("<&>") && !svg.contains("<a&b>"));
            assert!(svg.matches("<text").count() >= 4, "{svg}");
        }
    }
}

#[test]
fn sizes_have_intervals_and_a_single_size_stands_in_the_middle() {
    for sizes in [vec![], vec![4096u64], vec![4096, 1 << 24]] {
        let point = |bytes: &u64| Point {
            x: *bytes as f64,
            y: *bytes as f64 / 100.0 - 40.0,
            ci95: Some([*bytes as f64 / 110.0, *bytes as f64 / 90.0]),
        };
        let points: Vec<Point> = sizes.iter().map(point).collect();
        let y = Axis::over("MiB/s", true, points.iter());
        let svg = chart(points, Axis::of_sizes(&sizes), y);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("class=\"bar\"").count(), sizes.len());
        assert_eq!(
            svg.contains("cx=\"268.0\"") || svg.contains("M268.0 268v5"),
            sizes.len() == 1
        );
    }
}

#[test]
fn the_thesis_s_sizes_are_labelled_first() {
    let sizes: Vec<u64> = (12..=24).map(|shift| 1 << shift).collect();
    let axis = Axis::of_sizes(&sizes);
    let scale = Scale::new(std::iter::empty(), &axis, LEFT, RIGHT);
    let labels: Vec<String> = labels(&scale, &axis)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    for bytes in PREFERRED {
        assert!(labels.contains(&size(bytes as u64)), "{bytes}: {labels:?}");
    }
}

#[test]
fn an_axis_is_logarithmic_in_whole_decades_where_values_differ_widely() {
    let points = [(1.0, 3.0), (2.0, 400.0)].map(Point::from);
    let scale = |may_be_log| {
        let axis = Axis::over("x", may_be_log, points.iter());
        Scale::new(std::iter::empty(), &axis, 0.0, 1.0)
    };
    let wide = scale(true);
    assert!((wide.low - 1.0).abs() < 1e-9 && (wide.high - 1000.0).abs() < 1e-6);
    assert_eq!(wide.ticks.len(), 4, "{:?}", wide.ticks);
    let linear = scale(false);
    assert_eq!((linear.low, linear.high, linear.log), (0.0, 400.0, false));
}

#[test]
fn each_path_of_ours_has_a_colour_of_its_own_and_the_others_are_grey() {
    let all: Vec<&str> = paths::KINDS.iter().map(|kind| kind.name).collect();
    let styles = styles(&all);
    assert_eq!(styles.len(), all.len());
    let mut ours: Vec<String> = Vec::new();
    for (kind, style) in paths::KINDS.iter().zip(&styles) {
        assert_eq!(class(*style) == "rest", !kind.is_ours(), "{}", kind.name);
        if kind.is_ours() {
            ours.push(class(*style));
        }
    }
    ours.sort();
    ours.dedup();
    let count = paths::KINDS.iter().filter(|kind| kind.is_ours()).count();
    assert_eq!(ours.len(), count);
    // Without paths of this project all are coloured.
    assert_eq!(super::styles(&["block-direct", "ram"]), [0, 1]);
}

#[test]
fn steps_are_round_and_ticks_are_short() {
    assert_eq!(step(3210.0), 500.0);
    assert_eq!(step(100.0), 20.0);
    assert_eq!(plain("10.0 µs"), "10 µs");
    assert_eq!(plain("100 ms"), "100 ms");
    assert_eq!(plain("0.500"), "0.5");
    assert_eq!(plain("2.00"), "2");
    assert_eq!(plain("0 ns"), "0 ns");
}

#[test]
fn boxes_and_stacks_lie_within_the_picture() {
    let plot = BoxPlot::of(&[1_000, 2_000, 3_000, 4_000, 900_000]).unwrap();
    let rows = [("x".to_owned(), 1, plot)];
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
