// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of packets, in two pieces.
#![no_main]

use formats::pcapng::Unpacker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&cut, input)) = data.split_first() else {
        return;
    };
    let (first, second) = input.split_at(usize::from(cut).min(input.len()));
    let mut unpacker = Unpacker::default();
    let mut bytes = 0;
    for piece in [first, second] {
        let done = unpacker.take::<()>(piece, &mut |_, datagram| {
            bytes += datagram.len();
            Ok(())
        });
        if !matches!(done, Ok(Ok(()))) {
            break;
        }
    }
    // Each datagram's bytes are in the file.
    assert!(bytes <= input.len());
});
