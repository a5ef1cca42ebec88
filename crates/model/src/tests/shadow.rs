// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shadow doorbells: the model reads them, and asks for the register writes that it needs.

use super::*;

struct Shadow {
    host: Host,
    doorbells: Buffer,
    events: Buffer,
}

impl Shadow {
    fn new() -> Self {
        let mut host = Host::new(Config::test(), &[]);
        host.enable();
        let doorbells = host.memory.allocate(4096).unwrap();
        let events = host.memory.allocate(4096).unwrap();
        let prp = [host.bus(&doorbells), host.bus(&events)];
        host.push(0, admin::DOORBELL_BUFFER_CONFIG, 0, prp, &[]);
        host.ring(0);
        assert_eq!(host.poll(0).unwrap().status, 0);
        host.create_pair(1);
        Self {
            host,
            doorbells,
            events,
        }
    }

    /// Moves a doorbell in memory; rings the register if the model asked for it.
    fn update(&mut self, index: usize, value: u32) -> bool {
        let word = |buffer: &Buffer| {
            u32::from_le_bytes(buffer[index * 4..index * 4 + 4].try_into().unwrap())
        };
        let old = word(&self.doorbells) as u16;
        self.doorbells[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
        let event = word(&self.events) as u16;
        let new = value as u16;
        let wanted = new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old);
        if wanted {
            self.host.model.write32(DOORBELLS + index * 4, value);
        }
        wanted
    }

    fn tail(&self) -> u32 {
        self.host.pairs[1].as_ref().unwrap().tail
    }
}

#[test]
fn every_submission_is_seen_however_the_ring_wraps() {
    let mut shadow = Shadow::new();
    let mut rings = 0;
    for round in 0..100 {
        let page = shadow.host.page_bus();
        for _ in 0..=round % 5 {
            shadow.host.push(1, io::READ, 1, page, &[0, 0, 0]);
        }
        let tail = shadow.tail();
        rings += u32::from(shadow.update(2, tail));
        for _ in 0..=round % 5 {
            assert_eq!(shadow.host.peek(1).expect("it was seen").status, 0);
        }
        let head = shadow.host.pairs[1].as_ref().unwrap().head;
        rings += u32::from(shadow.update(3, head));
    }
    // At least one register write per batch; almost none for the completion queue.
    assert!((100..150).contains(&rings), "{rings}");
    shadow.host.is_innocent();
}

#[test]
fn the_shadow_counts_and_not_the_register() {
    let mut shadow = Shadow::new();
    let page = shadow.host.page_bus();
    shadow.host.push(1, io::READ, 1, page, &[0, 0, 0]);
    shadow.host.ring(1);
    assert!(shadow.host.peek(1).is_none());
    let tail = shadow.tail();
    assert!(shadow.update(2, tail));
    assert!(shadow.host.peek(1).is_some());
}

#[test]
fn a_full_completion_queue_asks_for_its_doorbell() {
    let mut shadow = Shadow::new();
    let page = shadow.host.page_bus();
    for _ in 0..2 {
        for _ in 0..10 {
            shadow.host.push(1, io::READ, 1, page, &[0, 0, 0]);
        }
        let tail = shadow.tail();
        shadow.update(2, tail);
    }
    for _ in 0..15 {
        shadow.host.peek(1).unwrap();
    }
    assert!(shadow.host.peek(1).is_none());
    assert!(shadow.update(3, 15), "the model waits for room");
    for _ in 0..5 {
        shadow.host.peek(1).unwrap();
    }
    shadow.host.is_innocent();
}

#[test]
fn buffers_must_be_whole_pages_and_values_in_range() {
    let mut shadow = Shadow::new();
    let page = shadow.host.page_bus()[0];
    let prp = [page, page + 8];
    shadow
        .host
        .push(0, admin::DOORBELL_BUFFER_CONFIG, 0, prp, &[]);
    shadow.host.ring(0);
    assert_eq!(shadow.host.poll(0).unwrap().status, 0x4002);
    shadow.update(2, 99);
    let bad = crate::Violation::DoorbellValue {
        queue: 1,
        completion: false,
        value: 99,
    };
    let violations = shadow.host.model.violations();
    assert!(!violations.is_empty() && violations.iter().all(|one| *one == bad));
}
