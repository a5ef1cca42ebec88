// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that calls back at each change: after a write, discard or flush was submitted, when a
//! power cut finds it outstanding.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Completion, Device, Geometry, Operation, Refused, Request};
use crash::CrashDisk;

use super::rules::ContentRules;

/// What is called.
pub type Hook = Rc<RefCell<dyn FnMut(&CrashDisk)>>;

/// A [`CrashDisk`] with a hook.
pub struct Probe {
    disk: CrashDisk,
    hook: Option<Hook>,
    /// Checks the order in which content is written, if wanted.
    rules: Option<Rc<RefCell<ContentRules>>>,
    /// Polls without a completion, to detect an endless wait.
    idle_polls: u64,
}

/// Far more polls than any operation here needs.
const MOST_IDLE_POLLS: u64 = 100_000;

impl Probe {
    pub fn new(disk: CrashDisk, hook: Option<Hook>) -> Self {
        Self {
            disk,
            hook,
            rules: None,
            idle_polls: 0,
        }
    }

    #[must_use]
    pub fn with_rules(mut self, rules: Rc<RefCell<ContentRules>>) -> Self {
        self.rules = Some(rules);
        self
    }
}

impl Device for Probe {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let is_change = !matches!(request.operation, Operation::Read { .. });
        if let (Some(rules), Operation::Write { lba, buffer, .. }) =
            (&self.rules, &request.operation)
        {
            rules.borrow_mut().write(*lba, buffer, &self.disk);
        }
        self.disk.submit(request)?;
        if let (true, Some(hook)) = (is_change, &self.hook) {
            (hook.borrow_mut())(&self.disk);
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.disk.poll();
        self.idle_polls = match completion {
            Some(_) => 0,
            None => self.idle_polls + 1,
        };
        assert!(self.idle_polls < MOST_IDLE_POLLS, "an operation hangs");
        completion
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }
}
