// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `command`: what is sent, and what is refused.

use crate::support::{Folder, run, stderr, stdout};

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

#[test]
fn a_command_is_sent_only_by_its_name_and_with_the_serial_if_it_may_change_the_drive() {
    let folder = Folder::new();
    let disk = folder.file("disk", 4 << 20);
    let model = format!("model:4M,file={disk}");
    let page = folder.path("page");
    let refused = [
        ("admin 0x06 --read 4096", "`identify` is refused"),
        (
            "admin 0x06 --read 4096 --allow read",
            "the command is `identify`, not `read`",
        ),
        ("admin 0x80 --allow format-nvm", "--destroy-data"),
        (
            "admin 0xc1 --write page --destroy-data disk",
            "`vendor-c1` is refused",
        ),
        ("io 0x01 --write page --allow write", "--destroy-data"),
        ("admin 0x06 --allow identify", "direction of its data"),
        (
            "admin 0x06 --cdw10 1 --read 512 --allow identify",
            "was not sent",
        ),
        (
            "admin 0x00 --allow opcode-00 --destroy-data disk",
            "would change what the driver owns",
        ),
        (
            "admin 0x02 --read 8K --allow get-log-page",
            "1 to 4096 bytes",
        ),
        ("admin 0x100 --allow x", "not an opcode"),
    ];
    std::fs::write(&page, [0x5a; 512]).unwrap();
    let before = std::fs::read(&disk).unwrap();
    for (text, why) in refused {
        let text = text
            .replace("--write page", &format!("--write {page}"))
            .replace("--destroy-data disk", &format!("--destroy-data {disk}"));
        let mut all = vec!["command", &*model];
        all.extend(words(&text));
        let output = run(&all);
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert!(stderr(&output).contains(why), "{text}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(&disk).unwrap(), before);

    let identify = format!("command {model} admin 0x06 --cdw10 1 --read 4096 --allow identify");
    let text = stdout(&run(&words(&identify)));
    assert!(text.starts_with("identify: 0x0\n000000  "), "{text}");
    let wrote = format!(
        "command {model} io 0x01 --cdw10 5 --write {page} --allow write --destroy-data {disk}"
    );
    let output = run(&words(&wrote));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let got = folder.path("got");
    let read = format!("command {model} io 0x02 --cdw10 5 --read 512 --allow read --output {got}");
    let output = run(&words(&read));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read(&got).unwrap(), [0x5a; 512]);
    assert_eq!(std::fs::read(&disk).unwrap()[5 * 512..6 * 512], [0x5a; 512]);
    // NVM command set 3.2.4: dword 12 has the number of blocks less one, dword 11 the upper half of
    // the address.
    let two = folder.path("two");
    std::fs::write(&two, [0x6b; 1024]).unwrap();
    let io = format!("command {model} io 0x01 --write {two} --allow write --destroy-data {disk}");
    let output = run(&words(&format!("{io} --cdw10 7 --cdw12 1 --cdw13 0")));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        std::fs::read(&disk).unwrap()[7 * 512..9 * 512],
        [0x6b; 1024]
    );
    let output = run(&words(&format!("{io} --cdw10 7 --cdw11 1 --cdw12 1")));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let vendor = format!("command {model} admin 0xc0 --allow vendor-c0 --destroy-data {disk}");
    let output = run(&words(&vendor));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("0xc0 failed"),
        "{}",
        stderr(&output)
    );
}
