// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings that remedies name, and their values.

use crate::Remedy;
use std::borrow::Cow;
use std::fmt;

/// Whether more of a setting is more, larger, higher or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Things that are counted.
    Count,
    /// Bytes, and what is not counted.
    Size,
    /// So much in a second.
    Rate,
    /// Times.
    Time,
}

impl Amount {
    /// What goes before the name of a setting that should be raised.
    pub const fn more(self) -> &'static str {
        match self {
            Self::Count => "more",
            Self::Size => "a larger",
            Self::Rate => "a higher",
            Self::Time => "a longer",
        }
    }

    /// What goes before the name of a setting that should be lowered.
    pub const fn less(self) -> &'static str {
        match self {
            Self::Count => "fewer",
            Self::Size => "a smaller",
            Self::Rate => "a lower",
            Self::Time => "a shorter",
        }
    }
}

/// The settings: a name, the member of a struct of options, the option of the command without its
/// dashes, and its amount.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident $member:literal $option:literal $amount:ident;)*) => {
        /// What a user sets, whatever it is called where it is set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Setting {
            $($(#[$doc])* $name,)*
        }

        impl Setting {
            /// Every setting.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The member of the library's structs of options.
            pub const fn member(self) -> &'static str {
                match self {
                    $(Self::$name => $member,)*
                }
            }

            /// The option on the command line, without its dashes.
            pub const fn option(self) -> &'static str {
                match self {
                    $(Self::$name => $option,)*
                }
            }

            /// The setting with this option.
            pub fn named(option: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.option() == option)
            }

            /// Whether more of it is more, larger, higher or longer.
            pub const fn amount(self) -> Amount {
                match self {
                    $(Self::$name => Amount::$amount,)*
                }
            }
        }
    };
}

settings! {
    /// The command that is allowed, by its name.
    Allow "allow" "allow" Size;
    /// Every file of the volume.
    All "all" "all" Size;
    /// Bytes of a stream's block.
    Block "block_bytes" "block" Size;
    /// Bytes of an operation.
    BlockSize "operation_bytes" "block-size" Size;
    /// Blocks of memory of a stream.
    Buffers "buffers" "buffers" Count;
    /// Memory that keeps small reads.
    Cache "cache_bytes" "cache" Size;
    /// Channels whose samples alternate.
    Channels "channels" "channels" Count;
    /// Whether checksums are stored.
    Checksums "checksums" "checksums" Size;
    /// Clients at once.
    Connections "connections" "connections" Count;
    /// A coprocessor's window.
    Coprocessor "coprocessor" "coprocessor" Size;
    /// Whether something is made.
    Create "create" "create" Size;
    /// Bytes of a workload's files.
    Dataset "dataset_bytes" "dataset" Size;
    /// Requests in flight of a measurement.
    Depths "depths" "depths" Size;
    /// The drive whose data may be lost, by its serial number.
    DestroyData "destroy_data" "destroy-data" Size;
    /// How long a measurement lasts.
    Duration "duration" "duration" Time;
    /// The most E-value of what is reported.
    EValue "e_value" "e-value" Size;
    /// How many events are printed.
    Events "events" "events" Count;
    /// Whether fio is measured too.
    Fio "fio" "fio" Size;
    /// How often a periodic task runs.
    Firings "firings" "firings" Count;
    /// Whether what is not yet committed is fetched too.
    Follow "follow" "follow" Size;
    /// Consent to losing what is there.
    Force "force" "force" Size;
    /// What other tools take a recording for.
    Format "format" "format" Size;
    /// The centre frequency.
    Frequency "frequency_hz" "frequency" Rate;
    /// Where a stream comes from.
    From "from" "from" Size;
    /// The receiver, in words.
    Hardware "hardware" "hardware" Size;
    /// Whether small accesses are gathered.
    Hybrid "hybrid" "hybrid" Size;
    /// Whether results are JSON.
    Json "json" "json" Size;
    /// Bytes of all segments together.
    Keep "keep_bytes" "keep" Size;
    /// The longest delay by a drive's power states.
    LatencyLimit "latency_limit" "latency-limit" Time;
    /// Bytes that are moved.
    Length "length_bytes" "length" Size;
    /// Memory for buffers.
    Memory "memory_bytes" "memory" Size;
    /// How completions are waited for.
    Mode "mode" "mode" Size;
    /// How the requests of a measurement are waited for.
    Modes "modes" "modes" Size;
    /// A file's name on the volume.
    Name "name" "name" Size;
    /// A namespace of a controller.
    Namespace "namespace_id" "namespace" Size;
    /// Whether a mount may hide files of its folder.
    Nonempty "may_hide" "nonempty" Size;
    /// Whether checksums are left uncompared.
    NoVerify "no_verify" "no-verify" Size;
    /// Bytes of a volume's node.
    Node "node_bytes" "node" Size;
    /// The first byte.
    Offset "offset_bytes" "offset" Size;
    /// How the device is reached.
    Path "path" "path" Size;
    /// The paths of a measurement.
    Paths "paths" "paths" Size;
    /// The score of a mismatch.
    Penalty "penalty" "penalty" Size;
    /// The time between two runs of a task.
    Period "period" "period" Time;
    /// What happens to a block that finds no memory.
    Policy "on_full" "policy" Size;
    /// Requests in flight.
    QueueDepth "queue_depth" "queue-depth" Size;
    /// Bytes a second.
    Rate "bytes_per_second" "rate" Rate;
    /// Whether the data of files is read and compared.
    ReadData "read_data" "read-data" Size;
    /// Whether an array is made whole again.
    Rebuild "rebuild" "rebuild" Size;
    /// Whether a recording is only tried.
    Rehearse "rehearse" "rehearse" Size;
    /// Whether datagrams are sent as they arrived.
    Replay "replay" "replay" Size;
    /// The file of a report.
    Report "report" "report" Size;
    /// Samples a second.
    SampleRate "sample_rate_hz" "sample-rate" Rate;
    /// The size or the time after which another file begins.
    Segment "segment_bytes" "segment" Time;
    /// The score of a match.
    Reward "reward" "reward" Size;
    /// The type of a sample.
    SigmfDatatype "sigmf_datatype" "sigmf-datatype" Size;
    /// Bytes of a volume or of a range.
    Size "volume_bytes" "size" Size;
    /// Files that a volume has space for.
    Slots "slots" "slots" Count;
    /// Bytes that a measurement accesses.
    Span "span_bytes" "span" Size;
    /// Whether files are an archive.
    Tar "tar" "tar" Size;
    /// Threads of a measurement.
    Threads "threads" "threads" Count;
    /// A profiling timer.
    Timer "timer" "timer" Size;
    /// The folder of certificates.
    Tls "tls" "tls" Size;
    /// Where a stream goes.
    To "to" "to" Size;
    /// Whether a ublk device is served.
    Ublk "ublk" "ublk" Size;
    /// Bytes of a volume's allocation unit.
    Unit "unit_bytes" "unit" Size;
}

/// What a setting may be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// On: consent, or another yes.
    On,
    /// A name, as it is.
    Name(Cow<'static, str>),
    /// A number.
    Number(u64),
    /// Bytes.
    Bytes(u64),
    /// Not one value: the user chooses.
    Choice(Cow<'static, str>),
}

impl Value {
    /// Any of these values, or something that is like these.
    pub fn choice(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Choice(text.into())
    }
}

impl From<&'static str> for Value {
    fn from(name: &'static str) -> Self {
        Self::Name(Cow::Borrowed(name))
    }
}

impl From<String> for Value {
    fn from(name: String) -> Self {
        Self::Name(Cow::Owned(name))
    }
}

/// Bytes with the largest unit that divides them: `64K`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Name(text) | Self::Choice(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => {
                let units = [(30, "G"), (20, "M"), (10, "K")];
                let unit = units
                    .into_iter()
                    .find(|(shift, _)| *bytes > 0 && bytes.trailing_zeros() >= *shift);
                match unit {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => write!(f, "{bytes}"),
                }
            }
        }
    }
}

impl Setting {
    /// Set to this.
    pub fn to(self, value: impl Into<Value>) -> Remedy {
        Remedy::Set(self, value.into())
    }
}
