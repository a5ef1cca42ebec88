// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real-time priority for the calling thread.

use crate::sys::sched;
use std::io;

/// SCHED_FIFO until it is dropped; the ordinary policy after that.
#[derive(Debug)]
pub struct RealTime(());

impl RealTime {
    /// Gives the calling thread SCHED_FIFO with `priority`, 1 to 99. A thread that never sleeps
    /// then keeps all others off its processor, except for the share that the kernel's throttling
    /// leaves them.
    ///
    /// # Errors
    /// If it is not permitted, or the priority is invalid.
    pub fn enter(priority: i32) -> io::Result<Self> {
        sched::set_policy(Some(priority))?;
        Ok(Self(()))
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // A thread may always lower its priority.
        let _ = sched::set_policy(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_given_and_taken_back() {
        match RealTime::enter(10) {
            Ok(real_time) => drop(real_time),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: real-time priority is not permitted here");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let policy = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let line = policy.lines().find(|line| line.starts_with("policy"));
        assert!(
            line.is_none_or(|line| line.trim_end().ends_with('0')),
            "{line:?}"
        );
        assert!(RealTime::enter(1000).is_err());
    }
}
