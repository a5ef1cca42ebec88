// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording of messages, cut and damaged anywhere: what is rebuilt from it is whole, so that
//! rebuilding it again loses nothing.
#![no_main]

use formats::mcap::Rebuild;
use libfuzzer_sys::fuzz_target;

fn rebuilt(pieces: &[&[u8]], has_gap: bool) -> Option<(Vec<u8>, bool)> {
    let mut out = Vec::new();
    let size_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut rebuild = Rebuild::new("bag", size_bytes, |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 && has_gap {
            rebuild.gap(true).ok()?;
        }
        rebuild.feed(piece).ok()?;
    }
    let done = rebuild.finish().ok()?;
    let is_damaged = done.has_damage();
    Some((out, is_damaged))
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, input)) = data.split_first() else {
        return;
    };
    let (first, second) = input.split_at((usize::from(how >> 1) * 4).min(input.len()));
    if let Some((whole, _)) = rebuilt(&[first, second], how & 1 == 1) {
        let again = rebuilt(&[&whole], false);
        assert!(
            matches!(again, Some((_, false))),
            "what was rebuilt is damaged"
        );
    }
});
