// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several clients on one device: shares, clients that go away, and devices that fail.

use crate::client::{DISK_BYTES, PIECE_BYTES, disk, engine, limits};
use straightway_nbd::block::{
    Completion, Device, Error, Geometry, Operation, RamDisk, Refused, Request as BlockRequest,
};
use straightway_nbd::{Engine, ExportCommand, Request, Started};

fn request(command: ExportCommand, offset_bytes: u64, len_bytes: u32) -> Request {
    Request {
        cookie: offset_bytes,
        command,
        offset_bytes,
        len_bytes,
        fua: false,
    }
}

/// A device that counts its requests, fails those of one block, and may have no FUA.
struct Watched {
    disk: RamDisk<Vec<u8>, 4>,
    geometry: Geometry,
    bad_lba: Option<u64>,
    log: Vec<String>,
    failed: Vec<Completion>,
}

impl Watched {
    fn new(fua: bool, bad_lba: Option<u64>) -> Self {
        let disk = disk();
        let mut geometry = *disk.geometry();
        geometry.features.fua = fua;
        Self {
            disk,
            geometry,
            bad_lba,
            log: Vec::new(),
            failed: Vec::new(),
        }
    }
}

impl Device for Watched {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: BlockRequest) -> Result<(), Refused> {
        let (lba, text) = match &request.operation {
            Operation::Read { lba, .. } => (*lba, "read"),
            Operation::Write { lba, fua: true, .. } => (*lba, "write fua"),
            Operation::Write { lba, .. } => (*lba, "write"),
            Operation::Flush => (u64::MAX, "flush"),
            _ => (u64::MAX, "other"),
        };
        if Some(lba) == self.bad_lba {
            let tag = request.tag;
            let buffer = request.operation.into_buffer();
            let result = Err(Error::Nvme { status: 0x281 });
            self.failed.push(Completion {
                tag,
                buffer,
                result,
            });
            return Ok(());
        }
        self.disk.submit(request)?;
        self.log.push(text.to_owned());
        Ok(())
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.failed.pop().or_else(|| self.disk.poll())
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding() + self.failed.len()
    }
}

fn begin(engine: &mut Engine, client: usize, one: Request) -> bool {
    matches!(engine.begin(client, one), Started::Accepted(_))
}

#[test]
fn a_client_that_takes_no_answer_stops_only_itself() {
    let (mut disk, mut engine) = (disk(), engine(2));
    let most = limits().max_payload_bytes();
    assert!(begin(&mut engine, 0, request(ExportCommand::Read, 1, most)));
    assert!(!begin(
        &mut engine,
        0,
        request(ExportCommand::Read, 0, most)
    ));
    while engine.turn(&mut disk) {}
    let kept = engine.answer().unwrap();
    assert_eq!(kept.data_bytes(), most as usize);
    // It still holds the buffers.
    assert!(!begin(
        &mut engine,
        0,
        request(ExportCommand::Read, 0, most)
    ));
    assert!(begin(&mut engine, 1, request(ExportCommand::Read, 0, most)));
    while engine.turn(&mut disk) {}
    let other = engine.answer().unwrap();
    assert_eq!((other.client, other.error), (1, None));
    engine.give_back(other);
    engine.give_back(kept);
    assert!(begin(&mut engine, 0, request(ExportCommand::Read, 0, most)));
}

#[test]
fn requests_without_data_are_limited_too() {
    let mut engine = engine(1);
    for _ in 0..limits().jobs {
        assert!(begin(&mut engine, 0, request(ExportCommand::Flush, 0, 0)));
    }
    assert!(!begin(&mut engine, 0, request(ExportCommand::Flush, 0, 0)));
}

#[test]
fn a_write_whose_client_goes_away_is_not_begun() {
    let (mut device, mut engine) = (Watched::new(true, None), engine(1));
    let Started::Accepted(key) = engine.begin(0, request(ExportCommand::Write, 0, 4096)) else {
        panic!("no room");
    };
    for _ in 0..3 {
        let len = engine.space(key).len();
        assert_eq!(len, PIECE_BYTES);
        engine.filled(key, len);
    }
    // Neither is what was not given to the device.
    assert!(begin(&mut engine, 0, request(ExportCommand::Read, 0, 512)));
    engine.abandon(0);
    while engine.turn(&mut device) {}
    assert!(device.log.is_empty(), "{:?}", device.log);
    assert!(engine.answer().is_none());
    assert_eq!(engine.outstanding(), 0);
    assert_eq!(engine.into_buffers().len(), limits().pieces);
}

/// A device that executes writes of one value when it is told to, and the others at once.
struct Late {
    disk: RamDisk<Vec<u8>, 4>,
    geometry: Geometry,
    held: Vec<BlockRequest>,
}

impl Device for Late {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: BlockRequest) -> Result<(), Refused> {
        match &request.operation {
            Operation::Write { buffer, .. } if buffer.first() == Some(&b'A') => {
                self.held.push(request);
                Ok(())
            }
            _ => self.disk.submit(request),
        }
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding() + self.held.len()
    }
}

#[test]
fn a_write_of_a_client_that_is_gone_never_overwrites_a_newer_one() {
    let disk = disk();
    let geometry = *disk.geometry();
    let mut device = Late {
        disk,
        geometry,
        held: Vec::new(),
    };
    let mut engine = engine(2);
    let write = |engine: &mut Engine, client, offset, value| {
        let Started::Accepted(key) =
            engine.begin(client, request(ExportCommand::Write, offset, 512))
        else {
            panic!("no room");
        };
        engine.space(key)[..512].fill(value);
        engine.filled(key, 512);
    };
    write(&mut engine, 0, 512, b'A');
    engine.turn(&mut device);
    // The client connects again, with the first connection's request at the device, and writes what
    // is newer, and elsewhere.
    engine.abandon(0);
    write(&mut engine, 1, 512, b'B');
    write(&mut engine, 1, 1024, b'C');
    while engine.turn(&mut device) {}
    let elsewhere = engine.answer().unwrap();
    assert_eq!(elsewhere.request.cookie, 1024);
    engine.give_back(elsewhere);
    assert!(engine.answer().is_none(), "the newer write has to wait");
    // The device executes the old one.
    for request in std::mem::take(&mut device.held) {
        device.disk.submit(request).unwrap();
    }
    while engine.turn(&mut device) {}
    let newer = engine.answer().unwrap();
    assert_eq!(
        (newer.client, newer.request.cookie, newer.error),
        (1, 512, None)
    );
    engine.give_back(newer);
    assert!(begin(
        &mut engine,
        1,
        request(ExportCommand::Read, 512, 512)
    ));
    while engine.turn(&mut device) {}
    let read = engine.answer().unwrap();
    assert_eq!(read.data(0)[0], b'B');
    engine.give_back(read);
    assert_eq!(engine.outstanding(), 0);
    assert_eq!(engine.into_buffers().len(), 2 * limits().pieces);
}

#[test]
fn a_write_that_is_cancelled_is_not_begun_and_others_are() {
    let (mut device, mut engine) = (Watched::new(true, None), engine(1));
    let Started::Accepted(key) = engine.begin(0, request(ExportCommand::Write, 0, 4096)) else {
        panic!("no room");
    };
    let len = engine.space(key).len();
    engine.filled(key, len);
    assert!(begin(&mut engine, 0, request(ExportCommand::Read, 0, 512)));
    engine.cancel(key);
    while engine.turn(&mut device) {}
    assert_eq!(device.log, ["read"]);
    let answer = engine.answer().unwrap();
    assert_eq!(answer.request.command, ExportCommand::Read);
    engine.give_back(answer);
    assert!(engine.answer().is_none());
    assert_eq!((engine.outstanding(), engine.outstanding_of(0)), (0, 0));
    assert_eq!(engine.into_buffers().len(), limits().pieces);
}

#[test]
fn a_device_that_fails_a_block_fails_its_request_only() {
    let (mut device, mut engine) = (Watched::new(true, Some(4)), engine(1));
    // In pieces of two blocks: blocks 4 and 5 fail.
    assert!(begin(&mut engine, 0, request(ExportCommand::Read, 0, 4096)));
    assert!(begin(
        &mut engine,
        0,
        request(ExportCommand::Read, 8192, 512)
    ));
    while engine.turn(&mut device) || device.outstanding() > 0 {}
    let mut answers: Vec<_> = std::iter::from_fn(|| engine.answer()).collect();
    answers.sort_by_key(|answer| answer.request.cookie);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].error, Some(Error::Nvme { status: 0x281 }));
    assert_eq!((answers[0].data_bytes(), answers[0].data(0).len()), (0, 0));
    let mut out = Vec::new();
    straightway_nbd::put_head(&answers[0], false, &mut out);
    assert_eq!(out[4..8], [0, 0, 0, 5], "EIO");
    assert_eq!(answers[1].error, None);
    answers.into_iter().for_each(|one| engine.give_back(one));
    assert_eq!(engine.into_buffers().len(), limits().pieces);
}

#[test]
fn a_durable_write_is_fua_where_the_device_has_it_and_a_flush_elsewhere() {
    for (fua, log) in [
        (true, ["write fua", "write fua"].as_slice()),
        (false, &["write", "write", "flush"]),
    ] {
        let mut device = Watched::new(fua, None);
        let limits = limits();
        let buffers = engine(1).into_buffers();
        let mut engine = Engine::new(device.geometry(), limits, 1, buffers);
        let one = Request {
            fua: true,
            ..request(ExportCommand::Write, 0, 2048)
        };
        let Started::Accepted(key) = engine.begin(0, one) else {
            panic!("no room");
        };
        while !engine.space(key).is_empty() {
            let len = engine.space(key).len();
            engine.filled(key, len);
        }
        while engine.turn(&mut device) || device.outstanding() > 0 {}
        assert_eq!(engine.answer().unwrap().error, None);
        assert_eq!(device.log, log, "fua {fua}");
    }
}

#[test]
fn every_read_of_a_small_disk_has_its_bytes() {
    let (mut disk, mut engine) = (disk(), engine(1));
    let content = crate::client::content();
    for (offset, len) in [
        (0, 1),
        (511, 2),
        (1023, 1025),
        (777, 4000),
        (DISK_BYTES - 1, 1),
    ] {
        assert!(begin(
            &mut engine,
            0,
            request(ExportCommand::Read, offset, len)
        ));
        while engine.turn(&mut disk) {}
        let answer = engine.answer().unwrap();
        let mut data: Vec<u8> = Vec::new();
        while data.len() < answer.data_bytes() {
            data.extend(answer.data(data.len()));
        }
        let from = offset as usize;
        assert!(data == content[from..from + len as usize], "{offset} {len}");
        engine.give_back(answer);
    }
}
