// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paths that exist: one table, [`KINDS`], from which every name, property and help text comes.
//!
//! No property is derived from the spelling of a name. A new path needs a row here and the code
//! that opens it.

#![forbid(unsafe_code)]

/// The example of the crate's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod latency_limit;

pub use latency_limit::{LatencyLimit, LimitedBy};

/// Paths of one group need the same driver, and the drive in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The kernel's NVMe driver, and a file system mounted.
    Ext4,
    /// The kernel's NVMe driver, with nothing mounted: raw paths that write claim the drive.
    Kernel,
    /// CharIO's driver.
    Chario,
    /// The controller in user space.
    Straightway,
    /// A storage coprocessor, which owns its drive.
    Coprocessor,
    /// No driver: a file, or memory.
    Plain,
    /// Several devices, each by its own path.
    Array,
    /// A remote target.
    Remote,
}

impl Group {
    /// The name that records and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Ext4 => "ext4",
            Group::Kernel => "kernel",
            Group::Chario => "chario",
            Group::Straightway => "straightway",
            Group::Coprocessor => "coprocessor",
            Group::Plain => "plain",
            Group::Array => "array",
            Group::Remote => "remote",
        }
    }

    /// The group of this name.
    pub fn named(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .map(|kind| kind.group)
            .find(|group| group.name() == name)
    }
}

/// How a request is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// `pread` and `pwrite` on a block device or a file.
    File,
    /// io_uring on a block device or a file.
    Ring,
    /// NVMe commands over io_uring, on a namespace's character device.
    Passthrough,
    /// CharIO's device, with ordinary memory.
    Chario,
    /// CharIO's device, with registered memory.
    CharioRegistered,
    /// CharIO's device, with memory of a physical window.
    CharioWindow,
    /// A queue pair of our own driver.
    Queue,
    /// A storage coprocessor's ring.
    Coprocessor,
    /// Memory.
    Memory,
    /// Stripes or a mirror.
    Array,
    /// NVMe/TCP.
    Remote,
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A processor spins until the completion arrives.
    Poll,
    /// The thread sleeps until the device interrupts, or the call returns.
    Interrupt,
    /// The thread spins for a short time, then sleeps; without interrupts it only spins.
    Hybrid,
}

/// One path.
#[derive(Debug, PartialEq, Eq)]
pub struct PathKind {
    /// Its name in options, records and reports.
    pub name: &'static str,
    /// Shorter names. If several paths share one, the device decides.
    pub aliases: &'static [&'static str],
    /// The group of paths that it belongs to.
    pub group: Group,
    /// How its requests are transferred.
    pub carrier: Carrier,
    /// How it waits.
    pub wait: Wait,
    /// Whether data may remain in the page cache.
    pub is_buffered: bool,
    /// Whether small sequential accesses are gathered (hybrid direct I/O).
    pub gathers: bool,
    /// fio's I/O engine for the same path, if fio supports it.
    pub fio: Option<&'static str>,
    /// The same path without the page cache.
    pub unbuffered: Option<&'static str>,
    /// The nearest path that polls.
    pub polled: Option<&'static str>,
    /// Whether it is measured by default.
    pub is_usual: bool,
    /// Whether it is the default where a single path is needed.
    pub is_first: bool,
}

/// The defaults of the fields that a row omits.
const USUAL: PathKind = PathKind {
    name: "",
    aliases: &[],
    group: Group::Plain,
    carrier: Carrier::File,
    wait: Wait::Interrupt,
    is_buffered: false,
    gathers: false,
    fio: None,
    unbuffered: None,
    polled: None,
    is_usual: true,
    is_first: false,
};

macro_rules! kinds {
    ($($name:tt $group:ident $carrier:ident $wait:ident { $($field:ident: $value:expr),* })*) => {
        /// Every path, in the order of unsorted tables.
        pub static KINDS: &[PathKind] = &[$(PathKind {
            name: $name,
            group: Group::$group,
            carrier: Carrier::$carrier,
            wait: Wait::$wait,
            $($field: $value,)*
            ..USUAL
        },)*];
    };
}

// Name, group, carrier, wait, and the fields that differ from `USUAL`.
kinds! {
    "ext4-buffered"         Ext4        File             Interrupt {
        is_buffered: true, unbuffered: Some("ext4-direct")
    }
    "ext4-direct"           Ext4        File             Interrupt {}
    "ext4-gathered"         Ext4        Ring             Interrupt { gathers: true, is_usual: false }
    "block-buffered"        Kernel      File             Interrupt {
        aliases: &["sync"], is_buffered: true, fio: Some("psync"), unbuffered: Some("block-direct")
    }
    "block-direct"          Kernel      File             Interrupt {
        fio: Some("psync"), polled: Some("io_uring-polled")
    }
    "io_uring"              Kernel      Ring             Interrupt {
        aliases: &["io-uring"], fio: Some("io_uring"), polled: Some("io_uring-polled")
    }
    "io_uring-polled"       Kernel      Ring             Poll      {}
    "io_uring-gathered"     Kernel      Ring             Interrupt { gathers: true, is_usual: false }
    "passthrough"           Kernel      Passthrough      Interrupt { polled: Some("passthrough-polled") }
    "passthrough-polled"    Kernel      Passthrough      Poll      { is_usual: false }
    "chario"                Chario      Chario           Interrupt { polled: Some("chario-poll") }
    "chario-poll"           Chario      Chario           Poll      {}
    "chario-registered"     Chario      CharioRegistered Interrupt {}
    "chario-phys"           Chario      CharioWindow     Interrupt {}
    "straightway-poll"      Straightway Queue            Poll      { is_first: true }
    "straightway-interrupt" Straightway Queue            Interrupt { polled: Some("straightway-poll") }
    "straightway-hybrid"    Straightway Queue            Hybrid    {
        aliases: &["straightway", "vfio", "noiommu"], polled: Some("straightway-poll"), is_usual: false
    }
    "straightway-gathered"  Straightway Queue            Hybrid    { gathers: true, is_usual: false }
    "coprocessor"           Coprocessor Coprocessor      Poll      { is_first: true }
    "coprocessor-hybrid"    Coprocessor Coprocessor      Hybrid    { polled: Some("coprocessor"), is_usual: false }
    "file-buffered"         Plain       File             Interrupt {
        aliases: &["sync"], is_buffered: true, fio: Some("psync"), unbuffered: Some("file-direct")
    }
    "file-direct"           Plain       File             Interrupt { fio: Some("psync"), is_first: true }
    "file-io_uring"         Plain       Ring             Interrupt {
        aliases: &["io_uring", "io-uring"], fio: Some("io_uring")
    }
    "file-io_uring-polled"  Plain       Ring             Poll      { is_usual: false }
    "file-gathered"         Plain       Ring             Interrupt { gathers: true, is_usual: false }
    RAM                     Plain       Memory           Poll      { is_first: true }
    REMOTE                  Remote      Remote           Interrupt { is_first: true }
    ARRAY                   Array       Array            Interrupt { is_first: true }
}

/// Memory, the reference for every device.
pub const RAM: &str = "ram";

/// A namespace of a remote target.
pub const REMOTE: &str = "nvme-tcp";

/// The default where a single path to a block device that is not an NVMe namespace is needed.
pub const DISK: &str = "block-direct";

/// Several devices as one.
pub const ARRAY: &str = "array";

/// Baselines for the speed of other paths, of which the first measured one is used: the paths of a
/// program that simply opens the device and reads.
const BASELINES: [&str; 6] = [
    "block-direct",
    "ext4-direct",
    "block-buffered",
    "ext4-buffered",
    "file-direct",
    "file-buffered",
];

/// The path of this name, without aliases.
pub fn named(name: &str) -> Option<&'static PathKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The path with the name or alias `name` among those that `fits` accepts; otherwise the path of
/// this name, accepted or not.
pub fn find(name: &str, fits: impl Fn(&PathKind) -> bool) -> Option<&'static PathKind> {
    let means = |kind: &&PathKind| kind.name == name || kind.aliases.contains(&name);
    let mut all = KINDS.iter();
    all.find(|kind| means(kind) && fits(kind))
        .or_else(|| KINDS.iter().find(means))
}

/// All names, then all aliases that are not names, without duplicates.
pub fn names() -> Vec<&'static str> {
    let precise = KINDS.iter().map(|kind| kind.name);
    let aliases = KINDS.iter().flat_map(|kind| kind.aliases.iter().copied());
    let mut all = Vec::new();
    for name in precise.chain(aliases) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The baseline among the `measured` paths.
pub fn baseline<'a>(measured: &[&'a str]) -> Option<&'a str> {
    let mut names = BASELINES.iter();
    names.find_map(|name| measured.iter().find(|one| *one == name).copied())
}

impl PathKind {
    /// Whether a processor spins while the device works.
    pub const fn polls(&self) -> bool {
        matches!(self.wait, Wait::Poll)
    }

    /// Whether requests go through a ring, several at a time.
    pub const fn is_ring(&self) -> bool {
        matches!(self.carrier, Carrier::Ring | Carrier::Passthrough)
    }

    /// Whether requests are system calls, which the kernel's events record.
    pub const fn is_through_kernel(&self) -> bool {
        !matches!(
            self.carrier,
            Carrier::Queue | Carrier::Coprocessor | Carrier::Memory
        )
    }

    /// Whether the path is one of this project's own.
    pub const fn is_ours(&self) -> bool {
        matches!(
            self.group,
            Group::Straightway | Group::Chario | Group::Coprocessor
        )
    }

    /// The path with the same carrier and group that waits in this way.
    pub fn waiting(&self, wait: Wait) -> Option<&'static PathKind> {
        KINDS.iter().find(|kind| {
            let same = (kind.group, kind.carrier, kind.wait);
            let like = (kind.is_buffered, kind.gathers);
            same == (self.group, self.carrier, wait) && like == (self.is_buffered, self.gathers)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Group as G, *};

    #[test]
    fn names_differ_and_every_sibling_is_in_the_table_and_is_what_it_is_said_to_be() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(
                KINDS[index + 1..]
                    .iter()
                    .all(|other| other.name != kind.name)
            );
            assert_eq!(named(kind.name), Some(kind));
            assert_eq!(Group::named(kind.group.name()), Some(kind.group));
            assert_eq!(kind.waiting(kind.wait), Some(kind));
            if let Some(name) = kind.polled {
                let polled = named(name).unwrap();
                assert!(polled.polls() && !kind.polls() && polled.group == kind.group);
            }
            if let Some(name) = kind.unbuffered {
                let direct = named(name).unwrap();
                assert!(kind.is_buffered && !direct.is_buffered);
                assert_eq!((direct.group, direct.carrier), (kind.group, kind.carrier));
            }
        }
        assert!(BASELINES.iter().all(|name| named(name).is_some()));
    }

    #[test]
    fn an_alias_means_the_path_that_fits_the_device() {
        let of = |name, group| find(name, |kind| kind.group == group).map(|kind| kind.name);
        assert_eq!(of("sync", G::Kernel), Some("block-buffered"));
        assert_eq!(of("sync", G::Plain), Some("file-buffered"));
        assert_eq!(of("io_uring", G::Kernel), Some("io_uring"));
        assert_eq!(of("io_uring", G::Plain), Some("file-io_uring"));
        assert_eq!(of("vfio", G::Straightway), Some("straightway-hybrid"));
        assert_eq!(of("ram", G::Kernel), Some("ram"));
        assert_eq!(of("no", G::Kernel), None);
    }
}
