// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupt counts, from `/proc/interrupts`.
//!
//! A line is `NUMBER: count-per-processor... chip hardware-number action, action`. The kernel's
//! NVMe driver names its lines `nvme0q1`; VFIO names them `vfio-msix[0](0000:01:00.0)`.

/// The interrupts of all processors on lines with an action that `matches`, or `None` if there is
/// no such line: no line is not the same as no interrupts.
pub fn count(text: &str, matches: impl Fn(&str) -> bool) -> Option<u64> {
    let mut total = None;
    for line in lines(text) {
        if line.actions.split(',').any(|action| matches(action.trim())) {
            total = Some(total.unwrap_or(0) + line.count);
        }
    }
    total
}

/// Matches the queues of a kernel NVMe controller, such as `nvme0`, including its admin queue.
pub fn is_nvme_queue_of(controller: &str) -> impl Fn(&str) -> bool {
    move |action| {
        action
            .strip_prefix(controller)
            .and_then(|rest| rest.strip_prefix('q'))
            .is_some_and(|queue| !queue.is_empty() && queue.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Matches the VFIO interrupts of a PCI function, such as `0000:01:00.0`.
pub fn is_vfio_of(address: &str) -> impl Fn(&str) -> bool {
    move |action| {
        action.starts_with("vfio-")
            && action
                .strip_suffix(')')
                .and_then(|rest| rest.rsplit_once('('))
                .is_some_and(|(_, of)| of == address)
    }
}

/// One line of `/proc/interrupts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number, or a name such as `NMI`.
    pub name: &'a str,
    /// Sum over processors.
    pub count: u64,
    /// The rest after the counts and the chip: hardware number and actions, or a description.
    pub actions: &'a str,
}

/// The lines of `/proc/interrupts` without its header.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    // The header names each processor that has a column.
    let columns = text
        .lines()
        .next()
        .map_or(0, |header| header.split_ascii_whitespace().count());
    text.lines().skip(1).filter_map(move |line| {
        let (name, mut rest) = line.split_once(':')?;
        let mut count = 0u64;
        for _ in 0..columns {
            let trimmed = rest.trim_start();
            let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
            // Lines such as ERR have fewer columns than there are processors.
            let Ok(value) = trimmed.get(..end)?.parse::<u64>() else {
                break;
            };
            count = count.saturating_add(value);
            rest = trimmed.get(end..)?;
        }
        // Chip, hardware number with its trigger, then the actions, with two spaces between.
        let actions = match rest.trim().rsplit_once("  ") {
            Some((_, actions)) => actions,
            None => rest.trim(),
        };
        // "IR-PCI-MSIX-0000:01:00.0   1-edge      nvme0q1" has wide gaps; a narrow "1-edge nvme0q1"
        // is recognised by the trigger's name.
        let actions = ["-edge ", "-level ", "-fasteoi "]
            .iter()
            .find_map(|trigger| actions.split_once(trigger))
            .map_or(actions, |(_, after)| after);
        let (name, actions) = (name.trim(), actions.trim());
        Some(Line {
            name,
            count,
            actions,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "            CPU0       CPU1       
   1:          9          0   IO-APIC   1-edge      i8042
  24:         10          0  PCI-MSIX-0000:01:00.0   0-edge      nvme0q0
  25:        100          7  PCI-MSIX-0000:01:00.0   1-edge      nvme0q1
  26:          1        200  PCI-MSIX-0000:01:00.0   2-edge      nvme0q2
  27:          5          5  PCI-MSIX-0000:02:00.0   1-edge      nvme10q1
  28:         40          2  IR-PCI-MSIX-0000:03:00.0    0-edge      vfio-msix[0](0000:03:00.0)
  29:          3          0  IR-PCI-MSI 524288-edge vfio-msi[0](0000:04:00.0)
  30:          2          2  GICv3 63 Level     timer, nvme2q0, nvme2q1
 NMI:          4          4   Non-maskable interrupts
 ERR:          6
";

    #[test]
    fn a_controller_s_queues_are_summed_over_processors() {
        assert_eq!(count(TEXT, is_nvme_queue_of("nvme0")), Some(10 + 107 + 201));
        assert_eq!(count(TEXT, is_nvme_queue_of("nvme1")), None);
        assert_eq!(count(TEXT, is_nvme_queue_of("nvme10")), Some(10));
    }

    #[test]
    fn a_shared_line_counts_once() {
        assert_eq!(count(TEXT, is_nvme_queue_of("nvme2")), Some(4));
    }

    #[test]
    fn vfio_lines_are_found_by_address() {
        assert_eq!(count(TEXT, is_vfio_of("0000:03:00.0")), Some(42));
        assert_eq!(count(TEXT, is_vfio_of("0000:04:00.0")), Some(3));
        assert_eq!(count(TEXT, is_vfio_of("0000:01:00.0")), None);
    }

    #[test]
    fn short_and_named_lines_are_read() {
        let by_name = |name| lines(TEXT).find(|line| line.name == name).unwrap();
        assert_eq!(by_name("ERR").count, 6);
        assert_eq!(by_name("NMI").count, 8);
        assert_eq!(lines("").count(), 0);
    }
}
