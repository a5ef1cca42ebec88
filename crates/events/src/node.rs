// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of a kernel module: the node that its `event.c` makes (`/dev/chario-events`).

use crate::lane::{Lane, parse};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A module's node: one lane for each processor.
#[derive(Debug)]
pub struct Node {
    file: File,
}

impl Node {
    /// Opens the node, which needs root.
    ///
    /// # Errors
    /// The module is not loaded, or stamps no events; there is no permission.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self { file })
    }

    fn tell(&mut self, word: &str) -> io::Result<()> {
        self.file.write_all(word.as_bytes())
    }

    /// Begins or continues to record.
    ///
    /// # Errors
    /// The node refused it.
    pub fn record(&mut self) -> io::Result<()> {
        self.tell("record")
    }

    /// Drops all events and the counts of lost ones.
    ///
    /// # Errors
    /// The node refused it.
    pub fn clear(&mut self) -> io::Result<()> {
        self.tell("clear")
    }

    /// Pauses, and returns the lanes.
    ///
    /// # Errors
    /// The node refused it, or does not hold a dump.
    pub fn take(&mut self) -> io::Result<Vec<Lane>> {
        self.tell("pause")?;
        let mut bytes = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut bytes)?;
        parse(&bytes).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_node_is_an_error_and_is_not_created() {
        let path = std::env::temp_dir().join(format!("events-node-{}", std::process::id()));
        assert!(Node::open(&path).is_err());
        assert!(!path.exists());
        std::fs::write(&path, []).unwrap();
        let mut node = Node::open(&path).unwrap();
        node.record().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"record");
        assert!(node.take().unwrap_err().to_string().contains("not a dump"));
        std::fs::remove_file(&path).unwrap();
    }
}
