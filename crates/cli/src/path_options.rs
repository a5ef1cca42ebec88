// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of paths and of moving data, for the parser.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use devices::path::{Mode, PathChoice};
use devices::transfer::{IoOptions, Route};
use std::ops::Deref;
use units::{Size, Time};

/// The help text of `--path` for all verbs.
const PATH_HELP: &str = "The path to the drive. auto: the straight path if it is \
available, io_uring otherwise; pread and pwrite for a plain file. straightway, vfio and noiommu are \
the straight path, with an IOMMU or without; sync is pread and pwrite through the page cache. `straightway --help` names all";

/// The values of `--path` and `--paths`.
pub fn path() -> impl TypedValueParser<Value = PathChoice> {
    PossibleValuesParser::new(PathChoice::names())
        .try_map(|name| PathChoice::by_name(&name).map_err(|failure| failure.to_string()))
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeOption {
    /// Poll until it arrives: fastest, but a processor spins
    Poll,
    /// Sleep until the drive interrupts
    Interrupt,
    /// Poll for a short time, then sleep
    Hybrid,
}

#[derive(Args)]
struct RouteOptions {
    /// The path to the drive
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = path(), help = PATH_HELP)]
    path: PathChoice,
    /// How completions are waited for [default: as in the path's name]
    #[arg(long, value_enum)]
    mode: Option<ModeOption>,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    namespace: Option<u32>,
    /// Gather small sequential accesses into large commands, and read ahead of small reads
    #[arg(long)]
    hybrid: bool,
    /// Keep reads of at most 64 KiB in this much memory
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Keep the drive out of power states that delay a command longer, until the end; 0us keeps it
    /// awake
    #[arg(long, value_name = "TIME")]
    latency_limit: Option<Time>,
}

#[derive(Args)]
struct MoveOptions {
    /// Bytes per operation; longer ones than the drive supports become several commands
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    block_size: Size,
    /// Commands in flight, at most 64 on the straight path
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    queue_depth: u16,
    /// The path to the drive
    #[command(flatten)]
    route: RouteArgs,
}

/// A [`Route`] that the parser fills.
#[derive(Clone, Copy, Debug)]
pub struct RouteArgs(Route);

/// The same of [`IoOptions`].
#[derive(Clone, Copy, Debug)]
pub struct IoArgs(IoOptions);

impl From<RouteOptions> for RouteArgs {
    fn from(options: RouteOptions) -> Self {
        Self(Route {
            path: options.path,
            mode: options.mode.map(|mode| match mode {
                ModeOption::Poll => Mode::Poll,
                ModeOption::Interrupt => Mode::Interrupt,
                ModeOption::Hybrid => Mode::Hybrid,
            }),
            namespace: options.namespace,
            hybrid: options.hybrid,
            cache: options.cache,
            latency_limit: options.latency_limit,
        })
    }
}

impl From<MoveOptions> for IoArgs {
    fn from(options: MoveOptions) -> Self {
        Self(IoOptions {
            block_size: options.block_size,
            queue_depth: options.queue_depth,
            route: *options.route,
        })
    }
}

/// The parser's traits of a plain struct, by those of the one that has the options.
macro_rules! parsed_as {
    ($args:ident, $options:ident, $plain:ident) => {
        impl Deref for $args {
            type Target = $plain;

            fn deref(&self) -> &$plain {
                &self.0
            }
        }

        impl FromArgMatches for $args {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                $options::from_arg_matches(matches).map(Self::from)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Args for $args {
            fn augment_args(command: Command) -> Command {
                $options::augment_args(command)
            }

            fn augment_args_for_update(command: Command) -> Command {
                $options::augment_args_for_update(command)
            }
        }
    };
}

parsed_as!(RouteArgs, RouteOptions, Route);
parsed_as!(IoArgs, MoveOptions, IoOptions);
