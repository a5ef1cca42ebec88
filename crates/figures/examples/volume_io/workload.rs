// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same work on any device, phase by phase.

use block::{Buffer, Device};
use crash::{Counter, Counts};
use volume::{
    CreateOptions, Error, File, FormatOptions, MountOptions, OpenFile, Volume, blocking, format,
};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RECORD: usize = 4 << 10;
const MIB: usize = 1 << 20;
/// Records of a phase of appends, files of a phase of creates, reads of a phase of reads.
const RECORDS: u64 = 256;
const FILES: u64 = 64;
const READS: u64 = 32;
/// Names that the large file gets in turn, because the time of a look-up depends on the name.
const NAMES: u64 = 8;
/// Records before the counting begins.
const WARM_UP: u64 = 16;

/// Separates phases, and prints one line for each.
pub struct Marks<'m> {
    pub counter: Counter,
    /// Leaves a mark in the drive's own trace.
    pub leave: Box<dyn FnMut(u64) -> Result<()> + 'm>,
    pub next: u64,
}

impl Marks<'_> {
    fn mark(&mut self) -> Result<()> {
        (self.leave)(self.next)?;
        self.next += 1;
        Ok(())
    }

    fn begin(&mut self) -> Result<Counts> {
        self.mark()?;
        Ok(self.counter.counts())
    }

    fn end(&mut self, before: Counts, name: &str, operations: u64, bytes: usize) -> Result<()> {
        let counts = self.counter.counts() - before;
        self.mark()?;
        println!(
            "phase {name} {operations} {} {} {} {} {} {} {}",
            operations * bytes as u64,
            counts.reads.commands,
            counts.reads.bytes,
            counts.writes.commands,
            counts.writes.bytes,
            counts.flushes,
            counts.fua
        );
        Ok(())
    }
}

/// What the work needs in addition to the device.
pub struct Workload<'w> {
    pub marks: Marks<'w>,
    pub allocate: &'w mut dyn FnMut(usize) -> Result<Buffer>,
    /// Size of the volume, and of its large file.
    pub volume_bytes: u64,
    pub large_bytes: u64,
}

fn run<D: Device, T>(
    volume: &Volume<'_, D>,
    future: impl Future<Output = std::result::Result<T, Error>>,
) -> Result<T> {
    Ok(blocking::run(volume, future)?)
}

fn append<D: Device>(volume: &Volume<'_, D>, file: File, pool: &mut Option<Buffer>) -> Result<()> {
    let buffer = pool.take().ok_or("the buffer is lent")?;
    let len = buffer.len();
    let outcome = blocking::append(volume, file, buffer, len);
    *pool = Some(outcome.buffer);
    Ok(outcome.result?)
}

fn read<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    offset: u64,
    pool: &mut Option<Buffer>,
) -> Result<()> {
    let buffer = pool.take().ok_or("the buffer is lent")?;
    let outcome = blocking::read(volume, file, offset, buffer);
    *pool = Some(outcome.buffer);
    Ok(outcome.result?)
}

const fn reserving(bytes: u64) -> CreateOptions {
    CreateOptions {
        reserve_bytes: bytes,
        checksums: false,
        app_tag: 0,
    }
}

impl Workload<'_> {
    /// Formats the device and runs all phases.
    pub fn run<D: Device>(mut self, mut device: D) -> Result<D> {
        let options = FormatOptions {
            volume_bytes: Some(self.volume_bytes),
            uuid: [0x5a; 16],
            ..FormatOptions::default()
        };
        let (made, _) = format(&mut device, (self.allocate)(MIB)?, &options);
        let node = made?.node_bytes();
        let mut record = Some((self.allocate)(RECORD)?);
        let mut large = Some((self.allocate)(MIB)?);
        // The minimum for a volume; and what makes look-ups short.
        let small = [
            (self.allocate)(node)?,
            (self.allocate)(node)?,
            (self.allocate)(node)?,
        ];
        let ample = [
            (self.allocate)(node)?,
            (self.allocate)(8 * node)?,
            (self.allocate)(8 * node)?,
        ];

        let (device, ample) = mounted(device, ample, |volume| {
            self.appends(volume, &mut record)?;
            self.commits(volume, &mut large)?;
            self.files(volume, &mut record)?;
            self.fill(volume, &mut large)
        })?;
        let (device, _) = self.reads(device, ample, "17_nodes", &mut record)?;
        let (device, _) = self.reads(device, small, "3_nodes", &mut record)?;
        Ok(device)
    }

    /// Appends of 4 KiB, each made durable.
    fn appends<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
        record: &mut Option<Buffer>,
    ) -> Result<()> {
        let one = run(volume, volume.create("one", &reserving(4 << 20)))?;
        let two = run(volume, volume.create("two", &reserving(4 << 20)))?;
        for _ in 0..WARM_UP {
            append(volume, one, record)?;
            run(volume, volume.sync(one))?;
        }
        let before = self.marks.begin()?;
        for _ in 0..RECORDS {
            append(volume, one, record)?;
            run(volume, volume.sync(one))?;
        }
        self.marks.end(before, "append_sync", RECORDS, RECORD)?;

        let before = self.marks.begin()?;
        for _ in 0..RECORDS {
            append(volume, one, record)?;
        }
        self.marks.end(before, "append", RECORDS, RECORD)?;

        let before = self.marks.begin()?;
        for _ in 0..RECORDS / 2 {
            for file in [one, two] {
                append(volume, file, record)?;
                run(volume, volume.sync(file))?;
            }
        }
        self.marks
            .end(before, "append_sync_two_files", RECORDS, RECORD)?;

        let growing = run(volume, volume.create("growing", &reserving(0)))?;
        let mut before = self.marks.begin()?;
        for record_number in 0..5 * RECORDS {
            if record_number == RECORDS {
                // The first MiB was the warm-up.
                self.marks.end(before, "warm_up", RECORDS, RECORD)?;
                before = self.marks.begin()?;
            }
            if volume.file_status(growing)?.reserved_bytes < RECORD as u64 {
                run(volume, volume.reserve(growing, MIB as u64))?;
            }
            append(volume, growing, record)?;
            run(volume, volume.sync(growing))?;
        }
        self.marks
            .end(before, "append_sync_reserving", 4 * RECORDS, RECORD)?;
        for file in [one, two, growing] {
            run(volume, volume.close(file))?;
        }
        Ok(())
    }

    /// A commit, or a sync, for each MiB.
    fn commits<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
        large: &mut Option<Buffer>,
    ) -> Result<()> {
        let file = run(volume, volume.create("large", &reserving(160 << 20)))?;
        append(volume, file, large)?;
        run(volume, volume.sync(file))?;
        let before = self.marks.begin()?;
        for _ in 0..FILES {
            append(volume, file, large)?;
            run(volume, volume.commit(file))?;
        }
        self.marks.end(before, "commit_1m", FILES, MIB)?;
        let before = self.marks.begin()?;
        for _ in 0..FILES {
            append(volume, file, large)?;
            run(volume, volume.sync(file))?;
        }
        self.marks.end(before, "sync_1m", FILES, MIB)?;
        run(volume, volume.close(file))?;
        run(volume, volume.remove("large"))
    }

    /// Files that are created and removed: empty ones, and ones with 4 KiB in one extent.
    fn files<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
        record: &mut Option<Buffer>,
    ) -> Result<()> {
        for (name, reserve) in [("create_remove", 0), ("create_remove_4k", RECORD as u64)] {
            let mut before = Counts::default();
            for number in 0..WARM_UP + FILES {
                if number == WARM_UP {
                    before = self.marks.begin()?;
                }
                let file = run(volume, volume.create("short", &reserving(reserve)))?;
                if reserve > 0 {
                    append(volume, file, record)?;
                }
                run(volume, volume.close(file))?;
                run(volume, volume.remove("short"))?;
            }
            self.marks.end(before, name, FILES, reserve as usize)?;
        }
        Ok(())
    }

    /// The large file to read from, and some others.
    fn fill<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
        large: &mut Option<Buffer>,
    ) -> Result<()> {
        for number in 0..FILES {
            let name = format!("other-{number}");
            let file = run(volume, volume.create(&name, &reserving(0)))?;
            run(volume, volume.close(file))?;
        }
        let file = run(
            volume,
            volume.create("name-0", &reserving(self.large_bytes)),
        )?;
        for _ in 0..self.large_bytes / MIB as u64 {
            append(volume, file, large)?;
        }
        run(volume, volume.close(file))
    }

    /// Random reads of 4 KiB in the large file. Cold: including mounting and opening. Warm: with
    /// reopening for each read, and without.
    fn reads<D: Device>(
        &mut self,
        mut device: D,
        mut nodes: [Buffer; 3],
        memory: &str,
        record: &mut Option<Buffer>,
    ) -> Result<(D, [Buffer; 3])> {
        let records = self.large_bytes / RECORD as u64;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut offset = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % records * RECORD as u64
        };
        for number in 0..NAMES {
            let name = format!("name-{number}");
            let before = self.marks.begin()?;
            (device, nodes) = mounted(device, nodes, |volume| {
                let file = run(volume, volume.open(&name))?;
                read(volume, file, offset(), record)?;
                self.marks
                    .end(before, &format!("cold_open_read_{memory}"), 1, RECORD)?;
                run(volume, volume.close(file))?;

                let before = self.marks.begin()?;
                for _ in 0..READS {
                    let file = run(volume, volume.open(&name))?;
                    read(volume, file, offset(), record)?;
                    run(volume, volume.close(file))?;
                }
                self.marks
                    .end(before, &format!("open_read_{memory}"), READS, RECORD)?;

                let file = run(volume, volume.open(&name))?;
                let before = self.marks.begin()?;
                for _ in 0..READS {
                    read(volume, file, offset(), record)?;
                }
                self.marks
                    .end(before, &format!("read_{memory}"), READS, RECORD)?;
                run(volume, volume.close(file))?;
                let next = (number + 1) % NAMES;
                run(volume, volume.rename(&name, &format!("name-{next}")))
            })?;
        }
        Ok((device, nodes))
    }
}

/// Mounts, works, unmounts.
fn mounted<D: Device>(
    device: D,
    nodes: [Buffer; 3],
    work: impl FnOnce(&Volume<'_, D>) -> Result<()>,
) -> Result<(D, [Buffer; 3])> {
    let mut files = [const { OpenFile::new() }; 4];
    let mounted = Volume::mount(device, nodes, &mut files, &MountOptions::default());
    let volume = match mounted {
        Ok(volume) => volume,
        Err(failed) => return Err(failed.result.err().map_or("not mounted".into(), Into::into)),
    };
    work(&volume)?;
    let unmounted = volume.unmount();
    unmounted.result?;
    let [Some(first), Some(second), Some(third)] = unmounted.memory else {
        return Err("the device kept memory".into());
    };
    Ok((unmounted.device, [first, second, third]))
}
