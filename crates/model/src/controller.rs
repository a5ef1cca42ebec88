// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller's state and its registers (NVMe base specification 1.4, "Controller Registers"
//! and "Controller Initialization").

use crate::bus::Bus;
use crate::config::Config;
use crate::engine::Held;
use crate::fault::{Event, FaultKind, Faults};
use crate::features::Features;
use crate::logs::Logs;
use crate::memory::BusMemory;
use crate::namespace::Namespace;
use crate::prp::Segment;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::registers::*;
use crate::statistics::Statistics;
use crate::violation::{Violation, Violations};

/// A change of CSTS that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Ready,
    Disabled,
    ShutDown,
}

#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) config: Config,
    pub(crate) cap: u64,
    cc: u32,
    csts: u32,
    interrupt_mask: u32,
    aqa: u32,
    asq: u64,
    acq: u64,
    change: Option<(u64, Change)>,
    pub(crate) ready_stuck: Option<bool>,
    /// When CC.EN was last cleared, for a quirk.
    pub(crate) disabled_at: Option<u64>,
    /// A quirk has stopped I/O until the next reset.
    pub(crate) io_stopped: bool,
    /// When the last I/O command was accepted, for power states.
    pub(crate) last_io: u64,
    pub(crate) bus: Bus,
    pub(crate) violations: Violations,
    pub(crate) submission: Vec<Option<SubmissionQueue>>,
    pub(crate) completion: Vec<Option<CompletionQueue>>,
    /// Bus addresses of the shadow doorbells and of the event indices.
    pub(crate) shadow: Option<(u64, u64)>,
    pub(crate) held: Vec<Held>,
    pub(crate) features: Features,
    pub(crate) logs: Logs,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) faults: Faults,
    pub(crate) statistics: Statistics,
    /// The time in ticks, as of the last entry from outside.
    pub(crate) now: u64,
    pub(crate) ticks_per_us: u64,
    /// Vectors that interrupted and were not yet passed on.
    pub(crate) raised: Vec<u16>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) scratch: Vec<u8>,
}

impl Controller {
    pub(crate) fn new(
        config: Config,
        faults: Faults,
        memory: BusMemory,
        namespaces: Vec<Namespace>,
        ticks_per_us: u64,
    ) -> Self {
        let queues = usize::from(config.io_queues) + 1;
        let mut controller = Self {
            cap: capabilities(&config, &faults),
            cc: 0,
            csts: 0,
            interrupt_mask: 0,
            aqa: 0,
            asq: 0,
            acq: 0,
            change: None,
            ready_stuck: None,
            disabled_at: None,
            io_stopped: false,
            last_io: 0,
            violations: memory.log().clone(),
            bus: Bus::new(memory),
            submission: (0..queues).map(|_| None).collect(),
            completion: (0..queues).map(|_| None).collect(),
            shadow: None,
            held: Vec::new(),
            features: Features::new(&config),
            logs: Logs::default(),
            namespaces,
            faults,
            statistics: Statistics::default(),
            now: 0,
            ticks_per_us,
            raised: Vec::new(),
            segments: Vec::new(),
            scratch: Vec::new(),
            config,
        };
        controller.count_event(Event::Start);
        controller
    }

    /// Counts an event, and applies the faults of the controller as a whole.
    pub(crate) fn count_event(&mut self, event: Event) {
        if self.faults.is_empty() {
            return;
        }
        let mut faults = std::mem::take(&mut self.faults);
        faults.count(event, |kind| self.strike(kind));
        self.faults = faults;
    }

    pub(crate) fn strike(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::ReadyStuck(value) => self.ready_stuck = Some(value),
            FaultKind::Fatal => self.csts |= CSTS_FATAL,
            FaultKind::Remove => self.bus.removed = true,
            _ => {}
        }
    }

    /// Whether commands are fetched.
    pub(crate) fn is_running(&self) -> bool {
        let wanted = CSTS_READY;
        self.csts & (CSTS_READY | CSTS_FATAL | CSTS_SHUT_DOWN | CSTS_SHUTTING_DOWN) == wanted
            && !self.bus.removed
    }

    /// Whether the controller has stopped by itself.
    pub(crate) fn is_dead(&self) -> bool {
        self.bus.removed || self.csts & CSTS_FATAL != 0
    }

    pub(crate) fn page_shift(&self) -> u8 {
        12 + (self.cc >> 7 & 15) as u8
    }

    /// CC.IOSQES and CC.IOCQES are 64 and 16 bytes, as they must be before queues are made.
    pub(crate) fn has_entry_sizes(&self) -> bool {
        self.cc >> 16 & 0xff == 0x46
    }

    pub(crate) fn read(&mut self, offset: usize) -> u32 {
        self.statistics.register_reads += 1;
        self.count_event(Event::Register);
        if self.bus.removed {
            return u32::MAX;
        }
        if offset % 4 != 0 || offset + 4 > self.config.register_space_bytes() {
            self.violations
                .record(Violation::RegisterAddress { offset });
            return u32::MAX;
        }
        let half = |value: u64| (value >> (offset % 8 * 8)) as u32;
        match offset & !4 {
            CAP => return half(self.cap),
            ASQ => return half(self.asq),
            ACQ => return half(self.acq),
            _ => {}
        }
        match offset {
            VS => VERSION,
            INTMS | INTMC => self.interrupt_mask,
            CC => self.cc,
            CSTS => {
                self.notice_early_status();
                self.status()
            }
            AQA => self.aqa,
            _ => 0,
        }
    }

    fn status(&self) -> u32 {
        match self.ready_stuck {
            Some(value) => self.csts & !CSTS_READY | u32::from(value),
            None => self.csts,
        }
    }

    pub(crate) fn write(&mut self, offset: usize, value: u32) {
        self.statistics.register_writes += 1;
        self.count_event(Event::Register);
        if self.bus.removed {
            return;
        }
        if offset % 4 != 0 || offset + 4 > self.config.register_space_bytes() {
            self.violations
                .record(Violation::RegisterAddress { offset });
            return;
        }
        let enabled = self.cc & CC_ENABLE != 0;
        let halves = |old: u64, low: bool| {
            if low {
                old & !0xffff_ffff | u64::from(value)
            } else {
                old & 0xffff_ffff | u64::from(value) << 32
            }
        };
        match offset {
            INTMS => self.interrupt_mask |= value,
            INTMC => self.unmask(value),
            CC => self.write_cc(value),
            // RW1C: only the subsystem reset flag (NSSRO) can be cleared.
            CSTS if value & !CSTS_SUBSYSTEM_RESET == 0 => self.csts &= !value,
            NSSR if self.config.subsystem_reset => {
                if value == NSSR_VALUE {
                    self.reset();
                    self.cc = 0;
                    self.csts = CSTS_SUBSYSTEM_RESET;
                    self.change = None;
                }
            }
            AQA if !enabled => self.aqa = value & 0x0fff_0fff,
            ASQ if !enabled => self.asq = halves(self.asq, true),
            0x2c if !enabled => self.asq = halves(self.asq, false),
            ACQ if !enabled => self.acq = halves(self.acq, true),
            0x34 if !enabled => self.acq = halves(self.acq, false),
            DOORBELLS.. => self.doorbell(offset, value),
            _ => self.bad_write(offset, value),
        }
    }

    fn bad_write(&self, offset: usize, value: u32) {
        self.violations
            .record(Violation::RegisterWrite { offset, value });
    }

    fn write_cc(&mut self, value: u32) {
        let (old, enable) = (self.cc, value & CC_ENABLE != 0);
        let was_enabled = old & CC_ENABLE != 0;
        if was_enabled && enable && (old ^ value) & CC_FIXED != 0 {
            self.bad_write(CC, value);
            return;
        }
        self.cc = value;
        match (was_enabled, enable) {
            (false, true) if self.status() & CSTS_READY != 0 => {
                // EN may be set again only once RDY has become 0.
                self.bad_write(CC, value);
                self.cc = old;
            }
            (false, true) => self.enable(value),
            (true, false) if self.ready_stuck != Some(true) => {
                self.disabled_at = Some(self.now);
                self.reset();
                self.csts &= !CSTS_FATAL;
                self.change_later(Change::Disabled);
            }
            _ => {}
        }
        let shutdown = value >> 14 & 3;
        if shutdown != 0 && old >> 14 & 3 == 0 {
            if shutdown == 1 {
                self.flush_all();
            }
            self.csts |= CSTS_SHUTTING_DOWN;
            self.change_later(Change::ShutDown);
        }
    }

    /// NVMe base specification 1.4, "Controller Initialization": the requirements for setting EN.
    fn enable(&mut self, cc: u32) {
        let page_shift = u64::from(cc >> 7 & 15);
        let page = (1_u64 << self.page_shift()) - 1;
        let sizes = (self.aqa & 0xfff, self.aqa >> 16);
        let bad = cc >> 4 & 7 != 0
            || cc >> 11 & 7 != 0
            || page_shift < self.cap >> 48 & 15
            || page_shift > self.cap >> 52 & 15
            || (self.asq | self.acq) & page != 0
            || sizes.0 == 0
            || sizes.1 == 0;
        if bad {
            self.violations.record(Violation::Enable { cc });
            self.csts |= CSTS_FATAL;
            return;
        }
        self.csts &= !(CSTS_SHUT_DOWN | CSTS_SHUTTING_DOWN);
        self.change_later(Change::Ready);
    }

    fn change_later(&mut self, change: Change) {
        let due = self.now + self.config.ready_delay_us * self.ticks_per_us;
        self.change = Some((due, change));
        self.pass_time();
    }

    /// Applies the change of CSTS that is due.
    pub(crate) fn pass_time(&mut self) {
        let Some((due, change)) = self.change else {
            return;
        };
        if due > self.now {
            return;
        }
        self.change = None;
        match change {
            Change::Ready if self.ready_stuck == Some(false) => {}
            Change::Ready => {
                let (sq, cq) = (self.aqa & 0xfff, self.aqa >> 16);
                self.submission[0] = Some(SubmissionQueue::new(self.asq, sq + 1, 0));
                self.completion[0] = Some(CompletionQueue::new(self.acq, cq + 1, Some(0)));
                self.csts |= CSTS_READY;
                self.statistics.enables += 1;
            }
            Change::Disabled => {
                self.csts &= !(CSTS_READY | CSTS_SHUT_DOWN | CSTS_SHUTTING_DOWN);
            }
            Change::ShutDown => self.csts = self.csts & !CSTS_SHUTTING_DOWN | CSTS_SHUT_DOWN,
        }
    }

    pub(crate) fn change_due(&self) -> Option<u64> {
        self.change.map(|(due, _)| due)
    }

    /// NVMe base specification 1.4, "Controller Level Reset": drops queues, features and everything
    /// outstanding; AQA, ASQ and ACQ stay.
    fn reset(&mut self) {
        self.submission.fill_with(|| None);
        self.completion.fill_with(|| None);
        self.held.clear();
        self.raised.clear();
        self.shadow = None;
        self.interrupt_mask = 0;
        self.features = Features::new(&self.config);
        self.io_stopped = false;
        self.last_io = self.now;
        self.logs.reset();
    }

    /// As after power was lost and came back: what the write cache held is lost, or, with a
    /// seed, some of it.
    pub(crate) fn power_cut(&mut self, survivors: Option<u64>) {
        self.reset();
        (self.cc, self.csts, self.change) = (0, 0, None);
        (self.aqa, self.asq, self.acq) = (0, 0, 0);
        self.bus.isolated = false;
        self.ready_stuck = None;
        self.disabled_at = None;
        self.cap = capabilities(&self.config, &self.faults);
        self.statistics.power_cuts += 1;
        for namespace in &mut self.namespaces {
            namespace.lose(survivors);
        }
    }

    pub(crate) fn is_masked(&self, vector: u16) -> bool {
        // INTMS has 32 bits, for pin-based and MSI interrupts.
        vector < 32 && self.interrupt_mask >> vector & 1 != 0
    }

    fn unmask(&mut self, vectors: u32) {
        let opened = self.interrupt_mask & vectors;
        self.interrupt_mask &= !vectors;
        for vector in (0..32).filter(|bit| opened >> bit & 1 != 0) {
            let waiting = self
                .completion
                .iter()
                .flatten()
                .any(|queue| queue.vector == Some(vector) && queue.head != queue.tail);
            if waiting {
                self.raised.push(vector);
            }
        }
    }
}
