// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory a mounted volume takes.

use block::Device;
use straightway_volume::{OpenFile, Volume};

#[test]
fn a_mounted_volume_takes_at_most_416_bytes_beside_its_three_nodes() {
    let bytes = size_of::<Volume<'static, &'static mut dyn Device>>();
    println!(
        "volume {bytes} bytes, an open file {} bytes",
        size_of::<OpenFile>()
    );
    assert!(bytes <= 416 + size_of::<&mut dyn Device>(), "{bytes} bytes");
}
