// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coprocessor's side: sessions, and the commands that move blocks.
//!
//! The caller's loop calls [`Service::step`] with the drive's queue while clients work with blocks;
//! when a client wants files it mounts the volume and calls [`Files::step`](files::Files::step)
//! instead. Nothing here waits.

mod blocks;
#[cfg(feature = "files")]
mod data;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "files")]
mod jobs;
#[cfg(feature = "stream")]
mod playing;
#[cfg(feature = "stream")]
mod recording;
mod session;
#[cfg(feature = "stream")]
mod slots;
#[cfg(feature = "files")]
mod state;
#[cfg(feature = "stream")]
mod streams;
#[cfg(feature = "files")]
mod transfer;

use block::{Clock, Geometry};

use crate::header::{Access, Drive, Grant, feature_bits};
use crate::layout::{self, CLIENTS, CREDITS, header};
use crate::memory::Window;
use crate::status::Code;
use blocks::Deadlines;
use session::{Phase, Session};

/// Steps between two changes of the beat, and between two checks of a session's lease.
const STEPS_A_BEAT: u32 = 64;

/// Something that happened to a client, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientEvent {
    /// The client.
    pub client: usize,
    /// What happened.
    pub code: Code,
}

/// The access that the sessions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Blocks, or nothing.
    Blocks,
    /// The volume mounted.
    Files,
}

/// The coprocessor's side of a window.
#[derive(Debug)]
pub struct Service {
    window: Window,
    sessions: [Session; CLIENTS],
    geometry: Geometry,
    ticks_per_ms: u64,
    deadlines: Deadlines,
    /// The client that is served first.
    turn: usize,
    /// Steps so far.
    steps: u32,
    want: Want,
}

impl Service {
    /// Writes a header that says that the coprocessor is looking for its drive.
    pub fn announce(window: &Window) {
        window.write64(header::MAGIC, 0);
        block::barrier::before_index();
        let boot = window.read32(header::BOOT).wrapping_add(1);
        window.write32(header::VERSION, layout::VERSION);
        window.write32(header::BOOT, boot);
        window.write32(header::STATE, 0);
        window.write32(header::REASON, 0);
        window.write32(header::CLIENTS, CLIENTS as u32);
        window.write32(header::ENTRIES, layout::RING_ENTRIES);
        window.write64(header::WINDOW_BYTES, window.len() as u64);
        window.write32(header::CREDITS, CREDITS);
        window.clear(header::GRANTS, CLIENTS * header::GRANT_BYTES);
        block::barrier::before_index();
        window.write64(header::MAGIC, layout::MAGIC);
    }

    /// Writes a header that says that there is nothing to serve, and why.
    pub fn fail(window: &Window, why: Code) {
        window.write32(header::REASON, why as u32);
        block::barrier::before_index();
        window.write32(header::STATE, 2);
    }

    /// Begins to serve a drive of this geometry. `None` if the window is too small.
    pub fn new<C: Clock>(
        window: &Window,
        geometry: Geometry,
        drive: &Drive,
        grants: [Grant; CLIENTS],
        clock: &C,
    ) -> Option<Self> {
        if window.len() < layout::MIN_WINDOW_BYTES {
            return None;
        }
        let mut index = 0;
        let sessions = grants.map(|grant| {
            let session = Session::new(window, index, grant);
            index += 1;
            session
        });
        window.write32(header::BLOCK_LOG2, u32::from(geometry.block_size_log2));
        window.write32(header::MAX_BLOCKS, geometry.max_transfer_blocks);
        window.write64(header::BLOCK_COUNT, geometry.block_count);
        window.write32(header::FEATURES, feature_bits(&geometry.features));
        window.write32(header::DATA_ALIGN, geometry.buffer_align_bytes);
        window.copy_in(header::SERIAL, &drive.serial);
        window.copy_in(header::MODEL, &drive.model);
        for (index, grant) in grants.iter().enumerate() {
            let at = header::GRANTS + index * header::GRANT_BYTES;
            window.write64(at, grant.data_offset as u64);
            window.write64(at + 8, grant.data_bytes as u64);
            window.write64(at + 16, grant.first_block);
            window.write64(at + 24, grant.block_count);
            window.write32(at + 32, grant.rights);
        }
        block::barrier::before_index();
        window.write32(header::STATE, 1);
        Some(Self {
            window: *window,
            sessions,
            geometry,
            ticks_per_ms: clock.ticks_per_second() / 1000,
            deadlines: Deadlines::new(),
            turn: 0,
            steps: 0,
            want: Want::Blocks,
        })
    }

    /// The access that the sessions need now.
    pub const fn want(&self) -> Want {
        self.want
    }

    /// The number of sessions, and the number of commands completed since each page's current or
    /// last session began; for measuring.
    pub fn tally(&self) -> (usize, u32) {
        let mut tally = (0, 0);
        for session in &self.sessions {
            tally.0 += usize::from(session.phase != Phase::Free);
            tally.1 += session.answered();
        }
        tally
    }

    /// The next event to log; each is returned once.
    pub fn take_event(&mut self) -> Option<ClientEvent> {
        let mut sessions = self.sessions.iter_mut().enumerate();
        sessions.find_map(|(client, session)| {
            let code = session.event.take()?;
            Some(ClientEvent { client, code })
        })
    }

    /// The volume could not be mounted: refuses the sessions that wait for it.
    pub fn refuse_files(&mut self, why: Code) {
        for session in &mut self.sessions {
            if session.phase == Phase::Waiting && session.access == Access::Files {
                session.refuse(why);
            }
        }
        self.want = Want::Blocks;
    }

    /// Handles the beginnings and ends of sessions, one session per step.
    fn housekeep<C: Clock>(&mut self, clock: &C) {
        self.steps = self.steps.wrapping_add(1);
        if self.steps % STEPS_A_BEAT == 0 {
            self.window.write32(header::BEAT, self.steps);
        }
        self.turn = (self.turn + 1) % CLIENTS;
        let (turn, ticks_per_ms) = (self.turn, self.ticks_per_ms);
        let Some(session) = self.sessions.get_mut(turn) else {
            return;
        };
        // Each session's lease is checked once in this many steps.
        let looks_at_lease = self.steps % STEPS_A_BEAT < CLIENTS as u32;
        session.attend(clock, ticks_per_ms, looks_at_lease);
        if session.phase == Phase::Waiting {
            self.admit(turn, clock);
        }
    }

    /// Admits a session if its access is compatible with the others.
    #[inline(never)]
    fn admit<C: Clock>(&mut self, index: usize, clock: &C) {
        // A client that has just detached does not exclude others.
        for session in &mut self.sessions {
            session.attend(clock, self.ticks_per_ms, false);
        }
        let Some(wanted) = self.sessions.get(index).map(|session| session.access) else {
            return;
        };
        let excludes = |session: &Session| match (wanted, session.access) {
            (Access::Files, Access::Files) => false,
            (Access::Files, _) | (_, Access::Files) => true,
            (Access::WriteBlocks, Access::WriteBlocks) => true,
            _ => false,
        };
        let mut others = self.sessions.iter().enumerate();
        let mut is_excluded = false;
        let mut must_wait = wanted != Access::Files && self.want == Want::Files;
        for (other, session) in &mut others {
            if other != index && excludes(session) {
                match session.phase {
                    Phase::Open => is_excluded = true,
                    // It is about to end.
                    Phase::Ending => must_wait = true,
                    Phase::Waiting => is_excluded |= self.want == Want::Files,
                    Phase::Free => {}
                }
            }
        }
        let offered = wanted != Access::Files || cfg!(feature = "files");
        let mounted = self.want == Want::Files;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        match (offered, is_excluded, wanted) {
            (false, ..) => session.refuse(Code::BadOpcode),
            (_, true, _) => session.refuse(Code::InUse),
            _ if must_wait => {}
            // It stays waiting until the volume is mounted; `Files` then opens it.
            (_, _, Access::Files) if !mounted => self.want = Want::Files,
            (_, _, Access::Files) => {}
            _ => session.open(),
        }
    }
}
