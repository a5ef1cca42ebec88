// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations on the model's files: each reports to the oracle what is in progress before it
//! begins, and what is promised once it has returned.

use std::cell::RefCell;
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use block::Device;
use crash::CrashDisk;
use straightway_volume::{CreateOptions, Error, File, NewFile, Refused, Volume};

use super::oracle::{BLOCK, FILES, LONG, Live, NAMES, byte, bytes};
use super::search::Search;
use super::support::{filled, free};

/// An operation; the number is the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Create(usize),
    CreateReserved(usize),
    CreateChecked(usize),
    /// Two blocks, both in flight when this returns.
    Append(usize),
    /// A part of a block, in flight when this returns.
    AppendTail(usize),
    Commit(usize),
    Sync(usize),
    Overwrite(usize),
    /// Two units more.
    Reserve(usize),
    Close(usize),
    CloseKeeping(usize),
    Open(usize),
    Remove(usize),
    Rename(usize),
    /// With the long name.
    CreateLong(usize),
    CreateLongReserved(usize),
    RenameToLong(usize),
    Reap,
    /// Every file that is not there, in one operation, whole and closed.
    CreateMany,
    /// The same with checksums.
    CreateManyChecked,
    /// As many as `CreateMany`, through a list on the device.
    CreateListed,
    /// Both ways, with long names.
    CreateManyLong,
    CreateListedLong,
    /// Every file, in one operation, through a list on the device.
    RemoveListed,
    /// All free space.
    Discard,
    /// One bucket more in the slot table.
    Grow,
    /// As many as 48 more files need, together where no file has to move.
    GrowFor48,
    /// The slot table as the format made it, if the files let it.
    Shrink,
    /// To so many bytes, if the files let it.
    Resize(u64),
    /// Unmount and mount; what is open is closed by that.
    Remount,
}

impl Op {
    /// All, for one file.
    pub fn of_file(file: usize) -> [Op; 14] {
        [
            Op::Create(file),
            Op::CreateReserved(file),
            Op::CreateChecked(file),
            Op::Append(file),
            Op::AppendTail(file),
            Op::Commit(file),
            Op::Sync(file),
            Op::Overwrite(file),
            Op::Reserve(file),
            Op::Close(file),
            Op::CloseKeeping(file),
            Op::Open(file),
            Op::Remove(file),
            Op::Rename(file),
        ]
    }

    /// Those with a long name.
    pub fn with_long_name(file: usize) -> [Op; 3] {
        [
            Op::CreateLong(file),
            Op::CreateLongReserved(file),
            Op::RenameToLong(file),
        ]
    }

    /// Whether it is possible for a file in this state.
    pub fn is_valid(self, files: [Option<&Live>; FILES]) -> bool {
        let file = |file: usize| files[file];
        match self {
            Op::Create(f)
            | Op::CreateReserved(f)
            | Op::CreateChecked(f)
            | Op::CreateLong(f)
            | Op::CreateLongReserved(f) => file(f).is_none(),
            Op::Open(f) | Op::Remove(f) | Op::Rename(f) => {
                file(f).is_some_and(|live| !live.is_open)
            }
            Op::RenameToLong(f) => {
                file(f).is_some_and(|live| !live.is_open && live.shown.name != LONG)
            }
            Op::Overwrite(f) => file(f).is_some_and(|live| {
                live.is_open && !live.shown.checksums && live.appended >= 2 * BLOCK
            }),
            Op::Append(f)
            | Op::AppendTail(f)
            | Op::Commit(f)
            | Op::Sync(f)
            | Op::Reserve(f)
            | Op::Close(f)
            | Op::CloseKeeping(f) => file(f).is_some_and(|live| live.is_open),
            Op::CreateMany
            | Op::CreateManyChecked
            | Op::CreateListed
            | Op::CreateManyLong
            | Op::CreateListedLong => files.iter().any(Option::is_none),
            Op::RemoveListed => {
                let is_closed = |file: &Option<&Live>| file.is_some_and(|live| !live.is_open);
                files.iter().all(is_closed)
            }
            Op::Reap | Op::Discard | Op::Grow | Op::GrowFor48 | Op::Shrink => true,
            Op::Resize(_) | Op::Remount => true,
        }
    }
}

/// What the operations of one run share.
pub struct Context {
    pub search: Rc<RefCell<Search>>,
    pub disk: CrashDisk,
    pub handles: RefCell<[Option<File>; FILES]>,
    /// Tags of the data requests that have ended, and the first error among them.
    pub ended: RefCell<HashSet<u16>>,
    pub failed: RefCell<Option<Error>>,
    pub next_tag: RefCell<u16>,
    /// Space to reserve in one call, in bytes.
    pub unit: u64,
    pub out: RefCell<u64>,
}

impl Context {
    fn live<T>(&self, file: usize, with: impl FnOnce(&mut Live) -> T) -> T {
        let mut search = self.search.borrow_mut();
        with(search.oracle.files[file].now.as_mut().unwrap())
    }

    fn handle(&self, file: usize) -> Result<File, Error> {
        self.handles.borrow()[file].ok_or(Error::NotOpen)
    }

    fn tag(&self) -> u16 {
        let mut next = self.next_tag.borrow_mut();
        *next = next.wrapping_add(1);
        *next
    }

    /// The promise if nothing had been begun.
    fn undo(&self, file: usize) {
        let slot = &mut self.search.borrow_mut().oracle.files[file];
        if let Some(before) = slot.before.take() {
            slot.now = before;
        }
    }

    fn done(&self, file: usize) {
        self.search.borrow_mut().oracle.files[file].before = None;
    }

    fn begin(&self, file: usize, change: impl FnOnce(&mut Option<Live>, u64)) {
        let mut search = self.search.borrow_mut();
        search.oracle.next_incarnation += 1;
        let incarnation = search.oracle.next_incarnation;
        let slot = &mut search.oracle.files[file];
        slot.before = Some(slot.now.clone());
        change(&mut slot.now, incarnation);
    }
}

/// Lets the device make progress once.
pub async fn pause() {
    let mut is_paused = false;
    poll_fn(|_| {
        let ready = is_paused;
        is_paused = true;
        if ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Runs an operation; then everything that a power cut may leave is checked again, with the new
/// promise. An error for lack of space counts as a success that changed nothing.
///
/// # Errors
/// The volume's.
pub async fn run<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    op: Op,
) -> Result<(), Error> {
    let result = step(volume, context, op).await;
    let result = match result {
        Err(Error::NoSpace | Error::MapFull | Error::TableFull) => {
            match op {
                Op::Create(f)
                | Op::CreateReserved(f)
                | Op::CreateChecked(f)
                | Op::Rename(f)
                | Op::CreateLong(f)
                | Op::CreateLongReserved(f)
                | Op::RenameToLong(f) => context.undo(f),
                Op::Resize(_) => resized(volume, context),
                Op::CreateMany
                | Op::CreateManyChecked
                | Op::CreateListed
                | Op::CreateManyLong
                | Op::RemoveListed
                | Op::CreateListedLong => (0..FILES).for_each(|file| context.undo(file)),
                _ => {}
            }
            Ok(())
        }
        other => other,
    };
    if result.is_ok() {
        let mut search = context.search.borrow_mut();
        search.examine(&context.disk);
    }
    result
}

async fn step<D: Device>(volume: &Volume<'_, D>, context: &Context, op: Op) -> Result<(), Error> {
    match op {
        Op::Create(f) => create(volume, context, (f, 0), 0, false).await,
        Op::CreateReserved(f) => create(volume, context, (f, 0), 2 * context.unit, false).await,
        Op::CreateChecked(f) => create(volume, context, (f, 0), context.unit, true).await,
        Op::CreateLong(f) => create(volume, context, (f, LONG), 0, false).await,
        Op::CreateLongReserved(f) => {
            create(volume, context, (f, LONG), 2 * context.unit, false).await
        }
        Op::Append(f) => {
            let block = volume.geometry().block_size_bytes() as u64;
            let to_block = block - context.live(f, |live| live.appended) % block;
            append(volume, context, f, to_block).await?;
            append(volume, context, f, block).await
        }
        Op::AppendTail(f) => {
            // Never past the block's end, so a run of these also ends on a boundary.
            let block = volume.geometry().block_size_bytes() as u64;
            let left = block - context.live(f, |live| live.appended) % block;
            append(volume, context, f, left.min(100)).await
        }
        Op::Commit(f) => {
            context.live(f, Live::committing);
            let size = volume.commit(context.handle(f)?).await?;
            context.live(f, |live| live.committed(size));
            Ok(())
        }
        Op::Sync(f) => {
            context.live(f, Live::committing);
            let size = volume.sync(context.handle(f)?).await?;
            context.live(f, |live| live.synced(size));
            Ok(())
        }
        Op::Overwrite(f) => overwrite(volume, context, f).await,
        Op::Reserve(f) => {
            let file = context.handle(f)?;
            let has = volume.file_status(file)?.reserved_bytes;
            volume.reserve(file, has + 2 * context.unit).await?;
            Ok(())
        }
        Op::Close(f) => close(volume, context, f, 0).await,
        Op::CloseKeeping(f) => close(volume, context, f, context.unit).await,
        Op::Open(f) => {
            let name = NAMES[f][context.live(f, |live| live.shown.name)];
            let file = volume.open_to_write(name).await?;
            context.handles.borrow_mut()[f] = Some(file);
            context.live(f, |live| live.is_open = true);
            Ok(())
        }
        Op::Remove(f) => {
            let name = NAMES[f][context.live(f, |live| live.shown.name)];
            context.begin(f, |now, _| *now = None);
            volume.remove(name).await?;
            context.done(f);
            Ok(())
        }
        Op::Rename(f) => {
            let name = context.live(f, |live| live.shown.name);
            rename(volume, context, f, usize::from(name == 0)).await
        }
        Op::RenameToLong(f) => rename(volume, context, f, LONG).await,
        Op::CreateMany => create_many(volume, context, 0, false, false).await,
        Op::CreateManyChecked => create_many(volume, context, 0, true, false).await,
        Op::CreateListed => create_many(volume, context, 0, false, true).await,
        Op::CreateManyLong => create_many(volume, context, LONG, false, false).await,
        Op::CreateListedLong => create_many(volume, context, LONG, false, true).await,
        Op::RemoveListed => remove_many(volume, context).await,
        Op::Reap => {
            let mut next = Some(0);
            while let Some(from) = next {
                next = volume.reap(from).await?;
            }
            Ok(())
        }
        Op::Discard => {
            let mut next = Some(0);
            while let Some(from) = next {
                next = volume.discard_free(from, 0).await?.next_unit;
            }
            Ok(())
        }
        Op::Grow => volume.grow_table().await,
        Op::GrowFor48 => volume.grow_table_for(48).await,
        Op::Shrink => match volume.back_to_1_0().await {
            // A long name, which changes nothing.
            Err(Error::BadName) => Ok(()),
            result => result,
        },
        Op::Resize(bytes) => {
            resized(volume, context);
            context.search.borrow_mut().oracle.volume_bytes.push(bytes);
            assert_eq!(volume.resize(bytes).await?, bytes, "a size that is rounded");
            resized(volume, context);
            Ok(())
        }
        // The runner does it.
        Op::Remount => Ok(()),
    }
}

/// The volume has its present size, and no other one.
fn resized<D: Device>(volume: &Volume<'_, D>, context: &Context) {
    let bytes = volume.status().shape.volume_bytes;
    context.search.borrow_mut().oracle.volume_bytes = vec![bytes];
}

/// Renames a file to another of its names.
async fn rename<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    file: usize,
    new: usize,
) -> Result<(), Error> {
    let old = context.live(file, |live| live.shown.name);
    context.begin(file, |now, _| {
        if let Some(live) = now {
            live.shown.name = new;
        }
    });
    volume.rename(NAMES[file][old], NAMES[file][new]).await?;
    context.done(file);
    Ok(())
}

async fn create<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    (file, name): (usize, usize),
    reserve_bytes: u64,
    checksums: bool,
) -> Result<(), Error> {
    context.begin(file, |now, incarnation| {
        *now = Some(Live::new(incarnation, checksums).called(name));
    });
    let options = CreateOptions {
        reserve_bytes,
        checksums,
        app_tag: context.live(file, |live| live.shown.incarnation),
    };
    let handle = volume.create(NAMES[file][name], &options).await?;
    context.handles.borrow_mut()[file] = Some(handle);
    context.done(file);
    Ok(())
}

/// Makes the files that are not there: the first with two units and a part of a block, the second
/// with a block.
async fn create_many<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    name: usize,
    checksums: bool,
    is_listed: bool,
) -> Result<(), Error> {
    let sizes = [2 * context.unit + 100, BLOCK];
    let is_absent = |file: &usize| context.search.borrow().oracle.files[*file].now.is_none();
    let absent: Vec<usize> = (0..FILES).filter(is_absent).collect();
    let mut contents = Vec::new();
    for &file in &absent {
        let size = sizes[file];
        context.begin(file, |now, incarnation| {
            *now = Some(Live::whole(incarnation, checksums, size).called(name));
        });
        let incarnation = context.live(file, |live| live.shown.incarnation);
        contents.push((incarnation, bytes(incarnation, 0, size)));
    }
    let new = absent.iter().zip(&contents);
    let new: Vec<NewFile<'_>> = new
        .map(|(file, (incarnation, data))| NewFile {
            name: NAMES[*file][name],
            data,
            mtime_ns: 0,
            app_tag: *incarnation,
        })
        .collect();
    let made = if is_listed {
        volume.create_batch::<13>(&new, checksums).await?.files
    } else {
        volume.create_many(&new, checksums).await?.files
    };
    for (index, &file) in absent.iter().enumerate() {
        if index < made {
            context.done(file)
        } else {
            context.undo(file)
        }
    }
    Ok(())
}

/// Removes all files in one operation, if they can be: their maps may have grown too far.
async fn remove_many<D: Device>(volume: &Volume<'_, D>, context: &Context) -> Result<(), Error> {
    let name_of = |file| NAMES[file][context.live(file, |live| live.shown.name)];
    let names: Vec<&str> = (0..FILES).map(name_of).collect();
    (0..FILES).for_each(|file| context.begin(file, |now, _| *now = None));
    let removed = volume.remove_batch::<16>(&names).await?;
    for file in 0..FILES {
        if file < removed {
            context.done(file)
        } else {
            context.undo(file)
        }
    }
    Ok(())
}

/// Appends `len` bytes, all in one block, and leaves them in flight.
async fn append<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    file: usize,
    len: u64,
) -> Result<(), Error> {
    let handle = context.handle(file)?;
    let (incarnation, from) = context.live(file, |live| (live.shown.incarnation, live.appended));
    let block = volume.geometry().block_size_bytes() as u64;
    let held = from % block;
    if held > 0 {
        // A block that was overwritten, and then cut shorter, is written as a whole when it is
        // appended to.
        let versions = |live: &mut Live| {
            let of_block = (from - held) / BLOCK..(from - held + block) / BLOCK;
            let versions = live.shown.versions.range_mut(of_block);
            versions.for_each(|(_, versions)| versions.push(0));
        };
        context.live(file, versions);
    }
    let data = bytes(incarnation, from - held, from + len);
    loop {
        let buffer = filled(&data, block as usize);
        let tag = context.tag();
        let submitted = if held == 0 {
            volume.append(handle, buffer, data.len(), tag)
        } else {
            volume.append_merged(handle, buffer, data.len(), tag)
        };
        let Err(Refused { error, buffer }) = submitted else {
            *context.out.borrow_mut() += 1;
            break;
        };
        free(buffer);
        match error {
            Error::NeedsReservation => {
                volume.reserve(handle, len.next_multiple_of(block)).await?;
            }
            Error::NeedsMap => volume.prepare_append(handle).await?,
            Error::NeedsCommit => return Err(Error::NeedsCommit),
            Error::Busy => {
                volume.kick();
                pause().await;
            }
            error => return Err(error),
        }
    }
    volume.kick();
    context.live(file, |live| {
        live.appended = from + len;
        live.ends.push(from + len);
    });
    Ok(())
}

async fn overwrite<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    file: usize,
) -> Result<(), Error> {
    let handle = context.handle(file)?;
    let block = volume.geometry().block_size_bytes() as u64;
    let (incarnation, version) = context.live(file, |live| {
        live.overwrites += 1;
        for part in 0..block / BLOCK {
            let versions = live.shown.versions.entry(part).or_insert_with(|| vec![0]);
            versions.push(live.overwrites);
        }
        (live.shown.incarnation, live.overwrites)
    });
    let data: Vec<u8> = (0..block)
        .map(|at| byte(incarnation, at, version))
        .collect();
    let tag = loop {
        let tag = context.tag();
        let buffer = filled(&data, block as usize);
        let Err(Refused { error, buffer }) = volume.overwrite(handle, 0, buffer, tag) else {
            *context.out.borrow_mut() += 1;
            break tag;
        };
        free(buffer);
        match error {
            Error::NeedsMap => volume.prepare(handle, 0).await?,
            Error::Busy | Error::PastEnd if volume.outstanding() > 0 => pause().await,
            error => return Err(error),
        }
    };
    volume.kick();
    while !context.ended.borrow().contains(&tag) {
        pause().await;
    }
    match context.failed.borrow_mut().take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

async fn close<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    file: usize,
    keep: u64,
) -> Result<(), Error> {
    context.live(file, Live::committing);
    let handle = context.handle(file)?;
    volume.close_keeping(handle, keep).await?;
    context.handles.borrow_mut()[file] = None;
    context.live(file, |live| {
        live.synced(live.appended);
        live.is_open = false;
    });
    Ok(())
}

/// Polls operations in turn until all have ended, while data keeps flowing.
///
/// # Errors
/// The first error; the other operations are still run to their end.
pub fn drive<D: Device>(
    volume: &Volume<'_, D>,
    context: &Context,
    ops: &[Op],
) -> Result<(), Error> {
    let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
    let mut futures: Vec<_> = ops
        .iter()
        .map(|op| Some(Box::pin(run(volume, context, *op))))
        .collect();
    let mut result = Ok(());
    while futures.iter().any(Option::is_some) {
        for place in &mut futures {
            if let Some(future) = place {
                if let Poll::Ready(done) = future.as_mut().poll(&mut waker) {
                    result = result.and(done);
                    *place = None;
                }
            }
        }
        take_event(volume, context);
    }
    result
}

/// Polls once, and takes a buffer back.
pub fn take_event<D: Device>(volume: &Volume<'_, D>, context: &Context) {
    if let Some(event) = volume.poll() {
        context.ended.borrow_mut().insert(event.tag);
        if let Err(error) = event.result {
            context.failed.borrow_mut().get_or_insert(error);
        }
        if let Some(buffer) = event.buffer {
            *context.out.borrow_mut() -= 1;
            free(buffer);
        }
    }
}
