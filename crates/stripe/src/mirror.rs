// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mirror (RAID-1).

use crate::label::{ArrayKind, Label, MirrorState};
use crate::set::{SetError, check, label_blocks, label_bytes};
use crate::striped::{Action, admit, joint_geometry, take_apart, wait_for_any, with_range};
use crate::table::{self, Ring, Table};
use crate::watch::{ArrayEvent, Watch};
use crate::{MOST_MEMBERS, alias};
use block::{Buffer, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};
use core::marker::PhantomData;

mod labels;
mod rebuild;

use labels::Labels;
use rebuild::Rebuild;

/// Tags of a member's requests that are not the host's.
const LABEL_TAG: Tag = 1 << 24;
const COPY_TAG: Tag = 2 << 24;

/// What a mirror needs besides its members, from memory that all members can reach.
#[derive(Debug)]
pub struct MirrorMemory {
    /// For labels: for each member [`LABEL_BYTES`](crate::LABEL_BYTES), or a block if that is
    /// longer.
    pub labels: Buffer,
    /// For a rebuild: at least a block; its length is what is copied at a time.
    pub copy: Buffer,
}

/// A device whose members are copies, with room for `REQUESTS` requests.
///
/// * A read goes to one of the up-to-date members, in turn, and after an error to the others.
/// * Everything else goes to all members, at once. A member that fails it while another completes
///   it is stale: it is no longer used, its absence is stored in the labels of the others before
///   the request completes, and the [`Watch`] is told. The last member stays in use.
/// * A change that overlaps one under way waits for its end, so that the members stay equal.
/// * A member that was stale or missing is rebuilt while the mirror is polled, one piece at a time,
///   beside the host's requests; writes to the piece being copied wait. Its position is stored
///   every 64th of the way, and a later use resumes there, unless the mirror was not closed after a
///   write: then the rebuild begins again.
/// * Before the first change the labels say that the members may differ, until
///   [`close`](Mirror::close). After a crash the members are made equal: until then all reads go to
///   one of them, and what was read is written to the others before the read completes, so that a
///   later use that lacks that one reads the same. If one is missing then, the labels say so before
///   the first read, because that one may have other versions of what was being written.
#[derive(Debug)]
pub struct Mirror<D, M, W, const REQUESTS: usize> {
    members: M,
    geometry: Geometry,
    watch: W,
    /// Members that are up to date and in use.
    live: u8,
    /// Members that get writes and are being rebuilt.
    targets: u8,
    /// Those of the targets that are up to date except for writes that had not completed.
    resync: u8,
    labels: Labels,
    rebuild: Rebuild,
    table: Table<Parent, REQUESTS>,
    /// Requests that have something to submit, oldest first.
    waiting: Ring<REQUESTS>,
    /// Reads to be completed.
    done: Ring<REQUESTS>,
    /// Everything else, which is completed only while the labels on the members are up to date.
    changed: Ring<REQUESTS>,
    turn: usize,
    device: PhantomData<D>,
}

/// How far the sequence numbers of a use without a member are ahead of what that may have got: so
/// far that the two are told apart when each has gone on without the other.
const APART: u64 = 1 << 32;

/// A request of the mirror.
#[derive(Debug)]
struct Parent {
    tag: Tag,
    action: Action,
    buffer: Option<Buffer>,
    lba: u64,
    count: u64,
    has_begun: bool,
    /// Members that it must still be submitted to.
    unasked: u8,
    outstanding: u8,
    succeeded: u8,
    failed: u8,
    is_waiting: bool,
    /// A read of what the members may have in different versions since a crash.
    settles_doubt: bool,
    error: Option<Error>,
    /// A member may still execute its part, whatever became of the others.
    is_in_doubt: bool,
}

impl Parent {
    const fn is_read(&self) -> bool {
        matches!(self.action, Action::Read)
    }

    /// Whether it changes a block of `[lba, lba + count)` on a member.
    const fn changes(&self, lba: u64, count: u64) -> bool {
        let is_change = !self.is_read() || self.settles_doubt;
        is_change && self.lba < lba + count && lba < self.lba + self.count
    }

    /// Whether it still has to be read.
    const fn reads(&self) -> bool {
        self.is_read() && self.succeeded == 0
    }
}

fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..MOST_MEMBERS).filter(move |member| mask & (1 << member) != 0)
}

impl<D, M, W, const REQUESTS: usize> Mirror<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[Option<D>]> + AsMut<[Option<D>]>,
    W: Watch,
{
    /// A mirror of `members`, `None` for a missing one, with the labels that were read from them.
    /// Without `may_write` it is read-only, and nothing is written to any member.
    ///
    /// # Errors
    /// As [`check`]; [`SetError::Shape`] if `REQUESTS` is not 1 to 65,535 too;
    /// [`SetError::Memory`].
    pub fn new(
        members: M,
        labels: &[Option<Label>],
        memory: MirrorMemory,
        may_write: bool,
        watch: W,
    ) -> Result<Self, SetError> {
        let all = members.as_ref();
        let most = u16::try_from(REQUESTS).map_err(|_| SetError::Shape)?;
        if most == 0 || !(2..=MOST_MEMBERS).contains(&all.len()) {
            return Err(SetError::Shape);
        }
        let mut found = [const { None }; MOST_MEMBERS];
        for (member, place) in all.iter().zip(found.iter_mut()).enumerate() {
            let (device, place) = place;
            let label = labels.get(member).copied().flatten();
            *place = device.as_ref().map(|device| (*device.geometry(), label));
        }
        let found = found.get(..all.len()).unwrap_or_default();
        let newest = check(ArrayKind::Mirror, found)?;
        // The newest's may not be the greatest.
        let sequences = labels.iter().flatten().map(|label| label.sequence);
        let highest = sequences.fold(newest.sequence, u64::max);
        let present = bits(u8::MAX)
            .filter(|member| found.get(*member).is_some_and(Option::is_some))
            .fold(0, |mask, member| mask | 1 << member);
        // A member that is missing may have labels that no other got.
        let is_whole = all.iter().all(Option::is_some);
        let ahead = if is_whole { 3 } else { APART };
        let least_sequence = highest.saturating_add(ahead);
        let joint = joint_geometry(all.iter().flatten()).map_err(|_| SetError::Shape)?;
        let state = newest.mirror;
        let mut live = state.current & present;
        let mut targets = present & !live;
        // Where the rebuild may go on: these members have all that was written since.
        let is_same = |member: usize| {
            let label = labels.get(member).copied().flatten();
            state.rebuilding & (1 << member) != 0
                && label.is_some_and(|label| label.sequence == newest.sequence)
        };
        let resumes = !state.is_dirty && targets != 0 && bits(targets).all(is_same);
        let mut resync = 0;
        if state.is_dirty {
            let first = 1 << live.trailing_zeros();
            resync = live & !first;
            targets |= resync;
            live = first;
        }
        let is_read_only = joint.features.read_only || !may_write;
        let mut geometry = Geometry {
            block_count: newest.data_blocks,
            queue_depth: joint.queue_depth.min(most),
            ..joint
        };
        geometry.features.read_only = is_read_only;
        if is_read_only {
            (targets, resync) = (0, 0);
        }
        let mut labels = Labels::new(newest, least_sequence, &geometry, memory.labels, all.len())?;
        if state.is_dirty && state.current & !present != 0 && !is_read_only {
            labels.hold_reads();
        }
        Ok(Self {
            labels,
            rebuild: Rebuild::new(
                memory.copy,
                &geometry,
                if resumes { state.rebuilt_blocks } else { 0 },
            )?,
            members,
            geometry,
            watch,
            live,
            targets,
            resync,
            table: Table::new(),
            waiting: Ring::new(),
            done: Ring::new(),
            changed: Ring::new(),
            turn: 0,
            device: PhantomData,
        })
    }

    /// Members that are up to date and in use: bit i is member i. While members are made equal
    /// after a crash this is the one that is read.
    pub const fn live(&self) -> u8 {
        self.live
    }

    /// Members that are being rebuilt.
    pub const fn rebuilding(&self) -> u8 {
        self.targets
    }

    /// Blocks that the rebuild has copied.
    pub const fn rebuilt_blocks(&self) -> u64 {
        self.rebuild.position()
    }

    /// Flushes the members and stores in their labels that they are equal, or how far the rebuild
    /// is. No request may be outstanding. Without it, the next use makes the members equal again.
    ///
    /// # Errors
    /// The flush or the labels failed, or [`Error::Busy`].
    pub fn close(&mut self) -> Result<(), Error> {
        if self.geometry.features.read_only {
            return Ok(());
        }
        if self.outstanding() != 0 {
            return Err(Error::Busy);
        }
        self.rebuild.pause(true);
        let result = self.close_paused();
        self.rebuild.pause(false);
        result
    }

    fn close_paused(&mut self) -> Result<(), Error> {
        while self.rebuild.is_copying() {
            self.step();
            self.wait(100_000);
        }
        block::blocking::flush(self)?;
        self.rebuild.was_flushed();
        if self.labels.is_dirty() && self.resync == 0 && !self.labels.has_failed_write() {
            self.labels.set_clean();
        }
        if self.targets != 0 {
            self.labels.request();
        }
        loop {
            self.step();
            match self.labels.error() {
                Some(error) => return Err(error),
                None if self.labels.are_stored() => return Ok(()),
                None => self.wait(100_000),
            }
        }
    }

    /// The members. Requests that are outstanding stay so on the members.
    pub fn into_members(self) -> M {
        self.members
    }

    const fn in_use(&self) -> u8 {
        self.live | self.targets
    }

    /// What the labels should say.
    const fn state(&self) -> MirrorState {
        MirrorState {
            current: self.live | self.resync,
            rebuilding: if self.resync == 0 { self.targets } else { 0 },
            is_dirty: self.labels.is_dirty(),
            rebuilt_blocks: self.rebuild.durable_position(),
        }
    }

    fn submit_to(&mut self, member: usize, tag: Tag, operation: Operation) -> Result<(), Refused> {
        let request = Request { tag, operation };
        match self.members.as_mut().get_mut(member) {
            Some(Some(device)) => device.submit(request),
            _ => Err(Refused {
                error: Error::Gone,
                request,
            }),
        }
    }

    /// Stops using a member, unless it is the last. Returns whether it was.
    fn drop_member(&mut self, member: usize) -> bool {
        let bit = 1 << member;
        if self.in_use() & bit == 0 {
            return true;
        }
        if self.live == bit {
            if self.resync == 0 {
                return false;
            }
            // Another member takes its place, and the others are made equal to that.
            self.live = 1 << self.resync.trailing_zeros();
            self.targets &= !self.live;
            self.resync &= !self.live;
            self.rebuild.restart();
        }
        self.live &= !bit;
        self.targets &= !bit;
        self.resync &= !bit;
        self.labels.request();
        self.watch.event(ArrayEvent::Stale { member });
        true
    }

    /// Whether a request may be submitted to members now.
    fn may_begin(&mut self, index: usize) -> Result<bool, Error> {
        let window = self.rebuild.window();
        let (may_change, error) = (self.labels.may_change(), self.labels.error());
        let has_doubt = self.resync != 0;
        let equal_blocks = self.rebuild.position();
        let holds_reads = self.labels.holds_reads();
        let Some(parent) = self.table.get_mut(index) else {
            return Ok(true);
        };
        if parent.is_read() {
            parent.settles_doubt = has_doubt && parent.lba + parent.count > equal_blocks;
            if holds_reads {
                return Ok(false);
            }
            if !parent.settles_doubt {
                return Ok(true);
            }
        } else if let Some(error) = error {
            return Err(error);
        } else if !may_change && !matches!(parent.action, Action::Flush) {
            return Ok(false);
        }
        if window.is_some_and(|(lba, count)| parent.changes(lba, count)) {
            return Ok(false);
        }
        // Two changes of a block at once could reach the members in either order, and leave
        // different contents on them.
        let (lba, count) = (parent.lba, parent.count);
        Ok(self.table.len() == 1 || !self.is_changing(lba, count))
    }

    /// Submits what it can of a request; `false` if something remains.
    fn advance(&mut self, index: usize) -> bool {
        if self.table.get_mut(index).is_some_and(|one| !one.has_begun) {
            match self.may_begin(index) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    if let Some(parent) = self.table.get_mut(index) {
                        parent.error = Some(error);
                    }
                    return true;
                }
            }
        }
        let (live, in_use) = (self.live, self.in_use());
        let Some(parent) = self.table.get_mut(index) else {
            return true;
        };
        if !parent.has_begun {
            parent.has_begun = true;
            if !parent.is_read() {
                parent.unasked = in_use;
            }
        }
        if parent.reads() {
            return self.advance_read(index, live);
        }
        loop {
            let in_use = self.in_use();
            let Some(parent) = self.table.get_mut(index) else {
                return true;
            };
            parent.unasked &= in_use;
            let Some(member) = bits(parent.unasked).next() else {
                return true;
            };
            let operation = match (parent.action, &parent.buffer) {
                (Action::Write { fua }, Some(buffer)) => alias::write(buffer, parent.lba, fua),
                (Action::Read, Some(buffer)) => alias::write(buffer, parent.lba, false),
                (action, _) => with_range(action, parent.lba, parent.count as u32),
            };
            let refused = self.submit_to(member, index as Tag, operation).err();
            let Some(parent) = self.table.get_mut(index) else {
                return true;
            };
            match refused.map(|refused| refused.error) {
                Some(Error::QueueFull) => return false,
                Some(error) => {
                    parent.failed |= 1 << member;
                    parent.error = parent.error.or(Some(error));
                    self.watch.event(ArrayEvent::Failed { member, error });
                }
                None => parent.outstanding += 1,
            }
            if let Some(parent) = self.table.get_mut(index) {
                parent.unasked &= !(1 << member);
            }
        }
    }

    /// Submits a read to the next live member that has not failed it.
    fn advance_read(&mut self, index: usize, live: u8) -> bool {
        let count = self.members.as_ref().len();
        loop {
            let turn = self.turn;
            let Some(parent) = self.table.get_mut(index) else {
                return true;
            };
            if parent.outstanding != 0 {
                return true;
            }
            let mut order = (0..count).map(|i| (turn + i) % count);
            let untried = live & !parent.failed;
            let Some(member) = order.find(|member| untried & (1 << member) != 0) else {
                parent.error = parent.error.or(Some(Error::Gone));
                return true;
            };
            let Some(buffer) = parent.buffer.take() else {
                return true;
            };
            let lba = parent.lba;
            let refused = self
                .submit_to(member, index as Tag, Operation::Read { lba, buffer })
                .err();
            let Some(parent) = self.table.get_mut(index) else {
                return true;
            };
            let Some(refused) = refused else {
                parent.outstanding = 1;
                self.turn = (member + 1) % count;
                return true;
            };
            parent.buffer = refused.request.operation.into_buffer();
            if refused.error == Error::QueueFull {
                return false;
            }
            let error = refused.error;
            parent.failed |= 1 << member;
            parent.error = Some(error);
            self.watch.event(ArrayEvent::Failed { member, error });
        }
    }

    fn advance_all(&mut self) {
        table::advance_all(
            self,
            |mirror| &mut mirror.waiting,
            Self::advance,
            Self::settle,
        );
    }

    /// Decides what becomes of a request that has nothing left to submit.
    fn settle(&mut self, index: usize) {
        // While members are made equal after a crash, each of them is as good as the one that is
        // read.
        let good = self.live | self.resync;
        let Some(parent) = self.table.get_mut(index) else {
            return;
        };
        parent.is_waiting = false;
        if parent.outstanding != 0 {
            return;
        }
        if parent.is_read() && !(parent.settles_doubt && parent.succeeded != 0) {
            self.done.push(index);
            return;
        }
        let (succeeded, failed) = (parent.succeeded, parent.failed);
        if succeeded & good != 0 {
            parent.error = None;
            for member in bits(failed) {
                self.drop_member(member);
            }
        } else if parent.has_begun && failed & good != 0 {
            self.labels.note_failed_write();
            // A target may have what no live member has.
            for member in bits(succeeded & self.targets) {
                self.drop_member(member);
            }
        } else if parent.has_begun && parent.error.is_none() {
            // Every member that it was submitted to has been dropped since.
            parent.error = Some(Error::Aborted);
        }
        self.changed.push(index);
    }

    fn complete_part(&mut self, member: usize, completion: Completion) {
        match completion.tag {
            LABEL_TAG => return self.label_written(member, completion),
            COPY_TAG => return self.copied(member, completion),
            _ => {}
        }
        let index = completion.tag as usize;
        if let Err(error) = completion.result {
            self.watch.event(ArrayEvent::Failed { member, error });
        }
        let Some(parent) = self.table.get_mut(index) else {
            debug_assert!(false, "a member completed what was not submitted");
            return;
        };
        parent.outstanding = parent.outstanding.saturating_sub(1);
        let has_been_read = parent.reads();
        match completion.result {
            Ok(()) => {
                parent.succeeded |= 1 << member;
                if has_been_read {
                    (parent.error, parent.failed) = (None, 0);
                }
            }
            Err(error) => {
                parent.failed |= 1 << member;
                parent.error = Some(error);
                parent.is_in_doubt |= error == Error::OutcomeUnknown;
            }
        }
        if has_been_read {
            parent.buffer = completion.buffer;
            if parent.settles_doubt && parent.succeeded != 0 {
                // The others get what is read now, so that it stays whichever is read later.
                parent.unasked = self.resync;
            }
            if parent.succeeded == 0 || parent.unasked != 0 {
                // On another member, or the error is final.
                parent.is_waiting = true;
                self.waiting.push(index);
                return;
            }
        }
        if parent.outstanding == 0 && !parent.is_waiting {
            self.settle(index);
        }
    }

    /// Lets members complete one request each, and does what follows from that.
    fn step(&mut self) {
        let count = self.members.as_ref().len();
        for member in 0..count {
            let device = self.members.as_mut().get_mut(member);
            let completion = match device {
                Some(Some(device)) if device.outstanding() != 0 => device.poll(),
                _ => None,
            };
            if let Some(completion) = completion {
                self.complete_part(member, completion);
            }
        }
        self.step_labels();
        self.step_rebuild();
        self.kick();
    }

    fn finish(&mut self, index: usize) -> Option<Completion> {
        let parent = self.table.take(index)?;
        let result = match parent.error {
            Some(_) if parent.is_in_doubt => Err(Error::OutcomeUnknown),
            Some(error) => Err(error),
            None => Ok(()),
        };
        Some(Completion {
            tag: parent.tag,
            buffer: parent.buffer,
            result,
        })
    }

    /// Whether a change in progress overlaps a range.
    fn is_changing(&self, lba: u64, count: u64) -> bool {
        let mut all = self.table.iter();
        all.any(|parent| parent.has_begun && parent.changes(lba, count))
    }
}

impl<D, M, W, const REQUESTS: usize> Device for Mirror<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[Option<D>]> + AsMut<[Option<D>]>,
    W: Watch,
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let request = admit(&self.geometry, self.table.len(), request)?;
        let tag = request.tag;
        let (action, lba, count, buffer) =
            take_apart(request.operation, self.geometry.block_size_log2);
        let parent = Parent {
            tag,
            action,
            buffer,
            lba,
            count,
            has_begun: false,
            unasked: 0,
            outstanding: 0,
            succeeded: 0,
            failed: 0,
            is_waiting: true,
            settles_doubt: false,
            error: None,
            is_in_doubt: false,
        };
        match action {
            Action::Read => {}
            Action::Flush => self.labels.retry(),
            _ => self.labels.begin_change(),
        }
        if let Ok(index) = self.table.insert(parent) {
            self.waiting.push(index);
            if self.waiting.len() == 1 {
                self.advance_all();
            }
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.step_labels();
        self.advance_all();
        for member in self.members.as_mut().iter_mut().flatten() {
            member.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.done.len() == 0 {
            self.step();
        }
        if let Some(index) = self.done.pop() {
            return self.finish(index);
        }
        // What a member has missed must be known on the others before anyone relies on it.
        let error = self.labels.error();
        if !self.labels.are_stored() && error.is_none() {
            return None;
        }
        let index = self.changed.pop()?;
        if let (Some(error), Some(parent)) = (error, self.table.get_mut(index)) {
            parent.error = Some(error);
        }
        self.finish(index)
    }

    fn outstanding(&self) -> usize {
        self.table.len()
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.done.len() == 0 && (self.changed.len() == 0 || !self.labels.are_stored()) {
            let members = self.members.as_mut().iter_mut().flatten();
            wait_for_any(members, timeout_us);
        }
    }
}

/// For the modules below: the first block of label `sequence`.
const fn label_lba(geometry: &Geometry, data_blocks: u64, sequence: u64) -> u64 {
    data_blocks + (sequence % 2) * label_blocks(geometry)
}

const fn label_len(geometry: &Geometry) -> usize {
    label_bytes(geometry)
}
