// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the events of tracefs.
//!
//! With the `mono` trace clock an event has the time of `CLOCK_MONOTONIC`, like our own stamps:
//!
//! ```text
//! straightway-123   [001] d..1.   123.456789: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, ...
//! ```

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Our process entered a system call.
    Enter,
    /// Our process left a system call.
    Exit,
    /// A command was submitted to the drive.
    Submit,
    /// The driver processed its completion.
    Complete,
    /// The drive's interrupt reached its handler.
    Interrupt,
    /// Our process went to sleep or was preempted.
    Sleep,
    /// Our process was woken up.
    Wake,
    /// Our process runs.
    Resume,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The kind of event.
    pub what: What,
}

/// The thread and the controller whose events are selected.
#[derive(Clone, Debug)]
pub struct Whose {
    /// The thread that calls.
    pub pid: u32,
    /// The device in the events of commands: the controller in the NVMe driver's (`nvme0`), the
    /// number of the disk in the block layer's (`8,0`).
    pub device: String,
    /// Prefix of the drive's interrupt names: `nvme0q`, `chario0q`, `vfio-msix`.
    pub interrupt: String,
}

/// Parses the text of `trace`. Other events and lines are ignored.
pub fn parse(text: &str, whose: &Whose) -> Vec<TraceEvent> {
    let mut events: Vec<TraceEvent> = text.lines().filter_map(|line| event(line, whose)).collect();
    events.sort_by_key(|event| event.at_ns);
    events
}

fn event(line: &str, whose: &Whose) -> Option<TraceEvent> {
    // "TASK-PID [CPU] FLAGS TIME: NAME: FIELDS"; a task's name may have spaces and dashes.
    let (task, rest) = line.split_once(" [")?;
    let pid: u32 = task.trim().rsplit('-').next()?.parse().ok()?;
    let (_, rest) = rest.split_once(']')?;
    let (before, rest) = rest.split_once(": ")?;
    let at_ns = nanoseconds(before.split_ascii_whitespace().last()?)?;
    let (name, fields) = rest.split_once(':')?;
    let field = |key: &str| {
        fields
            .split([' ', ',', '(', ')'])
            .find_map(|word| word.strip_prefix(key))
    };
    let is_ours = |key: &str| field(key).and_then(|n| n.parse().ok()) == Some(whose.pid);
    let what = match name {
        "sys_enter" if pid == whose.pid => What::Enter,
        "sys_exit" if pid == whose.pid => What::Exit,
        "nvme_setup_cmd" | "nvme_complete_rq" => {
            let is_ours = fields
                .trim_start()
                .starts_with(&format!("{}:", whose.device));
            // Queue 0 has admin commands, such as those for counting.
            if !is_ours || field("qid=") == Some("0") {
                return None;
            }
            match name {
                "nvme_setup_cmd" => What::Submit,
                _ => What::Complete,
            }
        }
        "block_rq_issue" | "block_rq_complete" => {
            let fields = fields.trim_start();
            if !fields.starts_with(&format!("{} ", whose.device)) {
                return None;
            }
            match name {
                "block_rq_issue" => What::Submit,
                _ => What::Complete,
            }
        }
        "irq_handler_entry" if field("name=")?.starts_with(&whose.interrupt) => What::Interrupt,
        "sched_waking" | "sched_wakeup" if is_ours("pid=") => What::Wake,
        "sched_switch" if is_ours("next_pid=") => What::Resume,
        "sched_switch" if is_ours("prev_pid=") => What::Sleep,
        _ => return None,
    };
    Some(TraceEvent { at_ns, what })
}

/// "123.456789" seconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|digits| *digits <= 9)?;
    let part: u64 = part.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(part * 10u64.pow(9 - digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
     straightway-123     [001] ....1    12.000001: sys_enter: NR 17 (3, 7f0, 1000, 0, 0, 0)
     straightway-123     [001] ....1    12.000011: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=5, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=8, len=7)
     straightway-123     [001] ....1    12.000012: nvme_setup_cmd: nvme1: disk=nvme1n1, qid=2, cmdid=5
     straightway-123     [001] ....1    12.000013: nvme_setup_cmd: nvme0: disk=, qid=0, cmdid=5
     straightway-123     [001] d..2.    12.000020: sched_switch: prev_comm=straightway prev_pid=123 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0       [001] d.h1.    12.000200: irq_handler_entry: irq=27 name=nvme0q2
          <idle>-0       [000] d.h1.    12.000201: irq_handler_entry: irq=1 name=i8042
          <idle>-0       [001] d.h..    12.000205: nvme_complete_rq: nvme0: disk=nvme0n1, qid=2, cmdid=5, res=0x0
          <idle>-0       [001] dNh2.    12.000210: sched_waking: comm=straightway pid=123 prio=120 target_cpu=001
          <idle>-0       [001] d..2.    12.000220: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=straightway next_pid=123 next_prio=120
 a-b c-d-77 [000] ....1    12.000222: sys_exit: NR 17 = 4096
     straightway-123     [001] ....1    12.000230: sys_exit: NR 17 = 4096
";

    const OF_BLOCK_LAYER: &str = "\
     straightway-123     [000] d..1.    12.000011: block_rq_issue: 8,0 R 4096 () 2048 + 8 [straightway]
     straightway-123     [000] d..1.    12.000012: block_rq_issue: 8,16 R 4096 () 2048 + 8 [straightway]
          <idle>-0       [000] d.h1.    12.000200: irq_handler_entry: irq=27 name=ahci[0000:00:1f.2]
          <idle>-0       [000] ..s1.    12.000205: block_rq_complete: 8,0 R () 2048 + 8 [0]
";

    #[test]
    fn the_block_layer_s_events_are_those_of_the_disk() {
        let whose = Whose {
            pid: 123,
            device: "8,0".into(),
            interrupt: "ahci".into(),
        };
        let whats = parse(OF_BLOCK_LAYER, &whose)
            .into_iter()
            .map(|event| event.what);
        use What::*;
        assert!(whats.eq([Submit, Interrupt, Complete]));
    }

    #[test]
    fn only_our_events_are_taken_in_order() {
        let whose = Whose {
            pid: 123,
            device: "nvme0".into(),
            interrupt: "nvme0q".into(),
        };
        let events = parse(TEXT, &whose);
        let whats: Vec<What> = events.iter().map(|event| event.what).collect();
        use What::*;
        assert_eq!(
            whats,
            [
                Enter, Submit, Sleep, Interrupt, Complete, Wake, Resume, Exit
            ]
        );
        assert_eq!(events[0].at_ns, 12_000_001_000);
        assert!(parse("garbage [x] : y\n\n", &whose).is_empty());
    }
}
