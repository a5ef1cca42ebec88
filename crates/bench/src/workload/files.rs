// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations on a volume's files, many of them under way.
//!
//! Threads that have the same file open share the volume's, one to read and one to write.

use super::pool::Pool;
use super::{PREFIX, Want};
use files::moves::Moves;
use files::turns::{Gate, pass};
use files::{Mounted, failed, shown};
use remedy::{Part, Setting, words};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use volume::{CreateOptions, DataEvent, Direction, Error, File, Need};
use workload::{LONGEST, Use};

type Done<T> = std::result::Result<T, Error>;

/// A file that the volume has open.
#[derive(Debug)]
struct Open {
    name: String,
    writes: bool,
    file: File,
    uses: Cell<u32>,
    /// Appends of several pieces must not mix.
    appends: Gate,
}

/// The files of a mounted volume.
pub struct Files<'m, 'v, 'a> {
    mounted: &'m Mounted<'v, 'a>,
    pool: &'m Pool,
    /// By name, and whether it is written.
    open: RefCell<HashMap<(String, bool), Rc<Open>>>,
    /// By session and number.
    held: RefCell<HashMap<(u32, u8), Rc<Open>>>,
    /// What changes `open`.
    names: Gate,
    moves: Moves<'v, 'a>,
}

impl<'m, 'v, 'a> Files<'m, 'v, 'a> {
    pub fn new(mounted: &'m Mounted<'v, 'a>, pool: &'m Pool) -> Self {
        Self {
            mounted,
            pool,
            open: RefCell::default(),
            held: RefCell::default(),
            names: Gate::default(),
            moves: Moves::new(mounted.volume),
        }
    }

    /// Keeps a completion for its transfer.
    pub fn take_back(&self, event: DataEvent) {
        self.moves.take_back(event);
    }

    /// Performs an operation of a session.
    pub async fn serve(&self, session: u32, want: Want) -> io::Result<u64> {
        let name = match &want {
            Want::Open(_, name, _) | Want::Remove(name) | Want::Stat(name) => name.clone(),
            Want::Begin | Want::Clear => "the volume's files".to_owned(),
            other => format!("{other:?}"),
        };
        if let Want::Begin = want {
            return self.begin().await;
        }
        self.done(session, want)
            .await
            .map_err(|error| io_error(&name, error))
    }

    async fn done(&self, session: u32, want: Want) -> Done<u64> {
        let volume = self.mounted.volume;
        match want {
            Want::Begin => Ok(0),
            Want::Clear => self.clear().await,
            Want::Open(number, name, how) => self.open((session, number), &name, how).await,
            Want::Read(number, offset, bytes) => {
                let open = self.held((session, number))?;
                let size = volume.file_status(open.file)?.completed_bytes;
                let bytes = bytes.min(size.saturating_sub(offset));
                self.piece(&open, Direction::Read, offset, bytes).await
            }
            Want::Write(number, offset, bytes) => {
                let open = self.held((session, number))?;
                self.piece(&open, Direction::Overwrite, offset, bytes).await
            }
            Want::Append(number, bytes) => {
                let open = self.held((session, number))?;
                let _inside = open.appends.enter().await;
                self.piece(&open, Direction::Append, 0, bytes).await
            }
            Want::Sync(number) => {
                let open = self.held((session, number))?;
                volume.sync(open.file).await
            }
            Want::Close(number) => self.close((session, number)).await,
            Want::Remove(name) => {
                let _inside = self.names.enter().await;
                volume.remove(&name).await.map(|()| 0)
            }
            Want::Stat(name) => Ok(volume.find(&name).await?.size_bytes),
            Want::Leave => {
                let mine: Vec<_> = self.held.borrow().keys().copied().collect();
                for one in mine.into_iter().filter(|(whose, _)| *whose == session) {
                    self.close(one).await?;
                }
                Ok(0)
            }
        }
    }

    fn held(&self, one: (u32, u8)) -> Done<Rc<Open>> {
        let held = self.held.borrow();
        held.get(&one).cloned().ok_or(Error::NotOpen)
    }

    async fn open(&self, one: (u32, u8), name: &str, how: Use) -> Done<u64> {
        let volume = self.mounted.volume;
        let open = loop {
            let inside = self.names.enter().await;
            match self.opened(name, how).await {
                // Another thread closes one.
                Err(Error::TooManyOpen) => {
                    drop(inside);
                    pass().await;
                }
                opened => break opened?,
            }
        };
        let len = volume.file_status(open.file)?.completed_bytes;
        self.held.borrow_mut().insert(one, open);
        Ok(len)
    }

    async fn opened(&self, name: &str, how: Use) -> Done<Rc<Open>> {
        let volume = self.mounted.volume;
        let key = (name.to_owned(), how != Use::Read);
        if let Some(open) = self.open.borrow().get(&key) {
            open.uses.set(open.uses.get() + 1);
            return Ok(Rc::clone(open));
        }
        let file = match how {
            Use::Read => volume.open(name).await?,
            Use::Write => volume.open_to_write(name).await?,
            Use::Create(bytes) => {
                let options = CreateOptions {
                    reserve_bytes: bytes,
                    ..CreateOptions::default()
                };
                volume.with_space(|| volume.create(name, &options)).await?
            }
        };
        let open = Rc::new(Open {
            name: name.to_owned(),
            writes: key.1,
            file,
            uses: Cell::new(1),
            appends: Gate::default(),
        });
        self.open.borrow_mut().insert(key, Rc::clone(&open));
        Ok(open)
    }

    async fn close(&self, one: (u32, u8)) -> Done<u64> {
        let Some(open) = self.held.borrow_mut().remove(&one) else {
            return Ok(0);
        };
        let _inside = self.names.enter().await;
        open.uses.set(open.uses.get() - 1);
        if open.uses.get() > 0 {
            return Ok(0);
        }
        let key = (open.name.clone(), open.writes);
        self.open.borrow_mut().remove(&key);
        self.mounted.volume.close(open.file).await.map(|()| 0)
    }

    /// Moves a piece of a file.
    async fn piece(&self, open: &Open, way: Direction, offset: u64, bytes: u64) -> Done<u64> {
        let len = bytes.min(LONGEST) as usize;
        if len == 0 {
            return Ok(0);
        }
        let buffer = self.pool.take(len).await;
        let provide = async |need| self.provide(open.file, need).await;
        let moved = self.moves.run(open.file, way, offset, buffer, len, provide);
        let (buffer, result) = moved.await;
        if let Some(buffer) = buffer {
            self.pool.put(buffer);
        }
        result.map(|()| len as u64)
    }

    /// Supplies what a transfer needs; a file that grows gets room to double, so that most appends
    /// change no metadata.
    async fn provide(&self, file: File, need: Need) -> Done<()> {
        let volume = self.mounted.volume;
        match need {
            Need::Space(least) => {
                let size = volume.file_status(file)?.completed_bytes;
                volume.reserve_ahead(file, size, least).await.map(|_| ())
            }
            need => volume.provide(file, need).await,
        }
    }

    async fn begin(&self) -> io::Result<u64> {
        match self.first_of_ours(0).await {
            Ok(None) => Ok(0),
            Ok(Some((_, name))) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!(
                    "`{0}` already exists: straightway rm {1} '{0}'",
                    shown(&name),
                    self.mounted.drive
                ),
            )),
            Err(error) => Err(io_error("the volume's files", error)),
        }
    }

    /// The first file of a workload from slot `from` on, and the slot after it.
    async fn first_of_ours(&self, mut from: u32) -> Done<Option<(u32, String)>> {
        while let Some(entry) = self.mounted.volume.next_file(from).await? {
            from = entry.slot + 1;
            let name = entry.name.as_str();
            if name.starts_with(PREFIX) {
                return Ok(Some((from, name.to_owned())));
            }
        }
        Ok(None)
    }

    async fn clear(&self) -> Done<u64> {
        let mut from = 0;
        while let Some((next, name)) = self.first_of_ours(from).await? {
            self.mounted.volume.remove(&name).await?;
            from = next;
        }
        Ok(0)
    }
}

/// Converts the volume's error to an `io::Error` of a store.
fn io_error(name: &str, error: Error) -> io::Error {
    match error {
        Error::NotFound => io::Error::from(io::ErrorKind::NotFound),
        Error::TableFull => io::Error::other(
            words![
                "the volume has no slot for more files: use a smaller data set, or straightway format with more ",
                Part::Option(Setting::Slots)
            ]
            .to_string(),
        ),
        _ => io::Error::other(failed(format_args!("`{}`", shown(name)), error).to_string()),
    }
}
