// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller's counters: for tests, figures and the health log.

/// Counters since the model was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Admin commands fetched, by opcode.
    pub admin_commands: [u64; 256],
    /// I/O commands fetched, by opcode.
    pub io_commands: [u64; 256],
    /// Completion queue entries posted.
    pub completions: u64,
    /// Of those, the ones with an error status.
    pub errors: u64,
    /// Submission queue tail doorbells rung.
    pub submission_doorbells: u64,
    /// Completion queue head doorbells rung.
    pub completion_doorbells: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Register writes, doorbells included.
    pub register_writes: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Interrupts that a fault dropped.
    pub interrupts_dropped: u64,
    /// Bytes read by I/O commands.
    pub read_bytes: u64,
    /// Bytes written by I/O commands.
    pub written_bytes: u64,
    /// Reads and writes that crossed the configured boundary.
    pub boundary_crossings: u64,
    /// Autonomous transitions to a non-operational power state.
    pub power_transitions: u64,
    /// Memory accesses that were not performed because the controller was isolated or removed.
    pub suppressed_accesses: u64,
    /// Times the controller became ready.
    pub enables: u64,
    /// Power cuts.
    pub power_cuts: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            admin_commands: [0; 256],
            io_commands: [0; 256],
            completions: 0,
            errors: 0,
            submission_doorbells: 0,
            completion_doorbells: 0,
            register_reads: 0,
            register_writes: 0,
            interrupts: 0,
            interrupts_dropped: 0,
            read_bytes: 0,
            written_bytes: 0,
            boundary_crossings: 0,
            power_transitions: 0,
            suppressed_accesses: 0,
            enables: 0,
            power_cuts: 0,
        }
    }
}

impl Statistics {
    /// Admin commands fetched.
    pub fn admin_total(&self) -> u64 {
        self.admin_commands.iter().sum()
    }

    /// I/O commands fetched.
    pub fn io_total(&self) -> u64 {
        self.io_commands.iter().sum()
    }
}
