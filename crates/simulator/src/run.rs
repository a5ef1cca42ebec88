// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a script.

use crate::blocks;
use crate::coverage::Coverage;
use crate::machine::Machine;
use crate::script::{Group, Script, Step, Verb};
use crate::setup::Only;
use crate::trace::What;
use crate::witness::Endless;
use crate::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub violation: Option<String>,
    /// Steps of the world.
    pub steps: u64,
    /// The hash of all steps.
    pub hash: u64,
    /// The simulated time.
    pub simulated_us: u64,
    /// The longest request.
    pub slowest_us: u64,
    /// What was met.
    pub coverage: Coverage,
    /// The last steps, as text.
    pub last: String,
}

/// What comes after a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The device is opened again.
    Again,
}

/// The steps of a script, as a session takes them. Faults happen on the way.
pub struct Steps<'s> {
    steps: std::slice::Iter<'s, Step>,
    coverage: Coverage,
}

impl<'s> Steps<'s> {
    /// Steps after those of a script.
    pub fn of(steps: &'s [Step]) -> Self {
        Self {
            steps: steps.iter(),
            coverage: Coverage::default(),
        }
    }

    /// The next step of a user.
    pub fn next(&mut self, machine: &mut Machine) -> Option<Step> {
        for step in self.steps.by_ref() {
            machine.world.seed(u64::from(step.salt) << 20 | 1);
            let [a, b, _] = step.numbers;
            machine.world.note(
                What::Begin,
                step.verb as u64,
                u64::from(a) << 32 | u64::from(b),
            );
            self.coverage.step(step.verb);
            // A long recording has a block in each of its seconds.
            let is_long = step.verb == Verb::Long;
            machine
                .testimony
                .begin(if is_long { 100 * u64::from(b) } else { 0 });
            machine.disturb(step);
            if step.verb == Verb::Kill {
                machine.kill(step.numbers[2] % 2 == 1);
            }
            let is_users = !step.verb.is_fault()
                || matches!(step.verb, Verb::Kill | Verb::Stall)
                || step.verb.group() == Group::Serve;
            if is_users && !matches!(step.verb, Verb::Plug | Verb::Heal) {
                return Some(*step);
            }
        }
        None
    }

    /// Leaves out the rest.
    pub fn end(&mut self) {
        self.steps = [].iter();
    }

    /// Whether no step is left.
    pub fn is_over(&self) -> bool {
        self.steps.as_slice().is_empty()
    }
}

/// Runs a script to its end, and then checks everything without faults.
pub fn run(script: &Script) -> Outcome {
    let world = World::new(script.setup.seed);
    world.seed(script.setup.seed);
    let mut steps = Steps::of(&script.steps);
    let mut slowest_us = 0;
    let result = Machine::new(&world, &script.setup).and_then(|mut machine| {
        let result = to_the_end(|| go(&mut machine, &mut steps));
        slowest_us = machine.testimony.slowest_us();
        let violation = machine.violation();
        violation.map_or(result, Err)
    });
    world.trace(|trace| Outcome {
        violation: result.err(),
        steps: trace.steps(),
        hash: trace.hash(),
        simulated_us: world.now_us(),
        slowest_us,
        coverage: steps.coverage,
        last: trace.text(),
    })
}

/// What a run ends with, also if the product in it would not end.
fn to_the_end(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        match payload.downcast::<Endless>() {
            Ok(endless) => Err(endless.0),
            Err(other) => resume_unwind(other),
        }
    })
}

fn go(machine: &mut Machine, steps: &mut Steps<'_>) -> Result<(), String> {
    if machine.setup.has_volume() {
        return crate::files::go(machine, steps);
    }
    if machine.setup.only == Only::Serve {
        return crate::serve::go(machine, steps);
    }
    while !steps.is_over() {
        machine.power_on();
        match machine.open() {
            Ok(device) => {
                blocks::Session::new(device, machine).run(steps)?;
            }
            Err(why) => not_opened(machine, why)?,
        }
    }
    machine.recover();
    let device = machine.open()?;
    blocks::Session::new(device, machine).audit()
}

/// A device that a fault keeps from being opened: then the fault ends.
///
/// # Errors
/// There was none.
pub fn not_opened(machine: &mut Machine, why: String) -> Result<(), String> {
    if !machine.tolerates_failures() {
        return Err(format!("without a fault: {why}"));
    }
    machine.recover();
    Ok(())
}
