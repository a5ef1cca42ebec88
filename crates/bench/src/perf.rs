// SPDX-License-Identifier: Apache-2.0 OR MIT
//! perf as a sampler of the whole machine.
//!
//! perf is started with its events disabled, and enabled over a pipe with an acknowledgement: so
//! the start of the sampling is known, not guessed by waiting.

use super::OrMissing;
use devices::error::{Error, Result};
use linux::Roots;
use measure::Missing;
use measure::profile::run::Sampler;
use measure::profile::stacks::{Stack, parse};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// perf, sampling all processors periodically.
#[derive(Debug)]
pub struct Perf {
    folder: PathBuf,
    frequency: u32,
    child: Option<Child>,
}

impl Perf {
    /// Checks that perf is installed and permitted.
    ///
    /// # Errors
    /// perf is missing or not permitted.
    pub fn new(roots: &Roots, frequency: u32) -> Result<Self> {
        let version = Command::new("perf").arg("version").output();
        version.map_err(|error| Error::tool("perf", "linux-perf", &error))?;
        let file = roots.proc.join("sys/kernel/perf_event_paranoid");
        let level = fs::read_to_string(&file).map_err(|error| {
            Error::unsupported(format!("this kernel has no perf events: {error}"))
                .hint("a kernel with CONFIG_PERF_EVENTS")
        })?;
        let level: i32 = level.trim().parse().unwrap_or(0);
        let is_root = rustix::process::geteuid().is_root();
        if level > -1 && !is_root {
            return Err(Error::missing(format!(
                "the whole machine may not be sampled: {} is {level}",
                file.display()
            ))
            .hint("run it as root, or: sysctl kernel.perf_event_paranoid=-1"));
        }
        let folder = std::env::temp_dir().join(format!("straightway-perf-{}", std::process::id()));
        let failed = |error: std::io::Error| Error::io("making", &folder, &error);
        fs::create_dir(&folder).map_err(failed)?;
        let this = Self {
            folder: folder.clone(),
            frequency,
            child: None,
        };
        for name in ["control", "answer"] {
            let mode = Mode::RUSR | Mode::WUSR;
            let made = mknodat(CWD, folder.join(name), FileType::Fifo, mode, 0);
            made.map_err(|error| failed(error.into()))?;
        }
        Ok(this)
    }

    fn begin(&mut self) -> Result<()> {
        let (control, answer) = (self.folder.join("control"), self.folder.join("answer"));
        let control_option = format!("fifo:{},{}", control.display(), answer.display());
        let errors = File::create(self.folder.join("errors"));
        let errors = errors.map_err(|error| Error::io("making", &self.folder, &error))?;
        // Opened for reading and writing, so that neither side waits for the other to open.
        let both = |path: &PathBuf| {
            let opened = OpenOptions::new().read(true).write(true).open(path);
            opened.map_err(|error| Error::io("opening", path, &error))
        };
        let (mut to, mut from) = (both(&control)?, both(&answer)?);
        let child = Command::new("perf")
            .args(["record", "-q", "-a", "-g", "-e", "cpu-clock", "--delay=-1"])
            // Otherwise perf copies every sampled program into the user's home, some hundred MiB.
            .arg("--no-buildid-cache")
            .args([
                "-F",
                &self.frequency.to_string(),
                "--control",
                &control_option,
                "-o",
            ])
            .arg(self.folder.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn();
        let child = child.map_err(|error| Error::tool("perf", "linux-perf", &error));
        self.child = Some(child?);
        to.write_all(b"enable\n")
            .map_err(|error| Error::io("writing", &control, &error))?;
        self.answered(&mut from)
    }

    /// Waits until perf answers or ends.
    fn answered(&mut self, from: &mut File) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let slice = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        // Bounded: perf answers or ends, which closes the pipe.
        loop {
            let mut fds = [PollFd::new(from, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&slice));
            if ready.map_err(|error| Error::io("waiting for", &self.folder, &error.into()))? > 0 {
                let mut text = [0; 64];
                let read = from.read(&mut text);
                return read
                    .map(|_| ())
                    .map_err(|error| Error::io("reading", &self.folder, &error));
            }
            let ended = self.child.as_mut().map(Child::try_wait);
            if !matches!(ended, Some(Ok(None))) {
                return Err(self.refused());
            }
        }
    }

    fn refused(&self) -> Error {
        let said = fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        let first = said.lines().find(|line| !line.trim().is_empty());
        let first = first.unwrap_or("no message").trim();
        Error::unsupported(format!("perf record ended immediately: {first}"))
            .hint("run it as root; perf record -a sleep 1 shows all messages")
    }

    fn end(&mut self) -> Result<Vec<Stack>> {
        self.interrupt();
        let output = Command::new("perf")
            .args(["script", "-F", "comm,ip,sym,dso", "-i"])
            .arg(self.folder.join("data"))
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| Error::io("running", &self.folder, &error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("no message").to_owned();
            return Err(Error::unsupported(format!("perf script: {said}")));
        }
        Ok(parse(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Ends perf as Ctrl-C does, so that it writes its samples.
    fn interrupt(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // It may have ended by itself.
            let _ = pid.map(|pid| kill_process(pid, Signal::INT));
            let _ = child.wait();
        }
    }
}

impl Sampler for Perf {
    fn start(&mut self) -> std::result::Result<(), Missing> {
        self.begin().or_missing()
    }

    fn stop(&mut self) -> std::result::Result<Vec<Stack>, Missing> {
        self.end().or_missing()
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        self.interrupt();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
