// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The findings of a check as text. Damage of consecutive nodes is merged into one line.

use crate::shown;
use units::rounded;
use volume::{Finding, Node};

/// The common properties of a group of findings: which nodes, and whether they are damaged.
type Common = (&'static str, bool);

/// The group of a finding, and its number in the group.
const fn common(finding: &Finding) -> Option<(Common, u32)> {
    let (node, is_damage) = match finding {
        Finding::Damaged(node) => (node, true),
        Finding::OneCopy(node) => (node, false),
        _ => return None,
    };
    match node {
        Node::Slot(slot) => Some((("file slots", is_damage), *slot)),
        Node::Bitmap(group) => Some((("the bitmaps of groups", is_damage), *group)),
        _ => None,
    }
}

fn words((nodes, is_damage): Common, first: u32, last: u32) -> String {
    if is_damage {
        format!("{nodes} {first} to {last} are damaged")
    } else {
        format!("{nodes} {first} to {last} each have one invalid copy; the other is used")
    }
}

/// Findings as lines. `name` returns the name of the file in a slot.
pub fn lines(
    findings: &[Finding],
    unit_bytes: u64,
    name: &dyn Fn(u32) -> Option<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = findings;
    while let Some(first) = rest.first() {
        let group = common(first);
        let continues = |(count, finding): &(usize, &Finding)| match (group, common(finding)) {
            (Some((group, from)), Some((other, number))) => {
                group == other && number.checked_sub(from) == u32::try_from(*count).ok()
            }
            _ => *count == 0,
        };
        let len = rest.iter().enumerate().take_while(continues).count().max(1);
        lines.push(match group {
            Some((group, from)) if len > 1 => words(group, from, from + len as u32 - 1),
            _ => line(first, unit_bytes, name),
        });
        rest = rest.get(len..).unwrap_or_default();
    }
    lines
}

fn line(finding: &Finding, unit_bytes: u64, name: &dyn Fn(u32) -> Option<String>) -> String {
    match finding {
        Finding::Reserved { slot, units } => {
            let file = match name(*slot) {
                Some(name) => format!("`{}`", shown(&name)),
                None => format!("the file in slot {slot}"),
            };
            format!(
                "{file}: {} reserved by a writer that was interrupted; the next command that writes \
                 to the volume frees them",
                rounded(units.saturating_mul(unit_bytes))
            )
        }
        Finding::Revived { slot } => {
            let file = match name(*slot) {
                Some(name) => format!("`{}`", shown(&name)),
                None => format!("the file in slot {slot}"),
            };
            format!(
                "{file} was removed or renamed and is shown again: one copy of its slot is invalid, \
                 the other is old, and its units are free or another file's; a repair frees the slot"
            )
        }
        Finding::Unfinished { .. } => {
            format!("{finding}; the next command that writes to the volume completes or undoes it")
        }
        other => other.to_string(),
    }
}

/// Formats sorted slots as ranges.
pub fn slots(slots: &[u32]) -> Vec<String> {
    let runs = slots.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let text = |run: &[u32]| match run {
        [only] => format!("file slot {only}"),
        [first, .., last] => format!("file slots {first} to {last}"),
        [] => String::new(),
    };
    runs.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_line() {
        let mut findings: Vec<Finding> = (3..1000)
            .map(|slot| Finding::Damaged(Node::Slot(slot)))
            .collect();
        findings.push(Finding::Damaged(Node::Slot(1001)));
        findings.extend([7, 8].map(|slot| Finding::OneCopy(Node::Slot(slot))));
        findings.extend([9, 10].map(|group| Finding::Damaged(Node::Bitmap(group))));
        findings.extend([0, 1].map(|group| Finding::Leaked { group, units: 2 }));
        findings.push(Finding::Reserved { slot: 5, units: 3 });
        let name = |slot: u32| (slot == 5).then(|| "a\nb".to_owned());
        assert_eq!(
            lines(&findings, 4096, &name),
            [
                "file slots 3 to 999 are damaged",
                "file slot 1001 is damaged",
                "file slots 7 to 8 each have one invalid copy; the other is used",
                "the bitmaps of groups 9 to 10 are damaged",
                "2 units in group 0 are marked but belong to no file",
                "2 units in group 1 are marked but belong to no file",
                "`a\\nb`: 12.0 KiB reserved by a writer that was interrupted; the next command that \
                 writes to the volume frees them",
            ]
        );
    }

    #[test]
    fn slots_are_ranges() {
        assert_eq!(slots(&[]), [""; 0]);
        assert_eq!(
            slots(&[0, 1, 2, 5, 7, 8]),
            ["file slots 0 to 2", "file slot 5", "file slots 7 to 8"]
        );
    }
}
