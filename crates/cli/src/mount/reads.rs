//! Open files of a mounted volume, and reads of them: many under way, on the thread that has mounted the volume.

use super::tree::{Number, Tree};
use crate::failure::Result;
use crate::volume::moves::{Moves, WHOLE_CHUNKS_BYTES};
use crate::volume::turns::{Gate, wait_for};
use crate::volume::{Mounted, service};
use ::volume::{Error, File};
use block::Buffer;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc::Receiver;

/// The longest read of the kernel.
pub const READ_BYTES: usize = 1 << 20;
/// A buffer: such a read, in whole chunks that have checksums.
const BUFFER_BYTES: usize = READ_BYTES + WHOLE_CHUNKS_BYTES;
/// Reads under way.
const BUFFERS: usize = 16;
/// Memory for all buffers.
pub const MEMORY_BYTES: u64 = (BUFFERS * BUFFER_BYTES) as u64;

/// What the kernel sees of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// EIO: the device or the volume failed, or data differs from its checksum.
    Io,
    /// ENFILE: more files are open than a volume can have.
    TooManyOpen,
    /// ENODEV: the drive is gone, or is being unplugged.
    Gone,
}

/// Gets the answer to a request.
pub type Answer<T> = Box<dyn FnOnce(std::result::Result<T, Refusal>) + Send>;
/// Gets the data of a read.
pub type Data = Box<dyn FnOnce(std::result::Result<&[u8], Refusal>) + Send>;

/// A request to the thread that has mounted the volume.
pub enum Ask {
    /// Opens a file, once more if it is open.
    Open(Number, Answer<()>),
    /// Reads from a byte on.
    Read(Number, u64, usize, Data),
    /// Closes a file, when all who opened it have.
    Close(Number, Answer<()>),
}

/// A file that is open, and how often.
struct Open {
    file: File,
    uses: u32,
}

/// The files that are open.
struct Reads<'m, 'v, 'a> {
    mounted: &'m Mounted<'v, 'a>,
    tree: &'m Tree,
    moves: Moves<'v, 'a>,
    open: RefCell<HashMap<Number, Open>>,
    /// What changes `open`.
    gate: Gate,
    buffers: RefCell<Vec<Buffer>>,
}

/// Serves requests until all senders have been dropped, or `must_end` says so.
///
/// # Errors
/// There is no memory for buffers.
pub fn serve(
    mounted: &Mounted<'_, '_>,
    tree: &Tree,
    asks: &Receiver<Ask>,
    must_end: &dyn Fn() -> bool,
) -> Result<()> {
    let mut buffers = Vec::new();
    for _ in 0..BUFFERS {
        match mounted.memory.allocate(BUFFER_BYTES) {
            Ok(buffer) => buffers.push(buffer),
            Err(failure) => {
                buffers
                    .into_iter()
                    .for_each(|buffer| mounted.memory.give_back(buffer));
                return Err(failure);
            }
        }
    }
    let reads = Reads {
        mounted,
        tree,
        moves: Moves::new(mounted.volume),
        open: RefCell::default(),
        gate: Gate::default(),
        buffers: RefCell::new(buffers),
    };
    let begin = |ask: Ask| -> service::Job<'_> {
        let reads = &reads;
        Box::pin(async move { reads.serve(ask).await })
    };
    let take_back = |event| reads.moves.take_back(event);
    service::serve(mounted.volume, asks, must_end, &begin, &take_back);
    for buffer in reads.buffers.take() {
        mounted.memory.give_back(buffer);
    }
    Ok(())
}

impl Reads<'_, '_, '_> {
    async fn serve(&self, ask: Ask) {
        match ask {
            Ask::Open(number, answer) => answer(self.open(number).await.map_err(refusal)),
            Ask::Close(number, answer) => answer(self.close(number).await.map_err(refusal)),
            Ask::Read(number, offset, len, data) => {
                let buffer = wait_for(|| self.buffers.borrow_mut().pop()).await;
                let (buffer, result) = self.read(number, offset, len, buffer).await;
                match (&buffer, result) {
                    (Some(buffer), Ok(range)) => data(buffer.get(range).ok_or(Refusal::Io)),
                    (_, Err(error)) => data(Err(refusal(error))),
                    (None, Ok(_)) => data(Err(Refusal::Gone)),
                }
                self.buffers.borrow_mut().extend(buffer);
            }
        }
    }

    async fn open(&self, number: Number) -> std::result::Result<(), Error> {
        let _inside = self.gate.enter().await;
        if let Some(open) = self.open.borrow_mut().get_mut(&number) {
            open.uses += 1;
            return Ok(());
        }
        let facts = self.tree.file(number).ok_or(Error::NotFound)?;
        let file = self.mounted.volume.open(&facts.name).await?;
        self.open
            .borrow_mut()
            .insert(number, Open { file, uses: 1 });
        Ok(())
    }

    async fn close(&self, number: Number) -> std::result::Result<(), Error> {
        let _inside = self.gate.enter().await;
        let file = {
            let mut open = self.open.borrow_mut();
            let one = open.get_mut(&number).ok_or(Error::NotOpen)?;
            one.uses -= 1;
            if one.uses > 0 {
                return Ok(());
            }
            let file = one.file;
            open.remove(&number);
            file
        };
        self.mounted.volume.close(file).await
    }

    /// Where in the buffer the bytes from `offset` on are.
    async fn read(
        &self,
        number: Number,
        offset: u64,
        len: usize,
        buffer: Buffer,
    ) -> (
        Option<Buffer>,
        std::result::Result<std::ops::Range<usize>, Error>,
    ) {
        let file = self.open.borrow().get(&number).map(|open| open.file);
        let Some(file) = file else {
            return (Some(buffer), Err(Error::NotOpen));
        };
        self.moves
            .read(file, offset, len.min(READ_BYTES), buffer)
            .await
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::TooManyOpen => Refusal::TooManyOpen,
        Error::Device(error) if error.error() == block::Error::Gone => Refusal::Gone,
        _ => Refusal::Io,
    }
}
