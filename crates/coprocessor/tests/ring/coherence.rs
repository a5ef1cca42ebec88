// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coprocessor's service and a volume on a machine whose drive does not see the cache, as the
//! firmware would run on it: the window's data and the volume's nodes go straight to the drive, so
//! that the driver's cache operations are all there are.
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::machine;
use crate::support::WINDOW_BYTES;
use block::{Buffer, Clock, Device, Operation, blocking};
use model::{BusMemory, CacheSite, Config, Faults, Model, Time};
use nvme::{Allocate, Controller, ControllerOptions, QueuePair};
use straightway_coprocessor::layout::data_part;
use straightway_coprocessor::{
    Access, Client, ClientOptions, CoprocessorDisk, Drive, Grant, Service, Window,
};
use volume::{CreateOptions, FormatOptions, MountOptions, OpenFile, Volume};

const DEPTH: usize = 16;
const MAX_TRANSFER: usize = 128 << 10;
/// Offsets in the client's data and lengths: of the first and the last line, and neighbours.
const PLACES: [(usize, usize); 4] = [
    (0, 512),
    (512, 4096),
    (8192, 64 << 10),
    (80 << 10, MAX_TRANSFER),
];

type Queue<'m> = QueuePair<&'m Model, &'m Controller<&'m Model>, DEPTH>;

/// The client's clock. This memory is for one thread, so the coprocessor moves whenever the client
/// looks at its clock.
#[derive(Clone)]
struct Together<'m>(Rc<Both<'m>>);

struct Both<'m> {
    now: Cell<u64>,
    coprocessor: RefCell<Option<(Service, Queue<'m>)>>,
}

impl Clock for Together<'_> {
    fn ticks(&self) -> u64 {
        self.0.now.set(self.0.now.get() + 1);
        // Busy: it is the coprocessor that looks.
        if let Ok(mut both) = self.0.coprocessor.try_borrow_mut() {
            if let Some((service, queue)) = both.as_mut() {
                service.step(queue, self);
            }
        }
        self.0.now.get()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

fn blocks(window: Window, queue: Queue<'_>) -> Result<Queue<'_>, String> {
    let together = Together(Rc::new(Both {
        now: Cell::new(0),
        coprocessor: RefCell::new(None),
    }));
    Service::announce(&window);
    let geometry = *queue.geometry();
    let grants =
        std::array::from_fn(|index| Grant::whole(WINDOW_BYTES, index, geometry.block_count));
    let service = Service::new(&window, geometry, &Drive::default(), grants, &together).unwrap();
    *together.0.coprocessor.borrow_mut() = Some((service, queue));
    let options = ClientOptions {
        access: Access::WriteBlocks,
        ..ClientOptions::default()
    };
    let client = Client::attach(window, together.clone(), options).map_err(|e| e.to_string())?;
    assert_eq!(client.header().geometry.buffer_align_bytes, 64);
    let mut device = CoprocessorDisk::new(client, Access::WriteBlocks);
    for round in 0..4 {
        for (offset, len) in PLACES {
            transfer(window, &mut device, round, offset, len)?;
        }
    }
    let (lba, block_count) = (1024, 8);
    let discard = Operation::Discard { lba, block_count };
    blocking::command(&mut device, discard).map_err(|error| error.to_string())?;
    blocking::flush(&mut device).map_err(|error| error.to_string())?;
    // A buffer that shares a line with something else is refused, and nothing is lost.
    let (start, _) = data_part(WINDOW_BYTES, 0);
    let odd = window.buffer(start + 32, 512).unwrap();
    if blocking::read(&mut device, 0, odd).result.is_ok() {
        return Err("a buffer that is not aligned to lines was used".into());
    }
    if !device.close() {
        return Err("the session did not end".into());
    }
    let (_, queue) = together.0.coprocessor.borrow_mut().take().unwrap();
    Ok(queue)
}

fn transfer(
    window: Window,
    device: &mut impl Device,
    round: usize,
    offset: usize,
    len: usize,
) -> Result<(), String> {
    let (start, _) = data_part(WINDOW_BYTES, 0);
    let buffer = window.buffer(start + offset, len).unwrap();
    machine::round_trip(device, round, buffer).map(drop)
}

fn files(memory: &BusMemory, mut queue: Queue<'_>) -> Result<(), String> {
    let node = || memory.allocate_dma(4096, 4096).unwrap();
    let options = FormatOptions {
        checksums: true,
        ..FormatOptions::default()
    };
    let (formatted, spare) = volume::format(&mut queue, node(), &options);
    formatted.map_err(|error| error.to_string())?;
    memory.give_back(spare.unwrap()).unwrap();
    let mut data = memory.allocate_dma(64 << 10, 4096).unwrap();
    for round in 0..3 {
        let mut table = [const { OpenFile::new() }; 4];
        let nodes = [(); 3].map(|()| node());
        let volume = Volume::mount(&mut queue, nodes, &mut table, &MountOptions::default());
        let volume = volume.map_err(|failed| failed.to_string())?;
        data = one_file(&volume, data, round)?;
        let unmounted = volume.unmount();
        unmounted.result.map_err(|error| error.to_string())?;
        for node in unmounted.memory.into_iter().flatten() {
            memory.give_back(node).unwrap();
        }
    }
    Ok(())
}

/// Writes a file, reads it, and reads the one of the round before, which was found on the drive
/// again.
fn one_file<D: Device>(
    volume: &Volume<'_, D>,
    mut data: Buffer,
    round: usize,
) -> Result<Buffer, String> {
    use volume::blocking;
    let text = |error: volume::Error| error.to_string();
    let name = |round: usize| format!("file {round}");
    let options = CreateOptions {
        checksums: true,
        ..CreateOptions::default()
    };
    let file = blocking::run(volume, volume.create(&name(round), &options)).map_err(text)?;
    data.iter_mut()
        .enumerate()
        .for_each(|(index, place)| *place = machine::byte(round, index));
    let len = data.len();
    let written = blocking::append(volume, file, data, len);
    written.result.map_err(text)?;
    blocking::run(volume, volume.sync(file)).map_err(text)?;
    blocking::run(volume, volume.close(file)).map_err(text)?;
    let mut data = written.buffer;
    for earlier in round.saturating_sub(1)..=round {
        data.fill(0x99);
        let file = blocking::run(volume, volume.open(&name(earlier))).map_err(text)?;
        let read = blocking::read(volume, file, 0, data);
        read.result.map_err(text)?;
        blocking::run(volume, volume.close(file)).map_err(text)?;
        data = read.buffer;
        if !machine::is_round(&data, earlier) {
            return Err(format!("file {earlier} has other data"));
        }
    }
    Ok(data)
}

fn run(omitted: Option<CacheSite>) -> Result<Vec<(CacheSite, u64)>, String> {
    let memory = machine::memory(16 << 20, omitted, 8 << 20);
    let config = Config {
        interrupt_vectors: 0,
        time: Time::Virtual {
            step_us: 100,
            relax_us: 1000,
        },
        ..Config::test()
    };
    let model = Model::with_faults(config, memory.clone(), Faults::none()).unwrap();
    let (start, len) = memory.allocate(WINDOW_BYTES).unwrap().into_raw();
    // SAFETY: the buffer's memory, which is allocated until the end of this function.
    #[allow(unsafe_code)]
    let window = unsafe { Window::new(start, len) };
    let options = ControllerOptions {
        io_timeout_us: 50_000,
        admin_timeout_us: 100_000,
        abort_grace_us: 20_000,
        ..ControllerOptions::default()
    };
    let controller =
        Controller::open(&model, &memory, options).map_err(|error| error.to_string())?;
    let queue =
        Queue::open(&controller, 1, MAX_TRANSFER, &memory).map_err(|error| error.to_string())?;
    let smart = controller.smart().map_err(|error| error.to_string())?;
    if smart.temperature_kelvin == 0 || smart.available_spare_percent == 0 {
        return Err(format!("{smart:?}"));
    }
    let mut queue = blocks(window, queue)?;
    machine::reset(&model, &mut queue);
    machine::check_one_reset(queue.statistics())?;
    files(&memory, queue)?;
    machine::sites(&memory, &model)
}

#[test]
fn each_omitted_cache_operation_is_caught() {
    machine::check_each_is_needed(run);
}
