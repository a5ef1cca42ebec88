// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that change: files that are made, removed and renamed. Each change is durable when it is
//! answered.
//!
//! A volume removes and renames no file that is open. So an open file that is renamed is closed for
//! a moment, and one whose name is removed gets another, as libfuse does it, until all have closed
//! it.

use super::asks::{Change, Renaming, errno};
use super::files::{Done, Files};
use super::open::{Open, Uses};
use super::tail::Writer;
use super::tree::{FileFacts, Node, Number, Times};
use ::volume::{CreateOptions, Error, File, NAME_BYTES};
use files::now_ns;
use fuser::Errno;

/// Refuses a name that a volume cannot have.
///
/// # Errors
/// It is too long.
pub fn check_name(name: &str) -> Result<(), Errno> {
    if name.len() > NAME_BYTES {
        Err(Errno::ENAMETOOLONG)
    } else {
        Ok(())
    }
}

impl Files<'_, '_, '_> {
    /// Makes a file in a folder and opens it to write.
    pub(super) async fn create(
        &self,
        folder: Number,
        name: &str,
        is_new: bool,
    ) -> Result<Number, Errno> {
        let _names = self.names.enter().await;
        let (found, whole) = self.tree.with(|tree| {
            let is_folder = |number: &Number| tree.folder(*number).is_some();
            let found = tree.find(folder, name);
            (
                found.map(|number| (number, is_folder(&number))),
                tree.name_in(folder, name),
            )
        });
        match found {
            Some((_, true)) => return Err(Errno::EISDIR),
            Some(_) if is_new => return Err(Errno::EEXIST),
            Some((number, false)) => {
                self.open_named(number, true).await.map_err(errno)?;
                return Ok(number);
            }
            None => {}
        }
        let whole = whole.ok_or(Errno::ENOENT)?;
        check_name(&whole)?;
        // The volume's own: the kernel sends the last close later, and that takes its time over.
        let now = now_ns();
        let file = self.create_volume_s(&whole, now).await.map_err(errno)?;
        let facts = FileFacts {
            name: whole,
            size_bytes: 0,
            allocated_bytes: 0,
            times: Times::all(now),
            is_removed: false,
        };
        match self.tree.with(|tree| tree.add_file(folder, name, facts)) {
            Some(number) => {
                self.insert(number, file, Some(Writer::new(0, Vec::new())), true);
                Ok(number)
            }
            None => {
                let _ = self.mounted.volume.close(file).await;
                Err(Errno::EEXIST)
            }
        }
    }

    async fn create_volume_s(&self, name: &str, now: u64) -> Done<File> {
        let volume = self.mounted.volume;
        volume.set_time(now);
        let options = CreateOptions {
            checksums: volume.status().checksums,
            ..CreateOptions::default()
        };
        volume.with_space(|| volume.create(name, &options)).await
    }

    /// Removes a file of the volume.
    pub(super) async fn remove_volume_s(&self, name: &str) -> Done<()> {
        let removed = self.mounted.volume.remove_marked(name).await;
        self.space_changed();
        self.removed.borrow_mut().extend(removed?);
        Ok(())
    }

    /// Removes a file of a folder.
    pub(super) async fn remove(&self, folder: Number, name: &str) -> Result<(), Errno> {
        let _names = self.names.enter().await;
        let number = self
            .tree
            .with(|tree| tree.find(folder, name))
            .ok_or(Errno::ENOENT)?;
        if self.tree.with(|tree| tree.folder(number).is_some()) {
            return Err(Errno::EISDIR);
        }
        self.remove_named(folder, name, number).await.map_err(errno)
    }

    async fn remove_named(&self, folder: Number, name: &str, number: Number) -> Done<()> {
        let Ok(open) = self.opened(number) else {
            self.remove_volume_s(&self.name(number)?).await?;
            self.tree.with(|tree| {
                tree.detach(folder, name);
                tree.forget(number);
            });
            return Ok(());
        };
        let _alone = open.alone().await;
        let mut attempt = 0;
        let hidden = loop {
            let hidden = format!(".fuse_hidden{number:08x}{attempt:08x}");
            match self.rename_volume_s(number, &open, &hidden).await {
                // Left by a mount that was killed.
                Err(Error::Exists) => attempt += 1,
                renamed => break renamed.map(|()| hidden)?,
            }
        };
        self.tree.with(|tree| {
            tree.detach(folder, name);
            if let Some(facts) = tree.file_mut(number) {
                (facts.name, facts.is_removed) = (hidden, true);
                facts.times.changed_ns = now_ns();
            }
        });
        Ok(())
    }

    /// Renames a file of the volume that is open, and that nothing else uses: it is closed and
    /// opened again.
    async fn rename_volume_s(&self, number: Number, open: &Open, new: &str) -> Done<()> {
        let old = self.name(number)?;
        let writes = open.writer.borrow().is_some();
        let closed = self.close_volume_s(number, open).await;
        let volume = self.mounted.volume;
        let renamed = match closed {
            Ok(()) => volume.with_space(|| volume.rename(&old, new)).await,
            Err(error) => Err(error),
        };
        if renamed.is_ok() {
            self.tree.with(|tree| {
                if let Some(facts) = tree.file_mut(number) {
                    facts.name = new.to_owned();
                }
            });
        }
        self.reopen(number, open, writes).await?;
        renamed
    }

    /// Renames a file, or a folder without files.
    pub(super) async fn rename(&self, renaming: &Renaming) -> Result<(), Errno> {
        let _names = self.names.enter().await;
        let Renaming {
            from,
            to,
            name,
            new_name,
            ..
        } = renaming;
        let (number, target, whole) = self.tree.with(|tree| {
            let target = tree.find(*to, new_name);
            (tree.find(*from, name), target, tree.name_in(*to, new_name))
        });
        let number = number.ok_or(Errno::ENOENT)?;
        let whole = whole.ok_or(Errno::ENOENT)?;
        check_name(&whole)?;
        if target == Some(number) {
            return Ok(());
        }
        if target.is_some() && renaming.keeps_existing {
            return Err(Errno::EEXIST);
        }
        if self.tree.with(|tree| tree.folder(number).is_some()) {
            return self.rename_folder(renaming, number, target);
        }
        if let Some(target) = target {
            if self.tree.with(|tree| tree.folder(target).is_some()) {
                return Err(Errno::EISDIR);
            }
            self.remove_named(*to, new_name, target)
                .await
                .map_err(errno)?;
        }
        let renamed = match self.opened(number) {
            Ok(open) => {
                let _alone = open.alone().await;
                self.rename_volume_s(number, &open, &whole).await
            }
            Err(_) => {
                let old = self.name(number).map_err(errno)?;
                let volume = self.mounted.volume;
                volume.with_space(|| volume.rename(&old, &whole)).await
            }
        };
        renamed.map_err(errno)?;
        self.tree.with(|tree| {
            tree.detach(*from, name);
            tree.attach(*to, new_name, number);
        });
        Ok(())
    }

    /// A folder is only a part of its files' names, which cannot all change at once.
    fn rename_folder(
        &self,
        renaming: &Renaming,
        number: Number,
        target: Option<Number>,
    ) -> Result<(), Errno> {
        self.tree.with(|tree| {
            let is_empty = |number| match tree.node(number) {
                Some(Node::Folder(inside)) => Ok(inside.is_empty()),
                _ => Err(Errno::ENOTDIR),
            };
            if !is_empty(number)? {
                return Err(Errno::EXDEV);
            }
            if let Some(target) = target {
                if !is_empty(target)? {
                    return Err(Errno::ENOTEMPTY);
                }
                tree.detach(renaming.to, &renaming.new_name);
                tree.forget(target);
            }
            tree.detach(renaming.from, &renaming.name);
            tree.attach(renaming.to, &renaming.new_name, number);
            Ok(())
        })
    }

    /// Changes a file's attributes.
    pub(super) async fn change(&self, number: Number, change: Change) -> Done<()> {
        let _names = self.names.enter().await;
        if let Some(size) = change.size_bytes {
            self.resize(number, size).await?;
        }
        if let Some(ns) = change.modified_ns {
            self.with_open(number, async |open: &Open| {
                let _inside = open.gate.enter().await;
                self.stamp(number, open, ns)
            })
            .await?;
        }
        self.tree.with(|tree| change.mark(tree, number));
        Ok(())
    }

    /// Sets the size of a file: to nothing, or to more with zeroes.
    async fn resize(&self, number: Number, size: u64) -> Done<()> {
        let now = self
            .tree
            .with(|tree| tree.file(number).map(|facts| facts.size_bytes));
        match now.ok_or(Error::NotFound)? {
            now if now == size => return Ok(()),
            now if size > 0 && size < now => return Err(Error::Unsupported),
            _ => {}
        }
        if size == 0 {
            return self.replace(number).await;
        }
        self.with_open(number, async |open: &Open| {
            let _inside = open.gate.enter().await;
            self.lengthen(number, open, size).await
        })
        .await
    }

    /// Calls `body` with a file that is open to write, if necessary only for this.
    async fn with_open(
        &self,
        number: Number,
        body: impl AsyncFnOnce(&Open) -> Done<()>,
    ) -> Done<()> {
        let was_open = self
            .opened(number)
            .is_ok_and(|open| open.writer.borrow().is_some());
        if was_open {
            return body(&*self.opened(number)?).await;
        }
        self.open_named(number, true).await?;
        let done = body(&*self.opened(number)?).await;
        let closed = self.close_named(number, true).await;
        done.and(closed)
    }

    /// Puts an empty file in the place of a file, inside the gate of the names.
    async fn replace(&self, number: Number) -> Done<()> {
        let volume = self.mounted.volume;
        let name = self.name(number)?;
        let replaced = match self.opened(number) {
            Ok(open) => {
                let _alone = open.alone().await;
                // What was written is not needed any more.
                let _ = self.close_volume_s(number, &open).await;
                self.remove_volume_s(&name).await?;
                let file = self.create_volume_s(&name, now_ns()).await?;
                let Uses { writes, .. } = open.uses.get();
                if writes > 0 {
                    open.file.set(file);
                    open.writer.replace(Some(Writer::new(0, Vec::new())));
                    Ok(())
                } else {
                    volume.close(file).await?;
                    self.reopen(number, &open, false).await
                }
            }
            Err(_) => {
                self.remove_volume_s(&name).await?;
                let file = self.create_volume_s(&name, now_ns()).await?;
                volume.close(file).await
            }
        };
        self.tree.with(|tree| {
            if let Some(facts) = tree.file_mut(number) {
                (facts.size_bytes, facts.allocated_bytes) = (0, 0);
                facts.times.modify(now_ns());
            }
        });
        replaced
    }
}
