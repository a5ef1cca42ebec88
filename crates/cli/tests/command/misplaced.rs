// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a list of gaps that are valid, and not its own: as a misplaced write leaves them.

use crate::contradicted::{lossy, said_by_all, said_by_each};
use crate::support::{Folder, get, names, ok, run, stderr, volume};

/// A line of a list of gaps: the offset, the bytes that are missing, and the time.
fn gap_line([offset, lost, at_us]: [u64; 3], number: usize) -> Vec<u8> {
    let body = format!("{offset:>18} {lost:>15} {at_us:>13} {:>4} ", 1);
    let sum = volume::checksum::crc32c(0, body.as_bytes());
    let sum = volume::checksum::crc32c(sum, &(number as u64).to_le_bytes());
    format!("{body}#{sum:08x}\n").into_bytes()
}

/// The line of another recording's list that has the same number: its checksum is right.
#[test]
fn a_line_of_another_list_of_gaps_is_noticed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take", &[]);
    let lines = get(&device, "take.gaps", &[]);
    assert!(lines.len() >= 192, "{} bytes", lines.len());
    let image = std::fs::read(&device).unwrap();
    let first = image.windows(64).position(|part| part == &lines[..64]);
    let first = first.unwrap();
    let check = |status: i32| {
        let output = run(&["check", &device]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        said
    };
    check(0);
    let with = |number: usize, numbers: [u64; 3]| {
        let mut other = image.clone();
        let at = first + 64 * number;
        other[at..at + 64].copy_from_slice(&gap_line(numbers, number));
        std::fs::write(&device, other).unwrap();
    };
    let text = String::from_utf8(lines.clone()).unwrap();
    let numbers = |line: &str| -> Vec<u64> {
        let numbers = line.split_whitespace().take(4);
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    let second = numbers(text.lines().nth(1).unwrap());
    // The one behind it began before it.
    with(1, [second[0], 65536, 1 << 40]);
    let said = check(0);
    let what = "`take.gaps`: line 3 is of a gap that began before that of the line before it";
    assert!(said.contains(what), "{said}");
    // It is behind the end.
    let last = text.lines().count() - 1;
    let late = numbers(text.lines().last().unwrap())[2];
    with(last, [1 << 30, 65536, late]);
    let said = check(0);
    let what = format!(
        "`take.gaps`: line {} is left out: it is of a gap behind",
        last + 1
    );
    assert!(said.contains(&what), "{said}");
}

/// Only a power cut leaves a line behind the end, and of the last segment only.
#[test]
fn a_gap_behind_the_end_of_a_segment_that_another_follows_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let model = format!("model:64MiB,file={device},latency=20ms");
    // A busy machine needs longer for the change to another segment.
    let list = ["24M", "48M", "96M"].into_iter().find_map(|size| {
        let words = [
            "record", &model, "take", "--from", "pattern", "--rate", "8M", "--size", size,
        ];
        let more = [
            "--segment",
            "128K",
            "--buffers",
            "2",
            "--block",
            "64K",
            "--policy",
            "drop",
        ];
        let recorded = run(&[&words[..], &more].concat());
        assert_eq!(recorded.status.code(), Some(7), "{}", stderr(&recorded));
        let all = names(&device);
        let last = all.iter().filter(|name| !name.ends_with(".gaps")).max();
        let is_followed = |list: &&String| {
            let of = list.strip_suffix(".gaps");
            of.is_some_and(|of| Some(of) < last.map(String::as_str))
        };
        let list = all.iter().find(is_followed).cloned();
        if list.is_none() {
            ok(&["rm", &device, "take.*"]);
        }
        list
    });
    let list = &list.unwrap();
    said_by_each(&folder, &device, 0, 7);
    let lines = get(&device, list, &[]);
    let mut image = std::fs::read(&device).unwrap();
    let number = lines.len() / 64 - 1;
    let last = &lines[64 * number..];
    let at = image.windows(64).position(|part| part == last).unwrap();
    image[at..at + 64].copy_from_slice(&gap_line([1 << 30, 65536, 1 << 40], number));
    std::fs::write(&device, image).unwrap();
    let line = number + 1;
    let what = format!("`{list}`: line {line} is of a gap behind the end of `");
    assert!(said_by_all(&folder, &device, 7).contains(&what));
}
