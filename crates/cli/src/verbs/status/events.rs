// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status --events`: what happens in a recording, as lines of JSON.

use super::{LOOK, Status, show, wait_until};
use crate::Context;
use crate::exit::Exit;
use devices::SCHEMA_VERSION;
use devices::error::{Error, Result};
use live::events::Event;
use live::reader::Live;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Instant;

/// A line of `status --events`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Line {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The device, as it was named.
    pub device: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl Status {
    /// Prints each event until the recording ends.
    pub(super) fn print_events(&self, context: &Context, live: &mut Live) -> Result<Exit> {
        let mut from = 0;
        while let Some((events, next)) = live.events(from)? {
            let first = events.first().map_or(next, |event| event.number);
            if first > from {
                context.say(format_args!(
                    "warning: events {from} to {} are not kept any more",
                    first - 1
                ));
            }
            let is_behind = !events.is_empty();
            for event in events {
                let line = Line {
                    schema_version: SCHEMA_VERSION,
                    device: self.device.clone(),
                    event,
                };
                let line = serde_json::to_string(&line)
                    .map_err(|error| Error::other(format!("making JSON: {error}")))?;
                show(&format!("{line}\n"))?;
            }
            from = next;
            if !is_behind {
                wait_until(context, Instant::now() + LOOK)?;
            }
        }
        self.ended(context, live.end())
    }
}
