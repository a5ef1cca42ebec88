// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The open devices, volumes and files of each thread.
//!
//! A handle is a number: this thread's, its place in the table and the place's generation. One that
//! was closed, that another thread opened, or that is of another kind, is an error and never a
//! wrong address.

use crate::error::{Fault, usage};
use crate::mounted::Mounted;
use crate::session::Session;
use api::{Map, Player, Recorder, VolumeFile};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bits of a handle: the thread above the generation above the place. 0 is never a handle.
const PLACE_BITS: u32 = 12;
const GENERATION_BITS: u32 = 20;
const MOST: usize = 1 << PLACE_BITS;

/// Numbers of threads that have opened a device; from 1.
static THREADS: AtomicU32 = AtomicU32::new(1);

/// What a handle names.
pub enum Open {
    /// A device.
    Device(Box<Session>),
    /// A volume.
    Volume(Box<Mounted>),
    /// An open file, and the handle of its volume.
    File(VolumeFile, u64),
    /// A recording in progress.
    Recorder(Box<Recorder>),
    /// A playback in progress.
    Player(Box<Player>),
    /// A map.
    Map(Box<Map>),
}

impl Open {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Device(_) => Session::NAME,
            Self::Volume(_) => Mounted::NAME,
            Self::File(..) => "file",
            Self::Recorder(_) => Recorder::NAME,
            Self::Player(_) => Player::NAME,
            Self::Map(_) => Map::NAME,
        }
    }
}

/// What a handle names by itself: a file needs its volume too.
pub trait Kind: Sized {
    /// As errors call it.
    const NAME: &'static str;

    /// It, if it is this.
    fn of(open: &mut Open) -> Option<&mut Self>;

    /// The same, taken out.
    fn out_of(open: Open) -> Option<Self>;
}

macro_rules! kinds {
    ($($variant:ident($kind:ty) $name:literal),*) => {$(
        impl Kind for $kind {
            const NAME: &'static str = $name;

            fn of(open: &mut Open) -> Option<&mut Self> {
                match open {
                    Open::$variant(it) => Some(it),
                    _ => None,
                }
            }

            fn out_of(open: Open) -> Option<Self> {
                match open {
                    Open::$variant(it) => Some(*it),
                    _ => None,
                }
            }
        }
    )*};
}

kinds!(
    Device(Session) "device",
    Volume(Mounted) "volume",
    Recorder(Recorder) "recorder",
    Player(Player) "player",
    Map(Map) "map"
);

struct Place {
    generation: u64,
    open: Option<Open>,
}

struct Table {
    thread: u64,
    places: Vec<Place>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::new(Table {
        thread: u64::from(THREADS.fetch_add(1, Ordering::Relaxed)),
        places: Vec::new(),
    });
}

/// Adds what was opened; its handle.
///
/// # Errors
/// This thread has too many.
pub fn add(open: Open) -> Result<u64, Fault> {
    TABLE.with_borrow_mut(|table| table.add(open))
}

/// Whether another one could be added, so that nothing is opened in vain.
///
/// # Errors
/// This thread has too many.
pub fn check_room() -> Result<(), Fault> {
    TABLE.with_borrow(|table| table.free().map(|_| ()))
}

/// Uses what a handle names.
///
/// # Errors
/// It is closed, another thread's, or of another kind; or the error of `use_it`.
pub fn with<K: Kind, T>(
    handle: u64,
    use_it: impl FnOnce(&mut K) -> Result<T, Fault>,
) -> Result<T, Fault> {
    TABLE.with_borrow_mut(|table| {
        let open = table.get(handle)?;
        let kind = open.kind();
        use_it(K::of(open).ok_or_else(|| wrong_kind(kind, K::NAME))?)
    })
}

/// Uses the file of a handle, and its volume.
///
/// # Errors
/// As [`with`].
pub fn with_file<T>(
    handle: u64,
    use_it: impl FnOnce(&Mounted, &mut VolumeFile) -> Result<T, Fault>,
) -> Result<T, Fault> {
    TABLE.with_borrow_mut(|table| {
        let volume = match table.get(handle)? {
            Open::File(_, volume) => *volume,
            other => return Err(wrong_kind(other.kind(), "file")),
        };
        let (at, volume_at) = (table.find(handle)?, table.find(volume)?);
        // Two places, as a handle of one generation is of one kind.
        let (low, high) = table.places.split_at_mut(at.max(volume_at));
        let (file, volume) = if at < volume_at {
            (&mut low[at], &high[0])
        } else {
            (&mut high[0], &low[volume_at])
        };
        match (&mut file.open, &volume.open) {
            (Some(Open::File(file, _)), Some(Open::Volume(volume))) => use_it(volume, file),
            _ => Err(closed()),
        }
    })
}

/// Takes what a handle names out. A volume's files stay: [`remove_volume`].
///
/// # Errors
/// As [`with`].
pub fn remove<K: Kind>(handle: u64) -> Result<K, Fault> {
    K::out_of(take(handle, K::NAME)?).ok_or_else(closed)
}

/// Takes the volume of a handle out, and its open files.
///
/// # Errors
/// As [`with`].
pub fn remove_volume(handle: u64) -> Result<(Mounted, Vec<VolumeFile>), Fault> {
    let volume = remove::<Mounted>(handle)?;
    let is_of_it = |open: &mut Open| matches!(open, Open::File(_, of) if *of == handle);
    let files = TABLE.with_borrow_mut(|table| {
        let places = table.places.iter_mut();
        let taken = places.filter_map(|place| place.open.take_if(is_of_it));
        taken.collect::<Vec<_>>()
    });
    let files = files.into_iter().filter_map(|open| match open {
        Open::File(file, _) => Some(file),
        _ => None,
    });
    Ok((volume, files.collect()))
}

/// Takes the file of a handle out; and the handle of its volume.
///
/// # Errors
/// As [`with`].
pub fn remove_file(handle: u64) -> Result<(VolumeFile, u64), Fault> {
    match take(handle, "file")? {
        Open::File(file, volume) => Ok((file, volume)),
        _ => Err(closed()),
    }
}

/// Takes it out if it is of this kind.
fn take(handle: u64, kind: &str) -> Result<Open, Fault> {
    TABLE.with_borrow_mut(|table| {
        let open = table.get(handle)?;
        if open.kind() != kind {
            return Err(wrong_kind(open.kind(), kind));
        }
        let at = table.find(handle)?;
        table.places[at].open.take().ok_or_else(closed)
    })
}

impl Table {
    /// The first free place, which may be the next new one.
    fn free(&self) -> Result<usize, Fault> {
        let free = self.places.iter().position(|place| place.open.is_none());
        match free.unwrap_or(self.places.len()) {
            MOST => Err(usage(
                format!("this thread has {MOST} open handles"),
                "close some",
            )),
            at => Ok(at),
        }
    }

    fn add(&mut self, open: Open) -> Result<u64, Fault> {
        let at = self.free()?;
        if at == self.places.len() {
            let (generation, open) = (0, None);
            self.places.push(Place { generation, open });
        }
        let place = &mut self.places[at];
        place.generation = (place.generation + 1) % (1 << GENERATION_BITS);
        place.open = Some(open);
        Ok((self.thread << GENERATION_BITS | place.generation) << PLACE_BITS | at as u64)
    }

    fn get(&mut self, handle: u64) -> Result<&mut Open, Fault> {
        let at = self.find(handle)?;
        self.places[at].open.as_mut().ok_or_else(closed)
    }

    fn find(&self, handle: u64) -> Result<usize, Fault> {
        let at = (handle & (MOST as u64 - 1)) as usize;
        let rest = handle >> PLACE_BITS;
        if rest >> GENERATION_BITS != self.thread {
            return Err(usage(
                "this thread has not opened such a handle",
                "a handle is used by the thread that opened it",
            ));
        }
        let generation = rest & ((1 << GENERATION_BITS) - 1);
        match self.places.get(at) {
            Some(place) if place.generation == generation => Ok(at),
            _ => Err(closed()),
        }
    }
}

fn closed() -> Fault {
    usage("this handle is closed", "open it again")
}

fn wrong_kind(kind: &str, wanted: &str) -> Fault {
    usage(
        format!("this handle is a {kind}'s, not a {wanted}'s"),
        "give the handle that the call is for",
    )
}
