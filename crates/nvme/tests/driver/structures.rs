// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzing of every structure that is read from the device: random pages, and good pages with
//! random damage. Nothing may panic, loop forever, or return a value out of its documented range.

use straightway_nvme::{
    Capabilities, ControllerInfo, ErrorEntry, FirmwareSlots, NamespaceInfo, Smart,
    active_namespaces, descriptors,
};

const PAGES: usize = 40_000;

fn random() -> fastrand::Rng {
    let given = std::env::var("STRAIGHTWAY_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn good_controller() -> [u8; 4096] {
    let mut page = [0; 4096];
    page[4..64].fill(b'x');
    page[77] = 5;
    page[512] = 0x66;
    page[513] = 0x44;
    page
}

fn good_namespace() -> [u8; 4096] {
    let mut page = [0; 4096];
    page[0..3].copy_from_slice(&[0, 0, 16]);
    page[130] = 9;
    page
}

fn good_descriptors() -> [u8; 4096] {
    let mut page = [0; 4096];
    page[0..2].copy_from_slice(&[1, 8]);
    page[12..14].copy_from_slice(&[2, 16]);
    page[32..34].copy_from_slice(&[3, 16]);
    page[52..54].copy_from_slice(&[4, 1]);
    page
}

fn check(page: &[u8]) {
    if let Ok(info) = ControllerInfo::parse(page) {
        for text in [
            info.serial.as_str(),
            info.model.as_str(),
            info.firmware.as_str(),
        ] {
            assert!(text.len() <= 40 && text.bytes().all(|b| (0x20..0x7f).contains(&b)));
        }
        for shift in 12..28 {
            let longest = info.max_transfer_bytes(shift);
            assert!((4096..=1 << 31).contains(&longest));
        }
    }
    if let Ok(info) = NamespaceInfo::parse(1, page) {
        assert!((9..=16).contains(&info.block_size_log2));
        assert!(info.block_count > 0 && info.size_bytes() > 0);
    }
    let list: Vec<_> = active_namespaces(page, 0).collect();
    assert!(list.len() <= 1024 && list.is_sorted_by(|a, b| a < b));
    assert!(descriptors(page).count() <= 1024);
    let slots = FirmwareSlots::parse(page);
    assert!(slots.active_slot < 8 && slots.next_slot < 8);
    Smart::parse(page);
    ErrorEntry::parse(page);
}

#[test]
fn random_pages_of_any_length() {
    let mut random = random();
    let mut page = [0; 4096];
    for _ in 0..PAGES {
        let len = random.usize(0..=4096);
        random.fill(&mut page[..len]);
        check(&page[..len]);
    }
}

#[test]
fn good_pages_with_damage() {
    let mut random = random();
    let good = [good_controller(), good_namespace(), good_descriptors()];
    for number in 0..PAGES {
        let mut page = good[number % good.len()];
        for _ in 0..random.usize(1..8) {
            // Most fields that matter are in the first 800 bytes.
            let at = random.usize(0..800);
            page[at] = if random.bool() { random.u8(..) } else { 0xff };
        }
        check(&page);
    }
}

#[test]
fn random_capabilities() {
    let mut random = random();
    for _ in 0..PAGES {
        let capabilities = Capabilities::from_register(random.u64(..));
        assert!((1..=65_536).contains(&capabilities.max_queue_entries));
        assert!((500..=127_500).contains(&capabilities.ready_timeout_ms));
        assert!((12..=27).contains(&capabilities.min_page_shift));
    }
}
