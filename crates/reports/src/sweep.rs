// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a sweep: the paths ranked, how each scales, and fio beside them.

use crate::comparison::{Paths, drive, in_flight, leaders, sure};
use crate::{Page, Reportable, Section};
use measure::advice;
use measure::findings::Merit;
use measure::fio::Agreement;
use measure::format::{distinct, figure, size, with_half};
use measure::schema::PathResult;
use measure::sweep::Sweep;

impl Reportable for Sweep {
    fn page(&self) -> Page<'_> {
        let drive = drive(&self.run);
        let title = format!("The paths to {drive}, from small blocks to large");
        let mut page = Page::new(&self.run, title, lede(self));
        page.answer = self
            .comparisons
            .first()
            .map_or_else(String::new, advice::answer);
        let all = Paths(&self.comparisons);
        page.sections.push(ranked(self));
        page.sections.extend(all.first_sections());
        page.sections.extend(all.by(
            (
                "Operations per second by queue depth",
                "A path that does one operation at a time is constant.",
                "Operations in flight",
            ),
            |one| one.queue_depth,
            |one| one.threads,
        ));
        page.sections.extend(all.by(
            (
                "Operations per second by threads",
                "Each thread has its own part of the data. Paths that only one thread can use are omitted.",
                "Threads",
            ),
            |one| one.threads,
            |one| one.queue_depth,
        ));
        page.sections.extend(beside_fio(self));
        page.sections.extend(all.last_sections());
        let missing = self.comparisons.iter().flat_map(|one| one.missing.clone());
        page.missing(&distinct(missing));
        page.text = Some(text(self));
        page
    }
}

/// The table of each comparison, and fio's results.
fn text(sweep: &Sweep) -> String {
    let mut text = String::new();
    for one in &sweep.comparisons {
        let in_flight = in_flight(one.threads, one.queue_depth);
        text += &format!("In flight: {in_flight}\n\n{}\n", crate::table(one));
    }
    text + &beside_fio(sweep)
        .iter()
        .map(Section::text)
        .collect::<String>()
}

fn agrees(one: &Agreement) -> &'static str {
    match one.agrees {
        Some(true) => "yes",
        Some(false) if one.explained => "differ by fio's own time",
        Some(false) => "NO",
        None => "too few rounds",
    }
}

fn lede(sweep: &Sweep) -> String {
    let ranking = sweep.ranking();
    let Some(first) = ranking.first() else {
        return "No path could be measured.".into();
    };
    let mut text = format!(
        "{} measured with the same offsets in rounds of random order.",
        match ranking.len() {
            1 => "1 path was".to_owned(),
            paths => format!("{paths} paths were"),
        }
    );
    if let Some(win) = sweep.winner(Merit::Speed) {
        let level = if win.level.is_empty() {
            format!("{} was the fastest", win.leader)
        } else {
            format!(
                "{} were the fastest and level with each other: their intervals overlap",
                leaders(&win)
            )
        };
        let (mib_s, ci95) = Merit::Speed.of(first.best);
        text += &format!(
            " {level}; {} reached {} MiB/s in blocks of {}{}.",
            win.leader,
            with_half(mib_s, ci95),
            size(first.best.access.block_size_bytes),
            sure(&win),
        );
    }
    if let Some(win) = sweep.winner(Merit::Efficiency) {
        text += &format!(
            " {} moved the most for {} processor time: up to {} MiB/s per per cent of a core{}.",
            leaders(&win),
            if win.level.is_empty() { "its" } else { "their" },
            figure(win.highest),
            sure(&win),
        );
    }
    text
}

fn ranked(sweep: &Sweep) -> Section {
    let best = |merit: Merit, r: &PathResult| {
        let (value, ci95) = merit.of(r);
        let in_flight = in_flight(r.threads, r.queue_depth);
        [
            with_half(value, ci95),
            format!("{}, {in_flight} in flight", r.access),
        ]
    };
    let first = sweep.winner(Merit::Speed);
    let is_first = |path: &str| first.as_ref().is_some_and(|win| win.best().contains(&path));
    let rows = sweep.ranking().into_iter().enumerate().map(|(rank, one)| {
        let rank = if is_first(one.path) { 1 } else { rank + 1 };
        let mut row = vec![format!("{rank}. {}", one.path)];
        row.extend(best(Merit::Speed, one.best));
        row.extend(best(Merit::Efficiency, one.leanest));
        row
    });
    let caption = "By the highest speed that each reached anywhere. Paths whose 95 % intervals overlap that of \
                   the fastest are level with it, and share its rank.";
    let head = "Path|MiB/s at best|where|MiB/s per CPU % at best|where";
    Section::new("The paths, ranked", caption).table(head, rows)
}

fn beside_fio(sweep: &Sweep) -> Option<Section> {
    if sweep.agreements.is_empty() && sweep.fio_missing.is_empty() {
        return None;
    }
    let rows = sweep.agreements.iter().map(|one| {
        let access = one.access;
        vec![
            format!("{}, {} {}", one.path, access.pattern, access.operation),
            size(access.block_size_bytes),
            one.queue_depth.to_string(),
            with_half(one.ours_mean_mib_s, one.ours_ci95),
            with_half(one.fio_mean_mib_s, one.fio_ci95),
            figure(one.fio_own_percent),
            agrees(one).to_owned(),
        ]
    });
    let caption = "The same cells by our loop and by fio, in turns. They agree if their 95 % intervals overlap, \
         or if the interval of the difference of paired rounds contains 0. fio's rate includes its own \
         computation in user space: a path's rate is between fio's rate and fio's rate without that time.";
    let head = "Path|block|in flight|our loop, MiB/s|fio, MiB/s|fio itself, CPU %|agree";
    let mut section = Section::new("Comparison with fio", caption).table(head, rows);
    if !sweep.fio_missing.is_empty() {
        let missing = sweep.fio_missing.iter().map(|why| vec![why.clone()]);
        section = section.table("Not measured by fio", missing);
    }
    Some(section)
}
