// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Record and play: clients' stream commands, checked and passed to the futures that run the
//! streams. A stream has exclusive use of one of its client's files, whose number identifies the
//! stream.
//!
//! The commands of a stream wait here until its future takes them, in order of arrival. The data is
//! never copied here: it stays in the ring in the client's part of the window.

use core::future::poll_fn;
use core::task::Poll;

use block::{Buffer, Clock, Device};
use volume::DataEvent;

use super::Service;
use super::files::Files;
use super::session::{Phase, Taken};
use super::slots::{BlockCommand, EndCommand, Slot, Start};
use super::state::{NO_HANDLE, State};
use super::transfer::Asker;
use crate::command::{Opcode, RingCommand};
use crate::layout::{ORDER_BYTES, REPORT_BYTES, STREAM_PLACES};
use crate::order::{ORDER_GAPS, ORDER_VERIFY, Order};
use crate::status::{Code, CompletionStatus, StreamEnd};

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// Begins a command of a stream, or returns why not.
    pub(super) fn begin_stream(
        &self,
        service: &mut Service,
        asker: Asker,
        taken: &Taken,
    ) -> Result<(), CompletionStatus> {
        let command = &taken.command;
        let is_play = matches!(
            command.opcode,
            Opcode::Play | Opcode::PlayBlock | Opcode::PlayEnd
        );
        match command.opcode {
            Opcode::Record | Opcode::Play => {
                let start = self.checked(service, asker, command, is_play)?;
                let mut state = self.state();
                let free = state.streams.slots.iter_mut().find(|slot| slot.is_none());
                *free.ok_or(Code::StreamBusy)? = Some(Slot {
                    start,
                    has_begun: false,
                    blocks: [BlockCommand::default(); STREAM_PLACES],
                    first: 0,
                    count: 0,
                    end: None,
                });
                state.lend(&start, true);
                Ok(())
            }
            Opcode::RecordBlock | Opcode::PlayBlock => {
                let (handle, _) = self.state().handle(asker.client, command.extra)?;
                let mut state = self.state();
                let slot = state.streams.of(handle, is_play)?;
                // A block has the deadline of its stream.
                if command.deadline_ms != 0 {
                    return Err(Code::BadField.into());
                }
                if slot.end.is_some() {
                    return Err(Code::StreamEnded.into());
                }
                let at = (slot.first + slot.count) % STREAM_PLACES;
                let place = slot.blocks.get_mut(at);
                let place = place.filter(|_| slot.count < STREAM_PLACES);
                *place.ok_or(block::Error::Busy)? = BlockCommand {
                    id: asker.id,
                    len_bytes: command.data_bytes,
                    number: command.argument,
                    seen_at: taken.seen_at,
                };
                slot.count += 1;
                Ok(())
            }
            _ => {
                let (handle, _) = self.state().handle(asker.client, command.extra)?;
                let data = data(service, asker.client, command, REPORT_BYTES)?;
                let mut state = self.state();
                let slot = state.streams.of(handle, is_play)?;
                if slot.end.is_some() {
                    return Err(Code::StreamEnded.into());
                }
                slot.end = Some(EndCommand {
                    asker,
                    data,
                    count: command.argument,
                });
                Ok(())
            }
        }
    }

    /// Checks each number of an order.
    fn checked(
        &self,
        service: &Service,
        asker: Asker,
        command: &RingCommand,
        is_play: bool,
    ) -> Result<Start, CompletionStatus> {
        let mut table = [0; ORDER_BYTES];
        let at = data(service, asker.client, command, ORDER_BYTES)?;
        service.window.copy_out(at, &mut table);
        let order = Order::decode(&table)?;
        let allowed = if is_play { ORDER_VERIFY } else { ORDER_GAPS };
        let places = order.places as usize;
        let is_good = order.flags & !allowed == 0
            && order.block_bytes > 0
            && (1..=STREAM_PLACES).contains(&places);
        let ring_bytes = places.checked_mul(order.block_bytes as usize);
        let (Some(ring_bytes), true) = (ring_bytes, is_good) else {
            return Err(Code::BadField.into());
        };
        let session = service.sessions.get(usize::from(asker.client));
        let session = session.ok_or(Code::BadField)?;
        let ring = session.data_offset(order.ring_offset, ring_bytes)?;
        let (handle, opened) = self.state().free_handle(asker.client, command.extra)?;
        if !is_play {
            opened.can_append()?;
        }
        let mut start = Start {
            asker,
            order,
            file: opened.file,
            gap_file: None,
            handle: handle as u8,
            gap_handle: NO_HANDLE,
            is_play,
            ring,
            gap_block: 0,
        };
        if order.flags & ORDER_GAPS != 0 {
            let (gap_handle, opened) = self.state().free_handle(asker.client, order.gap_file)?;
            opened.can_append()?;
            let block = service.geometry.block_size_bytes();
            let gap_block = session.data_offset(order.gap_offset, block)?;
            let is_apart = gap_block + block <= ring || ring + ring_bytes <= gap_block;
            if gap_handle == handle || !is_apart {
                return Err(Code::BadField.into());
            }
            start.gap_file = Some(opened.file);
            start.gap_handle = gap_handle as u8;
            start.gap_block = gap_block;
        }
        Ok(start)
    }

    /// Runs one stream after another; never returns.
    pub(super) async fn run_streams(&self, index: usize) {
        loop {
            let start = poll_fn(|_| self.wanted(index)).await;
            if self.is_too_late(&start.asker) {
                let late = Err(CompletionStatus::from(block::Error::TimedOut));
                self.begun(&start, late);
            } else if start.is_play {
                self.play(index, &start).await;
            } else {
                self.record(index, &start).await;
            }
            self.release(index);
        }
    }

    /// The stream of a place, once every earlier command on its files has completed.
    fn wanted(&self, index: usize) -> Poll<Start> {
        let mut state = self.state();
        let Some(slot) = state.streams.slot(index) else {
            return Poll::Pending;
        };
        let start = slot.start;
        if state.uses(start.handle) || state.uses(start.gap_handle) {
            return Poll::Pending;
        }
        state.has_moved = true;
        if let Some(slot) = state.streams.slot(index) {
            slot.has_begun = true;
        }
        Poll::Ready(start)
    }

    /// Answers the command that began a stream.
    pub(super) fn begun(&self, start: &Start, result: Result<u64, CompletionStatus>) {
        let (status, value) = match result {
            Ok(value) => (CompletionStatus::OK, value),
            Err(status) => (status, 0),
        };
        let asker = &start.asker;
        self.tell(start, asker.id, status, value, self.is_too_late(asker));
    }

    /// Answers a command of a stream.
    pub(super) fn tell(
        &self,
        start: &Start,
        id: u16,
        status: CompletionStatus,
        value: u64,
        late: bool,
    ) {
        self.state().has_moved = true;
        let mut service = self.service();
        if let Some(session) = service.sessions.get_mut(usize::from(start.asker.client)) {
            session.answer(id, status, value, late);
        }
    }

    /// The event that arrived for a stream.
    pub(super) fn take_stream_event(&self, index: usize) -> Option<DataEvent> {
        let mut state = self.state();
        let (_, event) = state.streams.event.take_if(|(whose, _)| *whose == index)?;
        Some(event)
    }

    /// The next block command of a stream.
    pub(super) fn next_block(&self, index: usize) -> Option<BlockCommand> {
        let mut state = self.state();
        let slot = state.streams.slot(index)?;
        if slot.count == 0 {
            return None;
        }
        let block = slot.blocks.get(slot.first).copied();
        slot.first = (slot.first + 1) % STREAM_PLACES;
        slot.count -= 1;
        block
    }

    /// The command that ends a stream, if it has arrived.
    pub(super) fn end_of(&self, index: usize) -> Option<EndCommand> {
        self.state().streams.slot(index)?.end
    }

    /// Whether the stream's client has disappeared.
    pub(super) fn is_orphan(&self, start: &Start) -> bool {
        let service = self.service();
        let session = service.sessions.get(usize::from(start.asker.client));
        session.is_none_or(|session| session.phase != Phase::Open)
    }

    /// The buffer of a place of the ring.
    pub(super) fn place_buffer(&self, start: &Start, place: u64) -> Option<Buffer> {
        let len = start.order.block_bytes as usize;
        let place = (place % u64::from(start.order.places.max(1))) as usize;
        self.window().buffer(start.ring + place * len, len)
    }

    /// The block for the companion's lines.
    pub(super) fn gap_buffer(&self, start: &Start) -> Option<Buffer> {
        let block = self.volume.geometry().block_size_bytes();
        self.window().buffer(start.gap_block, block)
    }

    /// The time now, and the time of a command that was seen at `seen_at`.
    pub(super) fn times(&self, seen_at: u32) -> (u64, u64) {
        let now = self.clock().ticks();
        let ago = (now as u32).wrapping_sub(seen_at);
        (now, now.saturating_sub(u64::from(ago)))
    }

    /// Finishes a stream: waits until its client asks for the end, and reports everything. Blocks
    /// that arrive in the meantime are refused.
    pub(super) async fn conclude<R: Fn(&mut [u8; REPORT_BYTES])>(
        &self,
        index: usize,
        start: &Start,
        end: StreamEnd,
        value: u64,
        report: R,
    ) {
        poll_fn(|_| {
            while let Some(block) = self.next_block(index) {
                self.tell(start, block.id, Code::StreamEnded.into(), 0, false);
            }
            let Some(command) = self.end_of(index) else {
                return if self.is_orphan(start) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            };
            let mut table = [0; REPORT_BYTES];
            report(&mut table);
            self.window().copy_in(command.data, &table);
            if let Some(slot) = self.state().streams.slot(index) {
                slot.end = None;
            }
            let late = self.is_too_late(&command.asker);
            self.tell(start, command.asker.id, end.status, value, late);
            Poll::Ready(())
        })
        .await;
    }

    /// Gives a stream's files back to its client, and refuses commands that arrived too late.
    fn release(&self, index: usize) {
        let mut state = self.state();
        let taken = state.streams.slots.get_mut(index).and_then(Option::take);
        let Some(mut slot) = taken else { return };
        state.lend(&slot.start, false);
        drop(state);
        let refused = CompletionStatus::from(Code::NoStream);
        while slot.count > 0 {
            if let Some(block) = slot.blocks.get(slot.first) {
                self.tell(&slot.start, block.id, refused, 0, false);
            }
            slot.first = (slot.first + 1) % STREAM_PLACES;
            slot.count -= 1;
        }
        if let Some(end) = slot.end {
            self.tell(&slot.start, end.asker.id, refused, 0, false);
        }
    }
}

impl State {
    /// Assigns a stream's files to it, or takes them back.
    fn lend(&mut self, start: &Start, is_lent: bool) {
        for handle in [start.handle, start.gap_handle] {
            if let Some(handle) = self.handle_mut(usize::from(handle)) {
                handle.has_stream = is_lent;
            }
        }
    }
}

/// The offset of a command's table in the window; its length is fixed.
fn data(service: &Service, client: u8, command: &RingCommand, bytes: usize) -> Result<usize, Code> {
    if command.data_bytes as usize != bytes {
        return Err(Code::BadField);
    }
    let session = service.sessions.get(usize::from(client));
    let session = session.ok_or(Code::BadField)?;
    session.data_offset(command.data_offset, bytes)
}
