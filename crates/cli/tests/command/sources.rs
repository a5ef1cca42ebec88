// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `put` reads: pipes and files that are not what they were to be.

use crate::support::{Folder, get, names, ok, run_with_input, stderr, volume};

/// A pipe whose writer failed is empty.
#[test]
fn an_empty_pipe_replaces_nothing_and_an_empty_file_is_warned_of() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk", &[]);
    ok(&["put", &disk, &folder.file("source", 1000), "name"]);
    let output = run_with_input(&["put", &disk, "-", "name", "--force"], b"");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("`name` was left as it was") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(get(&disk, "name", &[]).len(), 1000);
    assert_eq!(names(&disk), ["name"]);
    let output = run_with_input(&["put", &disk, "-", "other"], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("warning: nothing came from standard input"));
    ok(&["put", &disk, "/dev/null", "name", "--force"]);
    assert_eq!(get(&disk, "name", &[]).len(), 0);
}
