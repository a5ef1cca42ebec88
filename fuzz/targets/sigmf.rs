// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of samples, which a program that is not ours may have stored; and the lines of
//! gaps beside it.
#![no_main]

use formats::sigmf::Metadata;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&lines, input)) = data.split_first() else {
        return;
    };
    let (gaps, text) = input.split_at((usize::from(lines % 4) * 64).min(input.len()));
    let gaps = formats::gaps::parse("band.gaps", gaps, 1 << 20).unwrap_or_default();
    let Ok(mut metadata) = Metadata::parse("band", text) else {
        return;
    };
    let other = Metadata::parse("band", text).expect("the same text");
    let _ = metadata.join(&other, 1000, gaps.len());
    if metadata
        .complete("band", &gaps, 1 << 18, ("band.sigmf-data", "00"))
        .is_ok()
    {
        // What is written can be read again.
        let bytes = metadata.to_bytes();
        assert!(
            Metadata::parse("band", &bytes).is_ok(),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
    }
});
