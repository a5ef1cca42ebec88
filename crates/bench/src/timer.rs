// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stamps of requests by a profiling timer, or by the processor's counter, instead of the kernel's
//! events.
//!
//! The application's points go to the timer's registers or to a ring of this thread. CharIO's
//! points come from its module: from `/dev/chario-events`, on the same counter, or into the same
//! timer.

use super::OrMissing;
use devices::error::{Error, Result};
use events::{Device, Lane, Names, Node, Recorder, Ring, Simulation, Window, application};
use linux::{ClockSource, Roots, TscClock};
use measure::Missing;
use measure::trace::timeline::recorded;
use measure::trace::{Mark, Probe, Recorded, Sees};
use remedy::{Setting, words};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Names the processor's counter where a timer's path is expected.
pub const COUNTER: &str = "counter";
/// Events of a ring: four for each request of the longest turn, and some.
const CAPACITY: u32 = 1 << 16;

/// A recorder of the application's points, and the module's.
pub struct Timer {
    recorder: Box<dyn Recorder>,
    source: &'static str,
    /// The node with the module's events, if they are not in the recorder's own.
    module: Option<PathBuf>,
    node: Option<Node>,
    sees: Sees,
    /// The first failure of a stamp.
    failed: Option<io::Error>,
}

impl Timer {
    /// The timer at `path`, or the processor's counter if that is [`COUNTER`]. With `is_chario` the
    /// module's points are recorded, too.
    ///
    /// # Errors
    /// There is no timer, the counter cannot be used, or the module stamps nothing.
    pub fn new(roots: &Roots, path: &Path, is_chario: bool) -> Result<Self> {
        let is_counter = path == Path::new(COUNTER);
        let recorder = if is_counter {
            counter()?
        } else {
            device(path)?
        };
        let module = match (is_chario, is_counter) {
            (true, true) => Some(roots.dev.join("chario-events")),
            (true, false) => {
                refuse_other_timer(roots)?;
                None
            }
            (false, _) => None,
        };
        Ok(Self {
            recorder,
            source: if is_counter { "counter" } else { "timer" },
            module,
            node: None,
            sees: if is_chario {
                Sees::Commands
            } else {
                Sees::Marks
            },
            failed: None,
        })
    }

    /// The module's node, which is opened when the first turn begins: the module may be loaded by
    /// then.
    fn module(&mut self) -> Result<Option<&mut Node>> {
        let Some(path) = &self.module else {
            return Ok(None);
        };
        if self.node.is_none() {
            let node = Node::open(path).map_err(|error| {
                Error::io("opening", path, &error).hint(
                    "load CharIO with room for events: insmod kernel/chario/chario.ko events=65536",
                )
            })?;
            self.node = Some(node);
        }
        Ok(self.node.as_mut())
    }

    fn lanes(&mut self) -> Result<Vec<Lane>> {
        let failed = |error: io::Error| Error::other(format!("the profiling timer: {error}"));
        if let Some(error) = self.failed.take() {
            return Err(failed(error));
        }
        let taken = self.module()?.map(Node::take).transpose();
        let mut lanes = taken.map_err(failed)?.unwrap_or_default();
        let own = self.recorder.take().map_err(failed)?;
        // One counter, so one relation to the clock: that of this thread.
        for lane in &mut lanes {
            (lane.begin, lane.end) = (own.begin, own.end);
        }
        lanes.push(own);
        Ok(lanes)
    }
}

/// A ring stamped by the processor's counter.
fn counter() -> Result<Box<dyn Recorder>> {
    // Elsewhere the architecture defines one time for all processors.
    if cfg!(target_arch = "x86_64") && TscClock::new().source() == ClockSource::Kernel {
        return Err(Error::unsupported(
            "the processor's counter is not the same on all processors, or stops",
        )
        .hint(words![
            "name a profiling timer: ",
            Setting::Timer,
            "=/dev/uio0; or leave ",
            Setting::Timer,
            " out"
        ]));
    }
    let ring = Ring::anonymous("straightway", CAPACITY)
        .map_err(|error| Error::missing(format!("memory for {CAPACITY} events: {error}")))?;
    Ok(Box::new(ring))
}

/// The timer behind a UIO device, a file or a simulation's socket.
fn device(path: &Path) -> Result<Box<dyn Recorder>> {
    let failed = |error: &io::Error| {
        Error::io("opening the profiling timer", path, error).hint(
            "name a UIO device of rtl/timer, or leave the name out for the processor's counter",
        )
    };
    let kind = fs::metadata(path).map_err(|error| failed(&error))?;
    let boxed = |recorder: io::Result<Box<dyn Recorder>>| recorder.map_err(|error| failed(&error));
    boxed(if kind.file_type().is_socket() {
        Simulation::connect(path).and_then(all_lines)
    } else {
        Window::open(path).and_then(all_lines)
    })
}

/// A timer that stamps all of its interrupt lines.
fn all_lines<R: events::Registers + 'static>(registers: R) -> io::Result<Box<dyn Recorder>> {
    let mut device = Device::new(registers)?;
    let mask = u32::MAX >> (32 - device.shape().lines.clamp(1, 32));
    device.stamp_lines(mask)?;
    Ok(Box::new(device))
}

/// CharIO's points must be in the timer that the application's are in.
fn refuse_other_timer(roots: &Roots) -> Result<()> {
    let file = roots.sys.join("module/chario/parameters/timer");
    let text = fs::read_to_string(&file).unwrap_or_default();
    match text.trim() {
        "" | "0" => Err(Error::missing("CharIO does not stamp into the profiling timer")
            .hint("load it with the timer's physical address: insmod kernel/chario/chario.ko timer=ADDRESS")),
        _ => Ok(()),
    }
}

impl Probe for Timer {
    fn start(&mut self) -> std::result::Result<(), Missing> {
        let begun = self.recorder.clear().and_then(|()| self.recorder.record());
        begun.map_err(|error| {
            Missing::new(
                format!("the profiling timer: {error}"),
                words![Setting::Timer],
            )
        })?;
        if let Some(node) = self.module().or_missing()? {
            let begun = node.clear().and_then(|()| node.record());
            begun.map_err(|error| Missing::new(format!("CharIO's events: {error}"), "dmesg"))?;
        }
        Ok(())
    }

    fn stop(&mut self) -> std::result::Result<Recorded, Missing> {
        Ok(recorded(&self.lanes().or_missing()?))
    }

    fn sees(&self) -> Sees {
        self.sees
    }

    fn source(&self) -> &'static str {
        self.source
    }

    fn has_marks(&self) -> bool {
        true
    }

    fn mark(&mut self, mark: Mark) {
        let tag = match mark {
            Mark::Begin => application::BEGIN,
            Mark::Started => application::STARTED,
            Mark::Seen => application::SEEN,
            Mark::End => application::END,
        };
        if let Err(error) = self.recorder.stamp(tag) {
            self.failed.get_or_insert(error);
        }
    }
}

/// The names of a user's tags, from a file with a line `TAG NAME` each.
///
/// # Errors
/// The file cannot be read, or has another line.
pub fn names(file: Option<&Path>) -> Result<Names> {
    let mut names = Names::default();
    if let Some(file) = file {
        let text = fs::read_to_string(file).map_err(|error| Error::io("reading", file, &error))?;
        names.add(&text).map_err(|line| {
            Error::usage(format!("{}:{line}: not a tag and its name", file.display()))
                .hint("one line for each: 0x10 frame begins")
        })?;
    }
    Ok(names)
}
