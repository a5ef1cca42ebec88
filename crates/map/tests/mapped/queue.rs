// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several queues of one disk, each of which is a device: for the tests, and for the example `map
//! storm`.

use block::{Completion, Device, Geometry, RamDisk, Refused, Request};
use std::sync::{Arc, Mutex, PoisonError};

pub type Disk = RamDisk<Vec<u8>, 8>;

/// One of several queues of a disk. Its own completions come to it alone, some polls after the disk
/// has moved the data, so that what other queues do falls in between.
#[derive(Debug)]
pub struct Queue {
    pub disk: Arc<Mutex<Disk>>,
    geometry: Geometry,
    done: Vec<(u8, Completion)>,
    random: fastrand::Rng,
}

impl Device for Queue {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.submit(request)?;
        disk.kick();
        // A RAM disk is done at once.
        let done = disk.poll();
        self.done
            .extend(done.map(|completion| (self.random.u8(..20), completion)));
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        for (polls, _) in &mut self.done {
            *polls = polls.saturating_sub(1);
        }
        let at = self.done.iter().position(|&(polls, _)| polls == 0)?;
        Some(self.done.swap_remove(at).1)
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }
}

/// So many queues of `disk`.
pub fn queues(disk: Disk, count: usize, random: &mut fastrand::Rng) -> Vec<Queue> {
    let geometry = *disk.geometry();
    let disk = Arc::new(Mutex::new(disk));
    let queue = |_| Queue {
        disk: Arc::clone(&disk),
        geometry,
        done: Vec::new(),
        random: random.fork(),
    };
    (0..count).map(queue).collect()
}
