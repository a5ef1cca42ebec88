// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admin and I/O commands of a healthy controller, and their error statuses.

use super::*;
use crate::config::NamespaceConfig;
use crate::logs::AsyncEvent;
use crate::random::{Random, seed};

fn word(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().unwrap())
}

#[test]
fn identify_pages_say_what_was_configured() {
    let mut config = Config::with_namespaces(vec![
        NamespaceConfig::ram(1, 1 << 20, 9),
        NamespaceConfig::ram(7, 1 << 20, 12),
    ]);
    config.time = crate::Time::VIRTUAL;
    let mut host = Host::new(config, &[]);
    host.enable();
    let page = host.page_bus()[0];
    let mut identify = |cns, nsid| {
        let status = host.admin(admin::IDENTIFY, nsid, page, &[cns]).status;
        (status, host.page.to_vec())
    };
    let (status, controller) = identify(1, 0);
    assert_eq!((status, controller[77], controller[512]), (0, 8, 0x66));
    assert_eq!(&controller[4..13], b"MODEL0001");
    let (_, small) = identify(0, 1);
    assert_eq!((word(&small, 0), small[130]), (2048, 9));
    let (_, large) = identify(0, 7);
    assert_eq!((word(&large, 0), large[130]), (256, 12));
    let (_, none) = identify(0, 3);
    assert!(none.iter().all(|&byte| byte == 0));
    let (_, list) = identify(2, 0);
    assert_eq!((word(&list, 0), word(&list, 8)), (7 << 32 | 1, 0));
    let (_, list) = identify(2, 1);
    assert_eq!(word(&list, 0), 7);
    let (_, names) = identify(3, 7);
    assert_eq!(
        (&names[..4], &names[12..16]),
        (&[1, 8, 0, 0][..], &[2, 16, 0, 0][..])
    );
    for (cns, nsid) in [(0, 0), (0, 8), (0, u32::MAX), (2, u32::MAX), (3, 3)] {
        assert_eq!(identify(cns, nsid).0, 0x400b, "{cns} {nsid}");
    }
    assert_eq!(identify(0x77, 0).0, 0x4002);
    host.is_innocent();
}

#[test]
fn queues_are_made_and_deleted_as_the_specification_says() {
    let mut host = Host::ready(Config::test(), &[]);
    let page = host.page_bus()[0];
    let cq = admin::CREATE_COMPLETION_QUEUE;
    let sq = admin::CREATE_SUBMISSION_QUEUE;
    let size = |id: u32| 15 << 16 | id;
    for (opcode, prp, dwords, status) in [
        (cq, page, [size(0), 1], 0x4101),
        (cq, page, [size(1), 1], 0x4101),
        (cq, page, [size(17), 1], 0x4101),
        (cq, page, [2, 1], 0x4102),
        (cq, page, [4096 << 16 | 2, 1], 0x4102),
        (cq, page, [size(2), 0], 0x4002),
        (cq, page + 8, [size(2), 1], 0x4013),
        (cq, page, [size(2), 17 << 16 | 3], 0x4108),
        (sq, page, [size(0), 1 << 16 | 1], 0x4101),
        (sq, page, [size(1), 1 << 16 | 1], 0x4101),
        (sq, page, [size(2), 2 << 16 | 1], 0x4100),
        (sq, page, [size(2), 1], 0x4101),
        (sq, page, [size(2), 99 << 16 | 1], 0x4101),
        (sq, page, [size(2), 1 << 16], 0x4002),
        (admin::DELETE_COMPLETION_QUEUE, 0, [1, 0], 0x410c),
        (admin::DELETE_COMPLETION_QUEUE, 0, [0, 0], 0x4101),
        (admin::DELETE_SUBMISSION_QUEUE, 0, [0, 0], 0x4101),
        (admin::DELETE_SUBMISSION_QUEUE, 0, [2, 0], 0x4101),
        // Number of Queues comes before the first queue.
        (admin::SET_FEATURES, 0, [7, 0], 0x400c),
        (admin::DELETE_SUBMISSION_QUEUE, 0, [1, 0], 0),
        (admin::DELETE_COMPLETION_QUEUE, 0, [1, 0], 0),
        (admin::SET_FEATURES, 0, [7, 0xffff], 0x4002),
        (admin::SET_FEATURES, 0, [7, 0x1_0001], 0),
        (cq, page, [size(3), 1], 0x4101),
        (0x55, 0, [0, 0], 0x4001),
    ] {
        let entry = host.admin(opcode, 0, prp, &dwords);
        assert_eq!(entry.status, status, "{opcode:#x} {dwords:x?}");
    }
    host.is_innocent();
}

#[test]
fn features_keep_what_they_are_set_to() {
    let mut host = Host::new(Config::test(), &[]);
    host.enable();
    let mut set = |feature, value| {
        let entry = host.admin(admin::SET_FEATURES, 0, 0, &[feature, value]);
        let get = host.admin(admin::GET_FEATURES, 0, 0, &[feature & 0xff, value]);
        (entry.status, entry.specific, get.specific)
    };
    assert_eq!(set(7, 3 << 16 | 5), (0, 3 << 16 | 5, 3 << 16 | 5));
    assert_eq!(set(7, 0xfffe_fffe), (0, 15 << 16 | 15, 15 << 16 | 15));
    assert_eq!(set(6, 0), (0, 0, 0));
    assert_eq!(set(8, 0x1234), (0, 0, 0x1234));
    assert_eq!(set(9, 1 << 16 | 2), (0, 0, 1 << 16 | 2));
    assert_eq!(set(9, 17).0, 0x4002);
    assert_eq!(set(4, 350), (0, 0, 350));
    assert_eq!(set(1 << 31 | 4, 350).0, 0x410d);
    assert_eq!(set(0x7e, 0).0, 0x4002);
    assert_eq!(set(2, 1).0, 0x4002);
    assert_eq!(
        host.admin(admin::GET_FEATURES, 0, 0, &[3 << 8 | 6])
            .specific,
        4
    );
    assert_eq!(
        host.admin(admin::GET_FEATURES, 0, 0, &[1 << 8 | 6])
            .specific,
        1
    );
}

#[test]
fn log_pages_count_what_happened() {
    let mut host = Host::ready(Config::test(), &[]);
    assert_eq!(host.write(0, 1, 0), 0);
    host.read(0);
    assert_eq!(host.io(0x7f, [0; 2], 5, 1), 0x4001);
    let page = host.page_bus()[0];
    let log =
        |host: &mut Host, id: u32| host.admin(admin::GET_LOG_PAGE, 0, page, &[127 << 16 | id]);
    assert_eq!(log(&mut host, 2).status, 0);
    let counts = [32, 48, 64, 80, 176].map(|at| word(&host.page, at));
    assert_eq!(counts, [1, 1, 1, 1, 1]);
    assert_eq!(log(&mut host, 1).status, 0);
    assert_eq!((word(&host.page, 0), word(&host.page, 16)), (1, 5));
    assert_eq!(&host.page[8..10], &[1, 0]);
    assert_eq!(log(&mut host, 3).status, 0);
    assert_eq!(&host.page[8..11], b"1.0");
    assert_eq!(log(&mut host, 0x55).status, 0x4109);
    host.is_innocent();
}

#[test]
fn events_come_when_they_are_asked_for() {
    let mut host = Host::new(Config::test(), &[]);
    host.enable();
    let request = |host: &mut Host| {
        host.push(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], &[]);
        host.ring(0);
    };
    for _ in 0..4 {
        request(&mut host);
    }
    assert!(host.poll(0).is_none());
    request(&mut host);
    assert_eq!(host.poll(0).unwrap().status, 0x4105);
    host.model.event(AsyncEvent::TEMPERATURE);
    host.model.event(AsyncEvent::TEMPERATURE);
    host.model.event(AsyncEvent::NAMESPACE_CHANGED);
    assert_eq!(host.poll(0).unwrap().specific, 0x02_0101);
    assert_eq!(host.poll(0).unwrap().specific, 0x04_0002);
    assert!(host.poll(0).is_none(), "the health log must be read first");
    let page = host.page_bus()[0];
    host.push(0, admin::GET_LOG_PAGE, 0, [page, 0], &[127 << 16 | 2]);
    host.ring(0);
    assert_eq!(host.poll(0).unwrap().specific, 0x02_0101);
    assert_eq!(host.poll(0).unwrap().status, 0);
}

#[test]
fn data_survives_any_shape_of_prp_list() {
    let seed = seed(0x5eed);
    let mut random = Random::new(seed);
    let memory = BusMemory::scattered(2 << 20, 8 << 20, 12, seed).unwrap();
    let mut config = Config::test();
    config.mdts = 10;
    let mut host = Host::on(memory.clone(), config, &[]);
    host.enable();
    host.create_pair(1);
    let list = memory.allocate_contiguous(4096 * 4, 4096).unwrap();
    let mut list = Some(list);
    for round in 0..40 {
        let shift = random.below(13);
        let blocks = match round {
            0 => 8192,
            _ => 1 + random.below(1 << shift) as usize,
        };
        let len = blocks * 512;
        let offset = random.below(1024) as usize * 4;
        let mut data = memory.allocate(offset + len).unwrap();
        random.fill(&mut data);
        let copy = data[offset..].to_vec();
        let lba = random.below(32_768 - blocks as u64 + 1);
        let list_offset = random.below(512) as usize * 8;
        let mut pages = list.take().unwrap();
        let prp = prps(
            &memory,
            data.address() + offset,
            len,
            &mut pages,
            list_offset,
        );
        assert_eq!(
            host.io(io::WRITE, prp, lba, blocks as u32),
            0,
            "round {round}"
        );
        data.fill(0);
        assert_eq!(host.io(io::READ, prp, lba, blocks as u32), 0);
        assert!(data[offset..] == copy, "round {round}");
        assert!(data[..offset].iter().all(|&byte| byte == 0));
        memory.give_back(data).unwrap();
        list = Some(pages);
    }
    host.is_innocent();
}

/// PRP entries of `[address, address + len)`, with the list at `at` in `list`.
fn prps(
    memory: &BusMemory,
    address: usize,
    len: usize,
    list: &mut Buffer,
    mut at: usize,
) -> [u64; 2] {
    let bus = |address| memory.bus_address(address).unwrap();
    let mut next = address / 4096 * 4096 + 4096;
    let mut entries = Vec::new();
    while next < address + len {
        entries.push(bus(next));
        next += 4096;
    }
    let first = bus(address);
    match entries[..] {
        [] => return [first, 0],
        [second] => return [first, second],
        _ => {}
    }
    let start = bus(list.address() + at);
    let mut left = entries.len();
    for entry in entries {
        if at % 4096 == 4088 && left > 1 {
            let pointer = bus(list.address() + at + 8);
            list[at..at + 8].copy_from_slice(&pointer.to_le_bytes());
            at += 8;
        }
        list[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        at += 8;
        left -= 1;
    }
    [first, start]
}

#[test]
fn io_errors_have_their_status() {
    let mut config = Config::test();
    config.mdts = 1;
    let mut host = Host::ready(config, &[]);
    let page = host.page_bus()[0];
    let (read, write) = (io::READ, io::WRITE);
    for (opcode, prp, lba, count, status) in [
        (read, [page, 0], 32_768, 1, 0x4080),
        (write, [page, 0], 32_767, 2, 0x4080),
        (read, [page, 0], u64::MAX, 1, 0x4080),
        (read, [page, 0], 0, 17, 0x4002),
        (read, [page + 2, 0], 0, 1, 0x4013),
        (read, [page, page + 4], 0, 16, 0x4013),
        (write, [page + 512, page + 12], 0, 16, 0x4013),
        (io::WRITE_ZEROES, [0, 0], 32_767, 2, 0x4080),
        (5, [page, 0], 0, 1, 0x4001),
    ] {
        assert_eq!(
            host.io(opcode, prp, lba, count),
            status,
            "{opcode} {lba:#x} {count}"
        );
    }
    let id = host.push(1, read, 9, [page, 0], &[0, 0, 0]);
    host.ring(1);
    let entry = host.poll(1).unwrap();
    assert_eq!((entry.id, entry.status), (id, 0x400b));
    host.is_innocent();
    // Outside of the buffers: recorded, and an error.
    assert_eq!(host.io(read, [page + 4096, 0], 0, 1), 4);
    assert_eq!(host.io(read, [page + 4096 - 4, page + 4096], 0, 1), 4);
    assert_eq!(host.io(read, [0, 0], 0, 1), 4);
    assert_eq!(host.model.violations().len(), 3);
}

#[test]
fn blocks_are_zeroed_and_deallocated() {
    for write_cache in [false, true] {
        let mut config = Config::test();
        config.volatile_write_cache = write_cache;
        let mut host = Host::ready(config, &[]);
        for lba in 0..8 {
            assert_eq!(host.write(lba, lba as u8 + 1, 0), 0);
        }
        assert_eq!(host.io(io::WRITE_ZEROES, [0; 2], 1, 2), 0);
        let page = host.page_bus();
        host.page.fill(0);
        // Two ranges: one block at 4, two at 6.
        host.page[4] = 1;
        host.page[8] = 4;
        host.page[20] = 2;
        host.page[24] = 6;
        host.push(1, io::DATASET_MANAGEMENT, 1, page, &[1, 4]);
        host.ring(1);
        assert_eq!(host.poll(1).unwrap().status, 0);
        let values: Vec<u8> = (0..8).map(|lba| host.read(lba)).collect();
        assert_eq!(values, [1, 0, 0, 4, 0, 6, 0, 0]);
        host.page[4..8].fill(0xff);
        host.push(1, io::DATASET_MANAGEMENT, 1, page, &[0, 4]);
        host.ring(1);
        assert_eq!(host.poll(1).unwrap().status, 0x4080);
        host.is_innocent();
    }
}

#[test]
fn a_power_cut_loses_what_was_not_flushed() {
    let mut host = Host::ready(Config::test(), &[]);
    host.write(0, 1, 0);
    assert_eq!(host.io(io::FLUSH, [0; 2], 0, 1), 0);
    host.write(0, 2, 0);
    host.write(1, 3, 1 << 30);
    host.write(2, 4, 0);
    assert_eq!((host.read(0), host.model.unflushed_blocks()), (2, 2));
    host.model.power_cut();
    assert_eq!(host.model.read32(CSTS), 0);
    host.enable();
    host.create_pair(1);
    assert_eq!([0, 1, 2].map(|lba| host.read(lba)), [1, 3, 0]);

    for lba in 0..64 {
        host.write(lba, 9, 0);
    }
    host.model.power_cut_partly(seed(3));
    host.enable();
    host.create_pair(1);
    let kept = (0..64).filter(|&lba| host.read(lba) == 9).count();
    assert!(kept > 0 && kept < 64, "{kept}");

    // A normal shutdown, and turning the cache off, flush.
    host.write(5, 7, 0);
    assert_eq!(host.admin(admin::SET_FEATURES, 0, 0, &[6, 0]).status, 0);
    assert_eq!(host.model.unflushed_blocks(), 0);
    host.is_innocent();
}
