//! Which path a verb on a volume takes, and what memory it needs.

use crate::path::{Mode, PATH_HELP, PathChoice, Wish};
use crate::transfer::IoArgs;
use crate::transfer::buffer_bytes;
use crate::units::Size;
use crate::volume::store::NODE_MEMORY_BYTES;
use clap::Args;
use volume::layout::CHUNK_BYTES;

/// The longest buffer: no path moves more with one command.
pub const MAX_BUFFER_BYTES: u64 = 16 << 20;

/// How to get to the device, for verbs that move no data of their own.
#[derive(Clone, Copy, Debug, Args)]
pub struct Route {
    /// The path to the drive
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = PathChoice::parser(), help = PATH_HELP)]
    pub path: PathChoice,
    /// How completions are waited for [default: as the path's name says]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub namespace: Option<u32>,
}

impl Route {
    /// Whether the user leaves the path open.
    pub fn is_auto(self) -> bool {
        self.path == PathChoice::AUTO && self.mode.is_none()
    }

    /// The same as a way with buffers of its own.
    pub const fn with_buffers(self, block_size_bytes: u64, queue_depth: u16) -> IoArgs {
        IoArgs {
            block_size: Size(block_size_bytes),
            queue_depth,
            path: self.path,
            mode: self.mode,
            namespace: self.namespace,
        }
    }
}

/// What is wanted of the path: the way's buffers and two more, the volume's nodes, and room in the
/// queue for the volume's own requests.
pub fn wish(way: &IoArgs, write: bool) -> Wish {
    let wish = way.wish(write);
    // Where checksums are compared, a buffer has at least a chunk.
    let bytes = way.block_size.0.clamp(1, MAX_BUFFER_BYTES);
    let bytes = bytes.next_multiple_of(CHUNK_BYTES);
    let depth = way.queue_depth.min(64) + 2;
    Wish {
        buffer_bytes: buffer_bytes(bytes, depth, usize::MAX)
            .saturating_add(NODE_MEMORY_BYTES)
            .saturating_add(1 << 20),
        // One buffer may be several commands, and metadata goes beside them.
        queue_depth: way.queue_depth.saturating_mul(2).clamp(32, 4096),
        ..wish
    }
}
