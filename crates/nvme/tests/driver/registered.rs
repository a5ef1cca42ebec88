// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CharIO's registered memory on a machine whose device does not see the cache: what the kernel's
//! module does before and after each transfer (`kernel/chario/registered.c`), in a model, under a
//! user side that uses several buffers of one registration as `linux::Chario` does. It works, and
//! fails as soon as one of the operations is left out, comes at another time, or is of another
//! range.
//!
//! `Dma::clean` is the kernel's `dma_sync_single_for_device` here, and `Dma::invalidate` its
//! `dma_sync_single_for_cpu`. The module's queues are memory that the kernel keeps coherent; their
//! operations are the driver's own, which `coherence.rs` tests.

use std::ops::Range;
use std::panic::Location;

use block::{Buffer, Clock, Completion, Device, Geometry, Operation, Refused, Request, blocking};
use straightway_model::{BusMemory, CacheSite, FaultKind, Faults, Model, On, Rule, When};
use straightway_nvme::{BusRun, Controller, Dma, QueuePair, Registers};

use crate::support::{config, options};

const REGISTERED_BYTES: usize = 1 << 20;
const LENGTHS: [usize; 4] = [512, 2048, 4096, 128 << 10];

/// What is wrong with the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// The operation at this place is left out.
    Omits(CacheSite),
    /// The whole registration is given to the CPU after a read, not only the range that was read.
    TakesAll,
    /// The range is given to the CPU before the drive has written it.
    TakesEarly,
    /// The range is given to the drive after it has used it.
    GivesLate,
    /// The whole registration is given to the CPU when it ends.
    EndTakesAll,
    /// A line short of the range's end.
    TakesLess,
    GivesLess,
    /// Only the first page of a range.
    TakesOnePage,
    GivesOnePage,
}

const DEFECTS: [Defect; 8] = [
    Defect::TakesAll,
    Defect::EndTakesAll,
    Defect::TakesEarly,
    Defect::GivesLate,
    Defect::TakesLess,
    Defect::GivesLess,
    Defect::TakesOnePage,
    Defect::GivesOnePage,
];

/// The platform of the module's queue: it touches the caches for its queues only, and the module
/// for data.
struct Kernel<'m> {
    model: &'m Model,
    memory: &'m BusMemory,
    data: Range<usize>,
}

impl Registers for Kernel<'_> {
    fn len_bytes(&self) -> usize {
        self.model.len_bytes()
    }

    fn read32(&self, offset: usize) -> u32 {
        self.model.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.model.write32(offset, value);
    }

    fn isolate(&self) {
        self.model.isolate();
    }

    fn connect(&self) {
        self.model.connect();
    }

    fn relax(&self) {
        self.model.relax();
    }
}

impl Clock for Kernel<'_> {
    fn ticks(&self) -> u64 {
        self.model.ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        self.model.ticks_per_second()
    }
}

// SAFETY: the model's memory.
#[allow(unsafe_code)]
unsafe impl Dma for Kernel<'_> {
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        self.model.bus_run(address, len)
    }

    fn cache_line_bytes(&self) -> usize {
        self.model.cache_line_bytes()
    }

    #[track_caller]
    fn clean(&self, address: usize, len: usize) {
        if !self.data.contains(&address) {
            self.memory.clean(address, len);
        }
    }

    #[track_caller]
    fn invalidate(&self, address: usize, len: usize) {
        if !self.data.contains(&address) {
            self.memory.invalidate(address, len);
        }
    }
}

type Queue<'q, 'm> = QueuePair<Kernel<'m>, &'q Controller<Kernel<'m>>, 8>;

/// The module: one request at a time, like a call of `pread` or `CHARIO_IOC_TRANSFER`.
struct Module<'q, 'm> {
    memory: &'m BusMemory,
    queue: Queue<'q, 'm>,
    registered: Range<usize>,
    defect: Defect,
    done: Option<Completion>,
}

impl Module<'_, '_> {
    fn ranges(&self, at: usize, len: usize) -> (Range<usize>, Range<usize>) {
        let less = len - 64.min(len);
        let page = len.min(4096);
        let (give, take) = match self.defect {
            Defect::TakesAll => return (at..at + len, self.registered.clone()),
            Defect::TakesLess => (len, less),
            Defect::GivesLess => (less, len),
            Defect::TakesOnePage => (len, page),
            Defect::GivesOnePage => (page, len),
            _ => (len, len),
        };
        (at..at + give, at..at + take)
    }

    /// `move` of `registered.c`.
    fn transfer(&mut self, request: Request) -> Completion {
        let (is_write, range) = match &request.operation {
            Operation::Write { buffer, .. } => {
                (true, buffer.address()..buffer.address() + buffer.len())
            }
            Operation::Read { buffer, .. } => {
                (false, buffer.address()..buffer.address() + buffer.len())
            }
            _ => (true, 0..0),
        };
        let (give, take) = self.ranges(range.start, range.len());
        let is_late = self.defect == Defect::GivesLate;
        let is_early = self.defect == Defect::TakesEarly;
        if is_write && !is_late {
            self.memory.clean(give.start, give.len());
        }
        if !is_write && !is_late {
            self.memory.clean(give.start, give.len());
        }
        if !is_write && is_early {
            self.memory.invalidate(take.start, take.len());
        }
        self.queue.submit(request).unwrap();
        self.queue.kick();
        let completion = loop {
            if let Some(completion) = self.queue.poll() {
                break completion;
            }
        };
        if is_late {
            self.memory.clean(give.start, give.len());
        }
        if !is_write && !is_early {
            self.memory.invalidate(take.start, take.len());
        }
        completion
    }
}

impl Device for Module<'_, '_> {
    fn geometry(&self) -> &Geometry {
        self.queue.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let completion = self.transfer(request);
        self.done = Some(completion);
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        self.done.take()
    }

    fn outstanding(&self) -> usize {
        usize::from(self.done.is_some())
    }
}

fn fill(buffer: &mut [u8], seed: usize) {
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index / 7 + 31 * seed + 1) as u8;
    }
}

fn expect(buffer: &[u8], seed: usize, what: &str) -> Result<(), String> {
    let is_right = |(index, byte): (usize, &u8)| *byte == (index / 7 + 31 * seed + 1) as u8;
    if buffer.iter().enumerate().all(is_right) {
        Ok(())
    } else {
        Err(format!("{what}: other data"))
    }
}

/// The user side: part of the registration is being filled while another is written, read, and read
/// in vain.
fn use_parts(
    module: &mut Module<'_, '_>,
    model: &Model,
    parts: &mut Vec<Buffer>,
) -> Result<(), String> {
    let text = |error: block::Error| error.to_string();
    for round in 0..6 {
        for pair in 0..LENGTHS.len() {
            let (filling, used) = (2 * pair, 2 * pair + 1);
            let (lba, seed) = ((round * 1024 + 512) as u64, 3 * round + pair);
            let mut buffer = parts.remove(used);
            fill(&mut buffer, seed);
            let written = blocking::write(module, lba, buffer, round % 2 == 1);
            written.result.map_err(text)?;
            let mut buffer = written.buffer;
            // Dirty lines of a buffer that is read into, and of its neighbour.
            buffer.fill(0x99);
            fill(&mut parts[filling], seed + 100);
            let read = blocking::read(module, lba, buffer);
            read.result.map_err(text)?;
            expect(&read.buffer, seed, "what was read")?;
            expect(&parts[filling], seed + 100, "what was being filled")?;
            // A read that the drive refuses leaves what the caller stored.
            let mut buffer = read.buffer;
            fill(&mut buffer, seed + 200);
            model.inject(Rule::new(
                On::Io,
                When::Nth(1),
                FaultKind::Status {
                    sct: 2,
                    sc: 0x81,
                    dnr: true,
                },
            ));
            let failed = blocking::read(module, lba, buffer);
            model.heal();
            if failed.result.is_ok() {
                return Err("the drive read what it was told to refuse".into());
            }
            expect(&failed.buffer, seed + 200, "what a failed read left")?;
            parts.insert(used, failed.buffer);
        }
    }
    Ok(())
}

fn run(defect: Defect) -> Result<Vec<CacheSite>, String> {
    let memory = BusMemory::not_coherent(12 << 20).unwrap();
    if let Defect::Omits(site) = defect {
        memory.omit_cache_site(site);
    }
    let model = Model::with_faults(config(), memory.clone(), Faults::none()).unwrap();
    let mut rest = memory.allocate(REGISTERED_BYTES).unwrap();
    let registered = rest.address()..rest.address() + rest.len();
    let mut parts = Vec::new();
    for len in LENGTHS.into_iter().flat_map(|len| [len, len]) {
        let (part, behind) = rest.split_at(len);
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    let kernel = Kernel {
        model: &model,
        memory: &memory,
        data: registered.clone(),
    };
    let controller =
        Controller::open(kernel, &memory, options()).map_err(|error| error.to_string())?;
    let queue =
        Queue::open(&controller, 1, 256 << 10, &memory).map_err(|error| error.to_string())?;
    let mut module = Module {
        memory: &memory,
        queue,
        registered,
        defect,
        done: None,
    };
    use_parts(&mut module, &model, &mut parts)?;
    // The caller goes on with its memory when the registration has ended.
    let last = |part: &mut Buffer| fill(part, 77);
    parts.iter_mut().for_each(last);
    if defect == Defect::EndTakesAll {
        memory.invalidate(module.registered.start, module.registered.len());
    }
    drop(module);
    for part in &parts {
        expect(part, 77, "what was stored before the end")?;
    }
    for part in parts {
        memory.give_back(part).unwrap();
    }
    let here = Location::caller().file();
    let sites = memory.cache_sites().into_iter();
    Ok(sites
        .map(|(site, _)| site)
        .filter(|(file, _)| *file == here)
        .collect())
}

#[test]
fn each_operation_that_is_left_out_late_or_of_another_range_is_caught() {
    let sites = run(Defect::None).unwrap();
    assert_eq!(sites.len(), 3, "{sites:?}");
    let omissions = sites.into_iter().map(Defect::Omits);
    let missed: Vec<_> = omissions
        .chain(DEFECTS)
        .filter(|defect| run(*defect).is_ok())
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
