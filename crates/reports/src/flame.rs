// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A call tree as a flame graph: each function is as wide as its share of samples, with its callees
//! above it.

use crate::chart::{GREY, Svg, class};
use measure::profile::{Kind, Node};

const WIDTH: f64 = 1000.0;
const ROW: f64 = 18.0;
const LEFT: f64 = 8.0;
const RIGHT: f64 = 8.0;
const BOTTOM: f64 = 46.0;
/// Narrower functions are omitted, because they would be invisible.
const NARROWEST: f64 = 1.0;
/// Width of a letter.
const LETTER: f64 = 6.6;

/// The style of a kind: memory is cleared in the colour of copying, and what is not known is grey.
pub fn style(kind: Option<Kind>) -> usize {
    match kind.unwrap_or(Kind::Application) {
        Kind::Clearing => Kind::Copying as usize,
        Kind::Unlock => GREY,
        known => known as usize,
    }
}

fn depth(node: &Node) -> usize {
    1 + node.children.iter().map(depth).max().unwrap_or(0)
}

/// The kind with the most samples in a node and its callees.
fn main_kind(node: &Node) -> Option<Kind> {
    if node.kind.is_some() {
        return node.kind;
    }
    let most = node.children.iter().max_by_key(|child| child.samples);
    most.and_then(main_kind)
}

/// Draws the flame graph.
pub fn svg(title: &str, root: &Node) -> String {
    let height = depth(root) as f64 * ROW + BOTTOM + 4.0;
    let mut svg = Svg::open("plot flame", title, WIDTH, height);
    let floor = height - BOTTOM;
    let scale = (WIDTH - LEFT - RIGHT) / root.samples.max(1) as f64;
    draw(&mut svg, root, root.samples, LEFT, floor - ROW, scale);
    let right = WIDTH - RIGHT;
    svg.path("axis", &format!("M{LEFT} {floor}H{right}"));
    for (percent, anchor) in [
        (0, "start"),
        (25, "middle"),
        (50, "middle"),
        (75, "middle"),
        (100, "end"),
    ] {
        let x = LEFT + (right - LEFT) * f64::from(percent) / 100.0;
        svg.text("", x, floor + 17.0, anchor, &format!("{percent} %"));
    }
    let label = "Share of the busy processors' samples, %";
    svg.text("label", WIDTH / 2.0, height - 8.0, "middle", label);
    svg.close()
}

fn draw(svg: &mut Svg, node: &Node, all: u64, x: f64, y: f64, scale: f64) {
    let width = node.samples as f64 * scale;
    if width < NARROWEST {
        return;
    }
    let share = 100.0 * node.samples as f64 / all.max(1) as f64;
    svg.raw(&format!("<g class=\"{}\">", class(style(main_kind(node)))));
    svg.titled(
        &format!(
            "rect class=\"part\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{ROW}\""
        ),
        &format!("{}: {share:.1} %", node.name),
    );
    svg.raw("</rect>");
    let letters = ((width - 6.0) / LETTER) as usize;
    if letters >= 3 {
        let shown: String = if node.name.chars().count() > letters {
            node.name.chars().take(letters - 1).chain(['…']).collect()
        } else {
            node.name.clone()
        };
        svg.text("frame", x + 3.0, y + 13.0, "start", &shown);
    }
    svg.raw("</g>");
    let mut at = x;
    for child in &node.children {
        draw(svg, child, all, at, y - ROW, scale);
        at += child.samples as f64 * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, samples: u64, children: Vec<Node>) -> Node {
        Node {
            name: name.into(),
            samples,
            kind: children.is_empty().then_some(Kind::Copying),
            children,
        }
    }

    #[test]
    fn children_stand_above_their_callers_and_are_as_wide_as_their_share() {
        let root = node(
            "all",
            100,
            vec![node("a<b>", 75, vec![]), node("c", 25, vec![])],
        );
        let svg = svg("x", &root);
        assert!(
            svg.contains("a&#60;b&#62;: 75.0 %") && svg.contains("c: 25.0 %"),
            "{svg}"
        );
        // 984 wide, so the second begins at 8 + 738.
        assert!(
            svg.contains("x=\"746.0\"") && svg.contains("width=\"246.0\""),
            "{svg}"
        );
        assert_eq!(svg.matches("<rect").count(), 3);
    }

    #[test]
    fn what_is_not_known_is_grey() {
        let unknown = Node {
            kind: Some(Kind::Unlock),
            ..node("_raw_spin_unlock", 10, vec![])
        };
        let root = node("all", 20, vec![unknown, node("copy", 10, vec![])]);
        let svg = svg("x", &root);
        assert_eq!(svg.matches("<g class=\"rest\">").count(), 1, "{svg}");
        assert!(svg.contains("<g class=\"s0\">"), "{svg}");
    }

    #[test]
    fn an_empty_tree_and_a_long_name_do_no_harm() {
        assert!(svg("x", &Node::default()).ends_with("</svg>"));
        let root = node(&"long".repeat(100), 10, vec![]);
        assert!(svg("x", &root).contains('…'));
    }
}
