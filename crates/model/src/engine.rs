// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a submission queue entry to its completion, and the faults on the way.

use crate::command::{Command, Outcome, admin, status};
use crate::controller::Controller;
use crate::fault::{Event, FaultKind, WrongId};
use crate::queue::Posting;
use crate::violation::{Access, Violation};

/// A command that was fetched and has not completed.
#[derive(Debug)]
pub(crate) struct Held {
    /// When it continues; never if `None`.
    due: Option<u64>,
    pub(crate) submission: u16,
    pub(crate) id: u16,
    abortable: bool,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Run(Box<Command>, Effects),
    /// The second completion of a command.
    Repeat(Posting),
    /// An asynchronous event request.
    Event,
}

/// The effects of faults on one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects {
    hang: Option<bool>,
    pub(crate) delay: Option<(u64, bool)>,
    status: Option<u16>,
    id: Option<WrongId>,
    invert_phase: bool,
    duplicate: Option<u64>,
    wrong_head: bool,
    wrong_submission: bool,
    silent: bool,
    abort_refused: bool,
}

impl Effects {
    fn add(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::NeverComplete { abortable } => self.hang = Some(abortable),
            FaultKind::Delay {
                delay_us,
                abortable,
            } => self.delay = Some((delay_us, abortable)),
            FaultKind::Status { sct, sc, dnr } => {
                let kind = u16::from(sct & 7) << 8 | u16::from(sc);
                self.status = Some(kind | u16::from(dnr) << 14);
            }
            FaultKind::CommandId(wrong) => self.id = Some(wrong),
            FaultKind::InvertedPhase => self.invert_phase = true,
            FaultKind::Duplicate { delay_us } => self.duplicate = Some(delay_us),
            FaultKind::SubmissionHead => self.wrong_head = true,
            FaultKind::SubmissionId => self.wrong_submission = true,
            FaultKind::DropInterrupt => self.silent = true,
            FaultKind::AbortRefused => self.abort_refused = true,
            _ => {}
        }
    }
}

impl Controller {
    /// Fetches and runs commands until the queue is empty, its completion queue is full, or the
    /// controller stops. Each iteration consumes an entry from the host.
    pub(crate) fn run_queue(&mut self, queue: u16) {
        let index = usize::from(queue);
        loop {
            self.look_at_shadow(queue, false);
            let Some(submission) = &self.submission[index] else {
                return;
            };
            let (next, target) = (submission.next(), submission.completion);
            if !self.is_running() {
                return;
            }
            let Some(place) = next else {
                self.ask_for_doorbell(queue, false);
                match &self.submission[index] {
                    Some(submission) if submission.next().is_some() => continue,
                    _ => return,
                }
            };
            if self.is_completion_queue_full(target) {
                return;
            }
            let Some(words) = self.bus.load(place, Access::Submission) else {
                return;
            };
            if let Some(submission) = &mut self.submission[index] {
                submission.advance();
            }
            self.accept(queue, Command::parse(words));
        }
    }

    fn is_completion_queue_full(&mut self, queue: u16) -> bool {
        let index = usize::from(queue);
        let full = |controller: &Self| {
            let queue = controller.completion[index].as_ref();
            queue.is_none_or(|queue| queue.is_full() || !queue.backlog.is_empty())
        };
        if full(self) {
            self.look_at_shadow(queue, true);
            self.post_backlog(queue);
        }
        if full(self) {
            self.ask_for_doorbell(queue, true);
            self.post_backlog(queue);
        }
        full(self)
    }

    fn accept(&mut self, queue: u16, command: Command) {
        let event = if queue == 0 {
            self.statistics.admin_commands[usize::from(command.opcode)] += 1;
            Event::Admin(command.opcode)
        } else {
            self.statistics.io_commands[usize::from(command.opcode)] += 1;
            Event::Io(command.opcode)
        };
        let mut effects = Effects::default();
        if !self.faults.is_empty() {
            let mut faults = std::mem::take(&mut self.faults);
            faults.count(event, |kind| {
                effects.add(kind);
                self.strike(kind);
            });
            self.faults = faults;
            if !self.is_running() {
                return;
            }
        }
        if self.is_id_in_use(queue, command.cid) {
            let id = command.cid;
            self.violations
                .record(Violation::CommandIdInUse { queue, id });
            let outcome = Err(status::COMMAND_ID_CONFLICT);
            self.post(queue, Posting::new(queue, command.cid, outcome));
            return;
        }
        if self.apply_quirks(queue, &command) {
            effects.hang = Some(false);
        } else if queue != 0 {
            self.wake(&mut effects);
            if !self.is_running() {
                return;
            }
        }
        let (due, abortable) = match (effects.hang, effects.delay) {
            (Some(abortable), _) => (None, abortable),
            (None, Some((delay_us, abortable))) => {
                let due = delay_us.saturating_mul(self.ticks_per_us);
                (Some(self.now.saturating_add(due)), abortable)
            }
            (None, None) => return self.finish(queue, command, effects),
        };
        self.held.push(Held {
            due,
            submission: queue,
            id: command.cid,
            abortable,
            work: Work::Run(Box::new(command), effects),
        });
    }

    fn is_id_in_use(&self, queue: u16, id: u16) -> bool {
        let same = |held: &Held| {
            held.submission == queue && held.id == id && !matches!(held.work, Work::Repeat(_))
        };
        !self.held.is_empty() && self.held.iter().any(same)
    }

    /// Executes the command and completes it.
    fn finish(&mut self, queue: u16, command: Command, effects: Effects) {
        let outcome = match effects.status {
            Some(status) => Err(status),
            None if queue != 0 => self.run_io(&command),
            None => match self.run_admin(&command, effects.abort_refused) {
                Some(outcome) => outcome,
                None => return self.hold_event_request(command.cid),
            },
        };
        if let Err(status) = outcome {
            self.logs.error(queue, &command, status);
        }
        self.complete(queue, command.cid, outcome, effects);
    }

    fn complete(&mut self, queue: u16, id: u16, outcome: Outcome, effects: Effects) {
        let mut posting = Posting::new(queue, id, outcome);
        let submission = self.submission[usize::from(queue)].as_mut();
        let before = submission.and_then(|submission| submission.completed.replace(id));
        match effects.id {
            Some(WrongId::Unknown) => posting.id ^= 0x5555,
            Some(WrongId::Completed) => posting.id = before.unwrap_or(id ^ 0x5555),
            Some(WrongId::OutOfRange) => posting.id = 0xffff,
            None => {}
        }
        posting.head = effects.wrong_head.then_some(0xffff);
        if effects.wrong_submission {
            posting.named_submission = 0xfffe;
        }
        posting.invert_phase = effects.invert_phase;
        posting.silent = effects.silent;
        self.post(queue, posting);
        match effects.duplicate {
            Some(0) => self.post(queue, posting),
            Some(delay_us) => self.held.push(Held {
                due: Some(self.now + delay_us * self.ticks_per_us),
                submission: queue,
                id,
                abortable: false,
                work: Work::Repeat(posting),
            }),
            None => {}
        }
    }

    fn hold_event_request(&mut self, id: u16) {
        self.held.push(Held {
            due: None,
            submission: 0,
            id,
            abortable: true,
            work: Work::Event,
        });
        self.deliver_events();
    }

    /// How many asynchronous event requests, or abort commands, are outstanding.
    pub(crate) fn outstanding(&self, opcode: u8) -> usize {
        let counts = |held: &&Held| match &held.work {
            Work::Event => opcode == admin::ASYNC_EVENT_REQUEST,
            Work::Run(command, _) => held.submission == 0 && command.opcode == opcode,
            Work::Repeat(_) => false,
        };
        self.held.iter().filter(counts).count()
    }

    /// Completes event requests with the waiting events.
    pub(crate) fn deliver_events(&mut self) {
        let is_request = |held: &Held| matches!(held.work, Work::Event);
        while let Some(at) = self.held.iter().position(is_request) {
            let Some(event) = self.logs.next_event() else {
                return;
            };
            let held = self.held.remove(at);
            self.complete(0, held.id, Ok(event), Effects::default());
        }
    }

    /// Ends a held command on Abort; false if it cannot be aborted or does not exist.
    pub(crate) fn abort(&mut self, queue: u16, id: u16) -> bool {
        let wanted = |held: &Held| held.submission == queue && held.id == id && held.abortable;
        let Some(at) = self.held.iter().position(wanted) else {
            return false;
        };
        self.held.remove(at);
        let outcome = Err(status::ABORT_REQUESTED);
        self.complete(queue, id, outcome, Effects::default());
        true
    }

    /// Ends the outstanding commands of a deleted queue.
    pub(crate) fn abort_queue(&mut self, queue: u16) {
        let all = std::mem::take(&mut self.held);
        let (gone, rest) = all.into_iter().partition(|held| held.submission == queue);
        self.held = rest;
        let gone: Vec<Held> = gone;
        for held in gone {
            if matches!(held.work, Work::Run(..)) {
                let outcome = Err(status::ABORTED_DELETION);
                self.complete(queue, held.id, outcome, Effects::default());
            }
        }
    }

    /// Whether the time matters: it does not for a healthy controller without delays.
    pub(crate) fn needs_time(&self) -> bool {
        !self.faults.is_empty()
            || self.config.ready_delay_us != 0
            || !self.config.power_states.is_empty()
            || self.config.quirks != nvme::Quirks::NONE
            || self.next_due() != u64::MAX
    }

    /// Runs everything whose time has come.
    pub(crate) fn catch_up(&mut self, now: u64) {
        self.now = now;
        self.pass_time();
        // Each iteration removes one; a delayed command that runs adds at most one, due later.
        while !self.held.is_empty() && !self.is_dead() {
            let due = |held: &Held| held.due.is_some_and(|due| due <= now);
            let Some(at) = self.held.iter().position(due) else {
                return;
            };
            let held = self.held.remove(at);
            if !self.bus.is_open() {
                self.bus.suppressed += 1;
                continue;
            }
            match held.work {
                Work::Run(command, effects) => self.finish(held.submission, *command, effects),
                Work::Repeat(posting) => self.post(held.submission, posting),
                Work::Event => {}
            }
        }
    }

    /// When the next thing is due.
    pub(crate) fn next_due(&self) -> u64 {
        let alive = !self.is_dead();
        let held = self.held.iter().filter(|_| alive);
        let held = held.filter_map(|held| held.due).min();
        let change = self.change_due();
        held.unwrap_or(u64::MAX).min(change.unwrap_or(u64::MAX))
    }

    /// Posts to the completion queue of submission queue `queue`, now or when there is room.
    pub(crate) fn post(&mut self, queue: u16, posting: Posting) {
        let Some(submission) = &self.submission[usize::from(queue)] else {
            return;
        };
        let target = submission.completion;
        let full = self.is_completion_queue_full(target);
        let Some(completion) = &mut self.completion[usize::from(target)] else {
            return;
        };
        if full {
            completion.backlog.push_back(posting);
        } else {
            self.write_entry(target, posting);
        }
    }

    fn write_entry(&mut self, target: u16, posting: Posting) {
        let submission = self.submission[usize::from(posting.submission)].as_ref();
        let head = submission.map_or(0, |submission| submission.head as u16);
        let Some(completion) = &mut self.completion[usize::from(target)] else {
            return;
        };
        let (place, phase) = completion.take();
        let vector = completion.vector;
        let phase = phase != posting.invert_phase;
        let words = [
            posting.specific,
            0,
            u32::from(posting.head.unwrap_or(head)) | u32::from(posting.named_submission) << 16,
            u32::from(posting.id) | u32::from(phase) << 16 | u32::from(posting.status) << 17,
        ];
        if self.bus.store(place, words, Access::Completion).is_none() {
            return;
        }
        self.statistics.completions += 1;
        self.statistics.errors += u64::from(posting.status != status::SUCCESS);
        match vector {
            Some(_) if posting.silent => self.statistics.interrupts_dropped += 1,
            Some(vector) if !self.is_masked(vector) => {
                self.statistics.interrupts += 1;
                if self.raised.last() != Some(&vector) {
                    self.raised.push(vector);
                }
            }
            _ => {}
        }
    }

    fn post_backlog(&mut self, queue: u16) {
        let index = usize::from(queue);
        while let Some(completion) = &mut self.completion[index] {
            if completion.is_full() {
                return;
            }
            let Some(posting) = completion.backlog.pop_front() else {
                return;
            };
            self.write_entry(queue, posting);
        }
    }

    /// After a completion queue's head moved: posts what waited, and continues with the submission
    /// queues that waited for room.
    pub(crate) fn drain(&mut self, queue: u16) {
        self.look_at_shadow(queue, true);
        self.post_backlog(queue);
        for index in 0..self.submission.len() {
            let waits = self.submission[index].as_ref().is_some_and(|submission| {
                submission.completion == queue && submission.next().is_some()
            });
            if waits {
                self.run_queue(index as u16);
            }
        }
    }
}
