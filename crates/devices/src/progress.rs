// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operation reports while it goes on: lines, and how much is done.

use remedy::Words;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Learns what operations report. Optional.
pub trait Listener: Send + Sync {
    /// A line: a warning, or what was chosen.
    fn say(&self, line: &Words);

    /// Something begins that reports how much of `total` is done; `None` if it is not shown.
    fn meter(&self, shape: Shape, total: Option<u64>) -> Option<Box<dyn Meter>>;
}

/// Shows how much is done.
pub trait Meter {
    /// So much is done.
    fn set(&self, done: u64);
    /// So much is to be done.
    fn set_total(&self, total: u64);
    /// What is being done.
    fn set_message(&self, text: String);
    /// It has ended.
    fn end(&self);
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bytes.
    Bytes,
    /// Bytes of a stream, with a message.
    Stream,
    /// Steps, each with a message.
    Steps,
}

/// A handle to the listener, if there is one; cheap to clone.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Listener>>);

impl Progress {
    /// Reports to a listener.
    pub fn to(listener: impl Listener + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports a line.
    pub fn say(&self, line: impl Into<Words>) {
        if let Some(listener) = &self.0 {
            listener.say(&line.into());
        }
    }

    /// Begins to report how much of `total` is done.
    pub fn bar(&self, shape: Shape, total: Option<u64>) -> Bar {
        let meter = self
            .0
            .as_ref()
            .and_then(|listener| listener.meter(shape, total));
        Bar {
            meter,
            done: Cell::new(0),
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Progress"
        } else {
            "Silent"
        })
    }
}

/// How much of an operation is done.
#[derive(Default)]
pub struct Bar {
    meter: Option<Box<dyn Meter>>,
    done: Cell<u64>,
}

impl Bar {
    /// One that is not shown.
    pub fn hidden() -> Self {
        Self::default()
    }

    /// Whether it is not shown.
    pub fn is_hidden(&self) -> bool {
        self.meter.is_none()
    }

    /// So much more is done.
    pub fn inc(&self, more: u64) {
        self.set_position(self.done.get().saturating_add(more));
    }

    /// So much is done.
    pub fn set_position(&self, done: u64) {
        self.done.set(done);
        if let Some(meter) = &self.meter {
            meter.set(done);
        }
    }

    /// How much is done.
    pub fn position(&self) -> u64 {
        self.done.get()
    }

    /// So much is to be done.
    pub fn set_length(&self, total: u64) {
        if let Some(meter) = &self.meter {
            meter.set_total(total);
        }
    }

    /// What is being done.
    pub fn set_message(&self, text: String) {
        if let Some(meter) = &self.meter {
            meter.set_message(text);
        }
    }

    /// It has ended.
    pub fn finish_and_clear(&self) {
        if let Some(meter) = &self.meter {
            meter.end();
        }
    }
}
