//! Tries each path on a real drive: what the lab runs to see that they work.
//!
//! `probe vfio|noiommu DEVICE` borrows the controller, runs an Identify command on a small admin
//! queue of its own, and gives the controller back. `probe hold vfio|nothing DEVICE` borrows it and
//! waits to be killed. `probe files DEVICE` writes and reads back through each kernel path, so it
//! destroys what is on the drive. `probe restore` and `probe doctor` do what they say.

use block::{Device, Operation, blocking};
use linux::{Claim, HostMemory, Passthrough, RingOptions, Roots, SyncFile, Uring};
use linux::{admin, bind, doctor, noiommu, resolve, usage, vfio};
use nvme::Platform;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let roots = Roots::system();
    let done = match words.as_slice() {
        ["vfio", device] => probe_vfio(&roots, device),
        ["noiommu", device] => probe_noiommu(&roots, device),
        ["hold", how, device] => hold(&roots, how, device),
        ["files", device] => probe_files(&roots, device),
        ["resolve", names @ ..] => show(&roots, names),
        ["restore"] => restore(&roots),
        ["doctor"] => {
            for check in doctor::examine(&roots) {
                let hint = check
                    .hint
                    .map(|hint| format!(" [{hint}]"))
                    .unwrap_or_default();
                println!("{:?}: {}: {}{hint}", check.state, check.name, check.found);
            }
            Ok(())
        }
        _ => Err("usage: probe vfio|noiommu|hold|files|resolve|restore|doctor ...".into()),
    };
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    eprintln!("probe: {error}");
    match error.downcast::<linux::Error>() {
        Ok(error) => {
            if let Some(hint) = error.hint() {
                eprintln!("probe: try: {hint}");
            }
            ExitCode::from(error.kind().exit_code())
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn show(roots: &Roots, names: &[&str]) -> Result<()> {
    for name in names {
        match resolve::resolve(roots, name) {
            Ok(found) => {
                println!("{name}: {found}");
                for each in usage::of_controller(roots, &found.controller)? {
                    println!("  {each}");
                }
            }
            Err(error) => println!("{name}: {error} (exit {})", error.kind().exit_code()),
        }
    }
    Ok(())
}

fn restore(roots: &Roots) -> Result<()> {
    for restored in bind::restore_stale(roots)? {
        let driver = restored.driver.as_deref().unwrap_or("no driver");
        println!(
            "{} went back to {driver}; process {} had died with it",
            restored.address, restored.dead_pid
        );
    }
    Ok(())
}

fn hold(roots: &Roots, how: &str, device: &str) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    let address = found.controller.address;
    let binding = match how {
        "vfio" => bind::to_vfio(roots, address)?,
        _ => bind::to_nothing(roots, address)?,
    };
    let function = match how {
        "vfio" => Some(vfio::Function::open(
            roots,
            address,
            &vfio::Options::default(),
        )?),
        _ => None,
    };
    println!(
        "held {} in process {}",
        binding.address(),
        std::process::id()
    );
    std::io::stdout().flush()?;
    std::thread::sleep(Duration::from_secs(60));
    drop(function);
    Ok(binding.release()?)
}

fn probe_vfio(roots: &Roots, device: &str) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    println!("{device} is {found}");
    let address = found.controller.address;
    let binding = bind::to_vfio(roots, address)?;
    let mut function = vfio::Function::open(roots, address, &vfio::Options::default())?;
    println!(
        "vfio: {} x {}, bus addresses {:x?}, memory at {:#x}",
        nvme::Registers::interrupt_vectors(&function),
        function.interrupt_kind(),
        function.usable_bus_addresses(),
        function.bus_start(),
    );
    let memory = function.memory();
    let more = function.add_memory(4 << 20)?;
    check_memory(&function, memory.address(), memory.len_bytes())?;
    check_memory(&function, more.address(), more.len_bytes())?;
    let buffers = [
        memory.allocate(4096)?,
        memory.allocate(4096)?,
        more.allocate(4096)?,
    ];
    let buffers = identify(&function, buffers)?;
    // A reset must not lose the vectors: the same again.
    let buffers = identify(&function, buffers)?;
    let second = vfio::Function::open(roots, address, &vfio::Options::default());
    println!(
        "a second open: {}",
        second.err().ok_or("a second open was allowed")?
    );
    let rebind = bind::to_vfio(roots, address);
    println!(
        "a second bind: {}",
        rebind.err().ok_or("a second bind was allowed")?
    );
    give_back(&[&memory, &more], buffers);
    drop(function);
    Ok(binding.release()?)
}

fn probe_noiommu(roots: &Roots, device: &str) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    println!("{device} is {found}");
    let address = found.controller.address;
    let binding = bind::to_nothing(roots, address)?;
    let mut options = noiommu::Options {
        memory_bytes: 8 << 20,
        reserve_huge_pages: false,
    };
    if let Err(error) = noiommu::Function::open(roots, address, &options) {
        println!(
            "without reserving: {error} [{}]",
            error.hint().unwrap_or_default()
        );
    }
    options.reserve_huge_pages = true;
    let function = noiommu::Function::open(roots, address, &options)?;
    println!("noiommu: pages at {:x?}", function.bus_pages());
    let memory = function.memory();
    check_memory(&function, memory.address(), memory.len_bytes())?;
    let buffers = [
        memory.allocate(4096)?,
        memory.allocate(4096)?,
        memory.allocate(4096)?,
    ];
    let buffers = identify(&function, buffers)?;
    give_back(&[&memory], buffers);
    drop(function);
    Ok(binding.release()?)
}

fn give_back(memories: &[&linux::DmaMemory], buffers: [block::Buffer; 3]) {
    for buffer in buffers {
        let _ = memories
            .iter()
            .try_fold(buffer, |buffer, memory| match memory.give_back(buffer) {
                Ok(()) => Err(()),
                Err(buffer) => Ok(buffer),
            });
    }
}

fn check_memory(platform: &impl Platform, start: usize, len: usize) -> Result<()> {
    let whole = platform.bus_run(start, len).ok_or("no mapping")?;
    let last = platform
        .bus_run(start + len - 1, 1)
        .ok_or("no mapping at the end")?;
    if platform.bus_run(start, len + 1).is_some() || platform.bus_run(start - 1, len).is_some() {
        return Err("a run goes past the memory".into());
    }
    println!(
        "memory of {len} bytes: {:#x?} to {:#x}",
        whole, last.address
    );
    Ok(())
}

// NVMe base specification, "Controller Properties".
const CAP: usize = 0;
const VS: usize = 8;
const CC: usize = 0x14;
const CSTS: usize = 0x1c;
const AQA: usize = 0x24;
const ASQ: usize = 0x28;
const ACQ: usize = 0x30;
const DOORBELLS: usize = 0x1000;

fn wait_ready(platform: &impl Platform, ready: u32) -> Result<()> {
    let began = Instant::now();
    while platform.read32(CSTS) & 1 != ready {
        if began.elapsed() > Duration::from_secs(10) {
            return Err("CSTS.RDY did not change".into());
        }
        platform.relax();
    }
    Ok(())
}

/// One Identify Controller on an admin queue of its own, by interrupt where there is one.
fn identify(platform: &impl Platform, buffers: [block::Buffer; 3]) -> Result<[block::Buffer; 3]> {
    let [mut submissions, mut completions, mut data] = buffers;
    println!(
        "CAP {:#018x}, VS {:#x}",
        platform.read64(CAP),
        platform.read32(VS)
    );
    platform.write32(CC, 0);
    wait_ready(platform, 0)?;
    platform.connect();
    let bus = |buffer: &block::Buffer| {
        let run = platform.bus_run(buffer.address(), buffer.len());
        run.map(|run| run.address).ok_or("not reachable")
    };
    completions.fill(0);
    data.fill(0);
    platform.write32(AQA, 3 << 16 | 3);
    platform.write64(ASQ, bus(&submissions)?);
    platform.write64(ACQ, bus(&completions)?);
    // I/O entries of 2^6 and 2^4 bytes, enabled.
    platform.write32(CC, 4 << 20 | 6 << 16 | 1);
    wait_ready(platform, 1)?;
    let vectors = platform.interrupt_vectors();
    if vectors > 0 {
        platform
            .set_interrupt(0, true)
            .map_err(|_| "interrupt refused")?;
        println!(
            "an interrupt before any command: {}",
            platform.wait_interrupt(0, 1000)
        );
    }
    let turns = if vectors > 0 { 3 } else { 1 };
    for turn in 0..turns {
        // In the second turn the vector is off, and a wait must end by its time; the message that
        // was sent meanwhile comes when it is on again.
        let on = turn != 1;
        if vectors > 0 {
            platform
                .set_interrupt(0, on)
                .map_err(|_| "interrupt refused")?;
        }
        let mut command = [0u32; 16];
        command[0] = 6 | (turn as u32) << 16;
        let address = bus(&data)?;
        (command[6], command[7]) = (address as u32, (address >> 32) as u32);
        command[10] = 1;
        let place = &mut submissions[turn * 64..turn * 64 + 64];
        for (bytes, word) in place.chunks_mut(4).zip(command) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let began = platform.ticks();
        platform.write32(DOORBELLS, turn as u32 + 1);
        let interrupted = platform.wait_interrupt(0, if on { 2_000_000 } else { 50_000 });
        let limit = Instant::now();
        let status = loop {
            let at = completions.address() + 16 * turn + 12;
            // SAFETY: inside the completion queue; the device writes it, hence volatile.
            let word = unsafe { (at as *const u32).read_volatile() };
            if word & 1 << 16 != 0 {
                break word >> 17;
            }
            if limit.elapsed() > Duration::from_secs(5) {
                return Err("no completion".into());
            }
        };
        let ticks = platform.ticks() - began;
        println!(
            "turn {turn}: status {status:#x}, interrupted {interrupted}, {} us",
            ticks * 1_000_000 / platform.ticks_per_second()
        );
        if status != 0 || interrupted != (on && vectors > 0) {
            return Err("the command or its interrupt went wrong".into());
        }
        platform.write32(DOORBELLS + 4, turn as u32 + 1);
        if !on {
            platform
                .set_interrupt(0, true)
                .map_err(|_| "interrupt refused")?;
            println!("switched on again: {}", platform.wait_interrupt(0, 500_000));
        }
    }
    println!("serial `{}`", String::from_utf8_lossy(&data[4..24]).trim());
    platform.write32(CC, 0);
    wait_ready(platform, 0)?;
    platform.isolate();
    Ok([submissions, completions, data])
}

fn probe_files(roots: &Roots, device: &str) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    println!("{device} is {found}");
    found.only_namespace()?;
    let block = found.block_path(roots).ok_or("no block device")?;
    let character = found.character_path(roots).ok_or("no character device")?;
    let controller = found.controller_path(roots).ok_or("no controller")?;
    let memory = HostMemory::new(32 << 20)?;
    for (name, direct) in [("SyncFile", false), ("SyncFile O_DIRECT", true)] {
        let claim = Claim::to_write(roots, &block)?;
        let mut file = match direct {
            true => SyncFile::open_direct(&claim)?,
            false => SyncFile::open(&claim)?,
        };
        exercise(name, &mut file, &memory)?;
    }
    for (poll, fixed) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = RingOptions {
            poll,
            fixed_memory: fixed.then(|| memory.clone()),
            ..RingOptions::default()
        };
        let name = |path| {
            format!(
                "{path}{}{}",
                if poll { " polled" } else { "" },
                if fixed { " fixed" } else { "" }
            )
        };
        let before = admin::Counts::read(&controller)?;
        match Uring::open(&Claim::to_write(roots, &block)?, &options) {
            Ok(mut device) => exercise(&name("Uring"), &mut device, &memory)?,
            Err(error) => println!("{}: {error}", name("Uring")),
        }
        match Passthrough::open(roots, &Claim::to_write(roots, &character)?, &options) {
            Ok(mut device) => exercise(&name("Passthrough"), &mut device, &memory)?,
            Err(error) => println!("{}: {error}", name("Passthrough")),
        }
        let after = admin::Counts::read(&controller)?;
        println!(
            "  the drive counted {} reads and {} writes",
            after.read_commands - before.read_commands,
            after.write_commands - before.write_commands
        );
    }
    let claimed = Claim::to_write(roots, &block)?;
    let refused = Claim::to_write(roots, &character);
    println!(
        "while it is claimed: {}",
        refused.err().ok_or("passthrough was allowed")?
    );
    drop(claimed);
    println!("buffers out: {}", memory.buffers_out());
    Ok(())
}

fn exercise(name: &str, device: &mut impl Device, memory: &HostMemory) -> Result<()> {
    let geometry = *device.geometry();
    let block = geometry.block_size_bytes();
    let len = (4 << 20).min(memory.len_bytes());
    let mut buffer = memory.allocate(len)?;
    let seed = name.len() as u8;
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index / block) as u8 ^ seed;
    }
    let written = blocking::write(device, 0, buffer, true);
    written.result?;
    let mut buffer = written.buffer;
    buffer.fill(0);
    let read = blocking::read(device, 0, buffer);
    read.result?;
    let good = read
        .buffer
        .iter()
        .enumerate()
        .all(|(index, byte)| *byte == (index / block) as u8 ^ seed);
    if !good {
        return Err(format!("{name}: read other data than was written").into());
    }
    let flush = blocking::flush(device);
    let zeroes = blocking::command(
        device,
        Operation::WriteZeroes {
            lba: 8,
            block_count: 4000,
            fua: true,
        },
    );
    let discard = blocking::command(
        device,
        Operation::Discard {
            lba: 8,
            block_count: 8,
        },
    );
    let again = blocking::read(device, 8, read.buffer);
    again.result?;
    let zeroed = again.buffer[8 * block..500 * block]
        .iter()
        .all(|&byte| byte == 0);
    if zeroes.is_ok() && !zeroed {
        return Err(format!("{name}: zeroed blocks are not zero").into());
    }
    let end = blocking::read(device, geometry.block_count, again.buffer);
    println!(
        "{name}: {} blocks of {block}, at most {} a transfer, depth {}; flush {flush:?}, zeroes {zeroes:?}, discard {discard:?}, past the end {:?}",
        geometry.block_count, geometry.max_transfer_blocks, geometry.queue_depth, end.result,
    );
    // Many small reads, as many in flight as there may be.
    let began = Instant::now();
    let (mut sent, mut ended) = (0u64, 0u64);
    while ended < 1000 {
        while sent < 1000 && device.outstanding() < usize::from(geometry.queue_depth) {
            let operation = Operation::Read {
                lba: sent % 1000,
                buffer: memory.allocate(block)?,
            };
            let request = block::Request {
                tag: sent as u32,
                operation,
            };
            device.submit(request).map_err(|refused| refused.error)?;
            sent += 1;
        }
        device.kick();
        match device.poll() {
            Some(completion) => {
                completion.result?;
                ended += 1;
                let buffer = completion.buffer.ok_or("no buffer")?;
                memory.give_back(buffer).map_err(|_| "not our buffer")?;
            }
            None => device.wait(100_000),
        }
    }
    println!("  1000 reads in {:?}", began.elapsed());
    memory.give_back(end.buffer).map_err(|_| "not our buffer")?;
    Ok(())
}
