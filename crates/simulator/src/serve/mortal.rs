// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device of a process that may die: from then on it does nothing more.

use crate::drive::Power;
use block::{Completion, Device, Error, Geometry, Refused, Request, Tag};
use std::cell::Cell;
use std::rc::Rc;

/// A device until its user's process dies. What is left of that gets its requests back, so that it
/// ends; none of them goes anywhere.
pub struct Mortal<D> {
    device: D,
    is_alive: Rc<Cell<bool>>,
    power: Power,
    tags: Vec<Tag>,
}

impl<D: Device> Mortal<D> {
    /// Of a process that lives while `is_alive`, and not without power.
    pub fn new(device: D, is_alive: &Rc<Cell<bool>>, power: &Power) -> Self {
        Self {
            device,
            is_alive: Rc::clone(is_alive),
            power: power.clone(),
            tags: Vec::new(),
        }
    }

    fn is_alive(&self) -> bool {
        self.is_alive
            .set(self.is_alive.get() && !self.power.is_off());
        self.is_alive.get()
    }
}

impl<D: Device> Device for Mortal<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if !self.is_alive() {
            let error = Error::Gone;
            return Err(Refused { error, request });
        }
        let tag = request.tag;
        self.device.submit(request)?;
        self.tags.push(tag);
        Ok(())
    }

    fn kick(&mut self) {
        if self.is_alive() {
            self.device.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.is_alive() {
            let completion = self.device.poll()?;
            self.tags.retain(|tag| *tag != completion.tag);
            return Some(completion);
        }
        Some(Completion {
            tag: self.tags.pop()?,
            buffer: None,
            result: Err(Error::Gone),
        })
    }

    fn outstanding(&self) -> usize {
        self.tags.len()
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.is_alive() {
            self.device.wait(timeout_us);
        }
    }
}
