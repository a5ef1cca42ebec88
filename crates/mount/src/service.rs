// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that has mounted the volume: it has many of the kernel's requests under way.

use super::asks::{Ask, Space, errno};
use super::files::{Done, Files};
use super::tree::{Number, SharedTree};
use ::volume::Error;
use devices::error::Result;
use files::{Mounted, failed, service};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Serves requests until all senders have been dropped, or `must_end` says so. Then everything that
/// was written is made durable.
///
/// # Errors
/// There is no memory for buffers, or something could not be made durable at the end.
pub fn serve(
    mounted: &Mounted<'_, '_>,
    tree: &SharedTree,
    hidden: u64,
    asks: &Receiver<Ask>,
    must_end: &dyn Fn() -> bool,
) -> Result<()> {
    let files = Files::new(mounted, tree, hidden)?;
    let begin = |ask: Ask| -> service::Job<'_> {
        let files = &files;
        Box::pin(async move { files.serve(ask).await })
    };
    let take_back = |event| files.moves.take_back(event);
    service::serve(mounted.volume, asks, must_end, &begin, &take_back);
    // The kernel does not wait for the last files to be closed.
    let (last, asked) = channel();
    if last.send(Ask::End).is_ok() {
        drop(last);
        service::serve(mounted.volume, &asked, &|| false, &begin, &take_back);
    }
    let failure = files.failure.take();
    files.release();
    match failure {
        Some(error) => Err(failed("writing what was not yet on the volume", error)),
        None => Ok(()),
    }
}

impl Files<'_, '_, '_> {
    async fn serve(&self, ask: Ask) {
        match ask {
            Ask::Open(number, writes, answer) => {
                answer(self.open(number, writes).await.map_err(errno));
            }
            Ask::Close(number, writes, answer) => {
                answer(self.close(number, writes).await.map_err(errno));
            }
            Ask::Read(number, offset, len, data) => {
                let (buffer, result) = self.read(number, offset, len).await;
                match (buffer, result) {
                    (Some(buffer), Ok(range)) => self.answers.send(buffer, range, data),
                    (buffer, Err(error)) => {
                        self.give_back(buffer);
                        data(Err(errno(error)));
                    }
                    (None, Ok(_)) => data(Err(errno(Error::from(block::Error::Gone)))),
                }
            }
            Ask::Write(number, place, data, answer) => {
                self.write(number, place, &data, answer).await;
            }
            Ask::Commit(number, durable, answer) => {
                answer(self.commit(number, durable).await.map_err(errno));
            }
            Ask::Change(number, change, answer) => {
                answer(self.change(number, change).await.map_err(errno));
            }
            Ask::Reserve(number, end, answer) => {
                answer(self.reserve(number, end).await.map_err(errno));
            }
            Ask::Create(folder, name, is_new, answer) => {
                answer(self.create(folder, &name, is_new).await);
            }
            Ask::Remove(folder, name, answer) => answer(self.remove(folder, &name).await),
            Ask::Rename(renaming, answer) => answer(self.rename(&renaming).await),
            Ask::Space(answer) => answer(self.space().await.map_err(errno)),
            Ask::Save(age) => self.save(age).await,
            Ask::End => self.end().await,
        }
    }

    async fn space(&self) -> Done<Space> {
        let volume = self.mounted.volume;
        self.reclaim().await?;
        let changes = self.changes.get();
        let free = match self.known_free.get() {
            Some((then, free)) if then == changes => free,
            _ => {
                let free = match volume.known_usage() {
                    Some(usage) => usage.free_units,
                    None => volume.free_units().await?,
                };
                self.known_free.set(Some((changes, free)));
                free
            }
        };
        let shape = volume.status().shape;
        let (unit_bytes, files) = (shape.unit_bytes(), u64::from(volume.slots()));
        let used = self.tree.with(|tree| tree.file_count()) + self.hidden;
        Ok(Space {
            capacity_bytes: shape.unit_count() * unit_bytes,
            free_bytes: free * unit_bytes,
            files,
            free_files: files.saturating_sub(used),
            unit_bytes,
        })
    }

    /// Frees the space of large files that were removed.
    async fn reclaim(&self) -> Done<()> {
        loop {
            let next = self.removed.borrow_mut().pop();
            let Some(removed) = next else {
                return Ok(());
            };
            self.mounted.volume.release_removed(removed).await?;
            self.space_changed();
        }
    }

    /// Makes durable what has waited for so long. Who wrote it gets an error at its next request.
    async fn save(&self, age: Duration) {
        let all: Vec<Number> = self.open.borrow().keys().copied().collect();
        for number in all {
            if self.needs_save(number, age) {
                let _ = self.commit(number, true).await;
            }
        }
        let _ = self.reclaim().await;
    }

    /// Closes all files, however often they are open.
    async fn end(&self) {
        let all: Vec<Number> = self.open.borrow().keys().copied().collect();
        for number in all {
            if let Err(error) = self.close_all(number).await {
                self.failure.set(self.failure.take().or(Some(error)));
            }
        }
        if let Err(error) = self.reclaim().await {
            self.failure.set(self.failure.take().or(Some(error)));
        }
    }
}
