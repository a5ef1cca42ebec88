// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway trace DEVICE`: where the time of each request goes.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::setup::{Asked, Ready, Subject};
use crate::output::valid;
use bench::BenchHost;
use bench::timer::{self, Timer};
use bench::tracefs::{Commands, Tracefs};
use clap::Args;
use devices::drive::Drive;
use devices::error::{Error, Result};
use measure::trace::events::Whose;
use measure::trace::{Plan, Probe, Traced, trace};
use paths::{Group, PathKind};
use std::path::PathBuf;
use units::Size;

/// Minimum share of the time that the parts must explain.
const COVERAGE: f64 = 0.95;

/// Show where the time of each request goes: application, kernel, device, interrupt, resume.
#[derive(Clone, Debug, Args)]
pub struct Trace {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// The operation and the path
    #[command(flatten)]
    pub asked: Asked,
    /// Bytes per request
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub block: Size,
    /// Number of traced requests
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub requests: u32,
    /// Each write is durable when it completes
    #[arg(long)]
    pub durable: bool,
    /// Stamp by the processor's counter instead of tracefs, or by a profiling timer: its UIO
    /// device, a file that maps its registers, or a simulation's socket. With CharIO also the
    /// module's own points
    #[arg(long, value_name = "TIMER", num_args = 0..=1, require_equals = true, default_missing_value = timer::COUNTER)]
    pub timer: Option<PathBuf>,
}

impl Trace {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission, the path or the kernel's events are missing.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "trace")?;
        let ready = self.subject.ready(context, self.asked.wants(self.block))?;
        let (kind, mut path) = ready.path()?;
        let mut probe = self.probe(context, &ready, kind)?;
        let plan = Plan {
            access: self.asked.access(self.block),
            requests: self.requests,
            durable: self.durable,
            span_bytes: ready.bench.plan.span_bytes,
        };
        let mut host = BenchHost::new(&ready.bench);
        let probe = probe.as_mut().map(|probe| probe.as_mut() as &mut dyn Probe);
        let cancel = context.cancel.flag();
        let traced = trace(
            &mut host,
            path.as_mut(),
            &ready.request,
            &plan,
            probe,
            cancel,
        )
        .map_err(bench::failed)?;
        self.leave(context, &traced)
    }

    /// The timer, or the kernel's events for a path through the kernel.
    fn probe(
        &self,
        context: &Context,
        ready: &Ready,
        kind: &PathKind,
    ) -> Result<Option<Box<dyn Probe>>> {
        if let Some(timer) = &self.timer {
            let is_chario = kind.group == Group::Chario;
            return Ok(Some(Box::new(Timer::new(
                &context.roots,
                timer,
                is_chario,
            )?)));
        }
        if !kind.is_through_kernel() {
            return Ok(None);
        }
        let pid = std::process::id();
        let named = |device: Option<String>, interrupt: Option<String>| Whose {
            pid,
            device: device.unwrap_or_default(),
            // Without a name none of the machine's interrupts is the device's.
            interrupt: interrupt.unwrap_or_else(|| "(unknown)".to_owned()),
        };
        let controller = ready.bench.controller_name();
        let (whose, commands) = match (kind.group, ready.bench.drive()) {
            (Group::Chario, _) => (named(None, Some("chario".to_owned())), Commands::Unseen),
            (_, Drive::Disk(disk)) => (
                named(disk.event_name(), disk.interrupt()),
                Commands::OfBlockLayer,
            ),
            (_, Drive::Nvme(_)) => {
                let interrupt = controller.as_ref().map(|name| format!("{name}q"));
                (named(controller, interrupt), Commands::OfNvme)
            }
            _ => (named(None, None), Commands::Unseen),
        };
        let tracefs = Tracefs::new(&context.roots, whose, commands)?;
        Ok(Some(Box::new(tracefs)))
    }

    fn leave(&self, context: &Context, traced: &Traced) -> Result<Exit> {
        self.subject.saving.leave(context, traced, &[])?;
        valid(&traced.run)?;
        if traced.coverage < COVERAGE {
            return Err(Error::inconclusive(format!(
                "the parts explain {:.1} % of the time, but at least 95 % are required; {} events \
                     were lost",
                traced.coverage * 100.0,
                traced.lost_events
            ))
            .hint("fewer --requests, so that the kernel's buffer holds all events"));
        }
        Ok(Exit::Done)
    }
}
