// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file into a stream. The bytes are never copied. If checksums are verified, or the device
//! itself keeps this thread busy, another thread verifies the data and writes it to the sink.

use crate::chunks::differences;
use crate::flow::{Flow, Sums};
use crate::{Mounted, shown};
use devices::Bar;
use devices::cancel::Cancel;
use devices::error::{Error, ErrorKind, Result};
use devices::transfer::Span;
use devices::transfer::pump::{Finished, Job, Sink, drain as pump};
use remedy::{Part as Word, Setting, words};
use volume::File;
use volume::layout::CHUNK_BYTES;

/// What to read.
#[derive(Clone, Debug)]
pub struct Part<'n> {
    /// The file's name.
    pub name: &'n str,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// The file's size.
    pub size_bytes: u64,
    /// The expected checksums.
    pub sums: Sums,
    /// Whether to continue after a chunk that does not match its checksum.
    pub past_rot: bool,
    /// Sizes and number of the requests.
    pub pace: Span,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Bytes that the sink accepted.
    pub bytes: u64,
    /// Device commands for these bytes.
    pub requests: u64,
    /// Offsets of the chunks that do not match their checksums.
    pub rot: Vec<u64>,
}

/// Reads `part` into `sink`, and advances `bar`. Nothing is in flight when it returns.
///
/// # Errors
/// The volume or the sink failed, the user cancelled, or data does not match its checksum, which
/// ends with [`ErrorKind::Rot`]. Everything before the failure was delivered.
pub fn drain(
    mounted: &Mounted<'_, '_>,
    part: &Part<'_>,
    sink: &mut Sink<'_>,
    bar: &Bar,
    cancel: &Cancel,
) -> Result<Drained> {
    let doing = || format!("reading `{}`", shown(part.name));
    let file = mounted.run(doing(), mounted.volume.open(part.name))?;
    let drained = drain_open(mounted, file, part, sink, bar, cancel);
    let closed = mounted.run(doing(), mounted.volume.close(file));
    let drained = drained?;
    closed.map(|()| drained)
}

fn drain_open(
    mounted: &Mounted<'_, '_>,
    file: File,
    part: &Part<'_>,
    sink: &mut Sink<'_>,
    bar: &Bar,
    cancel: &Cancel,
) -> Result<Drained> {
    let mut drained = Drained::default();
    if part.length_bytes == 0 {
        return Ok(drained);
    }
    let geometry = mounted.volume.geometry();
    let compares = part.sums != Sums::Ignored;
    // Each buffer has whole chunks, so that each chunk can be verified.
    let align = if compares {
        CHUNK_BYTES
    } else {
        geometry.block_size_bytes() as u64
    };
    let first = part.offset_bytes / align * align;
    let end = (part.offset_bytes + part.length_bytes).next_multiple_of(align);
    let mut flow = Flow::read(mounted, file, &part.sums, first / CHUNK_BYTES);
    let begun = bar.position();
    let length_bytes = end.min(part.size_bytes) - first;
    let most_bytes = part.pace.operation_bytes.next_multiple_of(align);
    let job = Job {
        doing: &format_args!("reading `{}`", part.name),
        span: Span {
            offset_bytes: first,
            length_bytes,
            // A buffer for a short file is not longer than the file.
            operation_bytes: most_bytes.min(length_bytes.next_multiple_of(align)),
            ..part.pace
        },
        most_bytes: usize::MAX,
        memory: mounted.memory,
        progress: &mut |bytes| bar.set_position(begun + bytes),
        stop: &|| cancel.is_set(),
    };
    // The device works while this thread writes: another thread would only add wake-ups; so for a
    // single buffer.
    let is_single = job.span.length_bytes <= job.span.operation_bytes;
    let is_beside = !is_single && (compares || geometry.queue_depth < 2);
    let mut take = |full: &Finished| deliver(part, sink, full, &mut drained);
    let moved = pump(&mut flow, job, is_beside, &mut take)?;
    drained.requests = moved.requests;
    Ok(drained)
}

fn deliver(
    part: &Part<'_>,
    sink: &mut Sink<'_>,
    full: &Finished,
    drained: &mut Drained,
) -> Result<()> {
    let data = full.data();
    let mut good = data.len() as u64;
    for at in differences(data, &full.sums) {
        if !part.past_rot {
            good = at;
            break;
        }
        drained.rot.push(full.offset_bytes + at);
    }
    let first = part.offset_bytes.saturating_sub(full.offset_bytes);
    let end = part.offset_bytes + part.length_bytes;
    let last = end.saturating_sub(full.offset_bytes).min(good);
    let wanted = data.get(first as usize..last as usize).unwrap_or_default();
    if !wanted.is_empty() {
        sink(wanted)?;
        drained.bytes += wanted.len() as u64;
    }
    if good < data.len() as u64 {
        Err(rot(part.name, full.offset_bytes + good))
    } else {
        Ok(())
    }
}

/// The failure of a file whose chunk at `offset` does not match its checksum.
fn rot(name: &str, offset: u64) -> Error {
    Error::new(
        ErrorKind::Rot,
        format!(
            "`{}` is corrupt: the {} KiB at offset {offset} do not match their checksum",
            shown(name),
            CHUNK_BYTES >> 10
        ),
    )
    .hint(words![
        "restore the file from a copy; ",
        Setting::Offset,
        " and ",
        Setting::Length,
        " read the data around it; straightway check ",
        remedy::Device,
        " ",
        Word::Option(Setting::ReadData),
        " finds all of it"
    ])
}
