// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processors' frequency, pinned temporarily through the kernel's cpufreq.
//!
//! A frequency is pinned by setting the governor's minimum and maximum to it, which every governor
//! obeys. The previous settings are restored on drop.

use crate::Roots;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Number of frequencies to try where the kernel lists only the lowest and the highest.
const STEPS: u64 = 4;

#[derive(Debug)]
struct Policy {
    folder: PathBuf,
    lowest_khz: u64,
    highest_khz: u64,
    before_khz: (u64, u64),
}

/// All frequency domains of the machine.
#[derive(Debug)]
pub struct Cpufreq {
    policies: Vec<Policy>,
}

impl Cpufreq {
    /// The machine's domains.
    ///
    /// # Errors
    /// If there are none, as on most virtual machines, or they cannot be read.
    pub fn new(roots: &Roots) -> io::Result<Self> {
        let folder = roots.sys.join("devices/system/cpu/cpufreq");
        let mut policies = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let folder = entry?.path();
            let name = folder.file_name().and_then(|name| name.to_str());
            if !name.is_some_and(|name| name.starts_with("policy")) {
                continue;
            }
            policies.push(Policy {
                lowest_khz: number(&folder, "cpuinfo_min_freq")?,
                highest_khz: number(&folder, "cpuinfo_max_freq")?,
                before_khz: (
                    number(&folder, "scaling_min_freq")?,
                    number(&folder, "scaling_max_freq")?,
                ),
                folder,
            });
        }
        if policies.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(Self { policies })
        }
    }

    /// Frequencies that every domain supports, highest first.
    pub fn frequencies_khz(&self) -> Vec<u64> {
        let mut common: Option<Vec<u64>> = None;
        for policy in &self.policies {
            let own = policy.frequencies_khz();
            common = Some(match common {
                None => own,
                Some(before) => before.into_iter().filter(|f| own.contains(f)).collect(),
            });
        }
        let mut all = common.unwrap_or_default();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        all
    }

    /// Pins every domain to `khz`.
    ///
    /// # Errors
    /// If it is not permitted, or the driver refuses the frequency.
    pub fn pin(&self, khz: u64) -> io::Result<()> {
        self.policies
            .iter()
            .try_for_each(|policy| policy.allow(khz, khz))
    }
}

impl Policy {
    fn frequencies_khz(&self) -> Vec<u64> {
        let named = fs::read_to_string(self.folder.join("scaling_available_frequencies"));
        let named: Vec<u64> = named
            .unwrap_or_default()
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        if !named.is_empty() {
            return named;
        }
        let span = self.highest_khz.saturating_sub(self.lowest_khz);
        (0..STEPS)
            .map(|step| self.lowest_khz + span / (STEPS - 1) * step)
            .collect()
    }

    /// The kernel refuses a minimum above the maximum, so the minimum is lowered first.
    fn allow(&self, lowest_khz: u64, highest_khz: u64) -> io::Result<()> {
        let put = |name: &str, khz: u64| fs::write(self.folder.join(name), khz.to_string());
        put("scaling_min_freq", self.lowest_khz)?;
        put("scaling_max_freq", highest_khz)?;
        put("scaling_min_freq", lowest_khz)
    }
}

impl Drop for Cpufreq {
    fn drop(&mut self) {
        for policy in &self.policies {
            // What cannot be written now could not have been changed before either.
            let _ = policy.allow(policy.before_khz.0, policy.before_khz.1);
        }
    }
}

fn number(folder: &Path, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(folder.join(name))?;
    let parsed = text.trim().parse();
    parsed.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: `{text}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, available: Option<&str>) -> (PathBuf, Roots) {
        let root = std::env::temp_dir().join(format!("cpufreq-{}-{name}", std::process::id()));
        for policy in ["policy0", "policy2"] {
            let folder = root.join("sys/devices/system/cpu/cpufreq").join(policy);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [
                ("cpuinfo_min_freq", "300000\n"),
                ("cpuinfo_max_freq", "1200000\n"),
                ("scaling_min_freq", "600000\n"),
                ("scaling_max_freq", "1200000\n"),
            ] {
                fs::write(folder.join(file), text).unwrap();
            }
            if let Some(text) = available {
                fs::write(folder.join("scaling_available_frequencies"), text).unwrap();
            }
        }
        (root.clone(), Roots::under(&root))
    }

    fn limits(root: &Path) -> (u64, u64) {
        let folder = root.join("sys/devices/system/cpu/cpufreq/policy2");
        (
            number(&folder, "scaling_min_freq").unwrap(),
            number(&folder, "scaling_max_freq").unwrap(),
        )
    }

    #[test]
    fn a_frequency_is_pinned_and_what_was_set_before_comes_back() {
        let (root, roots) = machine("pin", Some("300000 600000 1200000"));
        let cpufreq = Cpufreq::new(&roots).unwrap();
        assert_eq!(cpufreq.frequencies_khz(), [1_200_000, 600_000, 300_000]);
        cpufreq.pin(300_000).unwrap();
        assert_eq!(limits(&root), (300_000, 300_000));
        drop(cpufreq);
        assert_eq!(limits(&root), (600_000, 1_200_000));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_driver_that_names_no_steps_has_four() {
        let (root, roots) = machine("steps", None);
        let cpufreq = Cpufreq::new(&roots).unwrap();
        let steps = [1_200_000, 900_000, 600_000, 300_000];
        assert_eq!(cpufreq.frequencies_khz(), steps);
        drop(cpufreq);
        fs::remove_dir_all(&root).unwrap();
        assert!(Cpufreq::new(&roots).is_err());
    }
}
