//! Puts a process into its own cgroup with limits, version 1 or 2, and removes the cgroup afterwards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The directory of all cgroups: those of version 2, of the unified part of a hybrid, and of the controllers
/// of version 1.
const ROOT: &str = "/sys/fs/cgroup";
const PERIOD_US: u64 = 100_000;

/// A limit on the processes of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// The largest CPU time per elapsed time.
    Cpu {
        /// The limit, in cores.
        cores: f64,
    },
    /// The largest number of writes to the disk below the results.
    Writes {
        /// The number of writes per second.
        per_s: u64,
    },
}

/// The cgroups of one process. They are removed on drop: by then the process has ended, or it returns to the root.
#[derive(Debug, Default)]
pub(super) struct Cgroup {
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// Puts a process into cgroups with these limits; into none without limits.
    pub(super) fn around(pid: u32, limits: &[Limit], home: &Path) -> Result<Self> {
        let mut cgroup = Self::default();
        for limit in limits {
            cgroup.add(pid, *limit, home)?;
        }
        // On a machine with both versions, the cgroup of version 2 limits nothing. It shows the pressure of its processes.
        let unified = Path::new(ROOT).join("unified");
        if !limits.is_empty() && unified.is_dir() {
            cgroup.enter(&unified, pid, &[])?;
        }
        Ok(cgroup)
    }

    fn add(&mut self, pid: u32, limit: Limit, home: &Path) -> Result<()> {
        let root = Path::new(ROOT);
        let is_unified = root.join("cgroup.controllers").is_file();
        match limit {
            Limit::Cpu { cores } => {
                let quota_us = (cores * PERIOD_US as f64) as u64;
                if is_unified {
                    self.enter(root, pid, &[("cpu.max", format!("{quota_us} {PERIOD_US}"))])
                } else {
                    let files = [
                        ("cpu.cfs_period_us", PERIOD_US.to_string()),
                        ("cpu.cfs_quota_us", quota_us.to_string()),
                    ];
                    self.enter(&root.join("cpu"), pid, &files)
                }
            }
            Limit::Writes { per_s } => {
                let device = device(home)?;
                if is_unified {
                    self.enter(root, pid, &[("io.max", format!("{device} wiops={per_s}"))])
                } else {
                    let files = [("blkio.throttle.write_iops_device", format!("{device} {per_s}"))];
                    self.enter(&root.join("blkio"), pid, &files)
                }
            }
        }
    }

    fn enter(&mut self, hierarchy: &Path, pid: u32, files: &[(&str, String)]) -> Result<()> {
        ensure!(hierarchy.is_dir(), "{} is missing: this machine has no such cgroups", hierarchy.display());
        let directory = hierarchy.join(format!("plimsoll-bottlenecks-{pid}"));
        fs::create_dir_all(&directory)
            .with_context(|| format!("make {}: creating cgroups needs root", directory.display()))?;
        self.directories.push(directory.clone());
        for (file, text) in files.iter().chain(&[("cgroup.procs", pid.to_string())]) {
            let file = directory.join(file);
            fs::write(&file, text).with_context(|| format!("write {text} to {}", file.display()))?;
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            let procs = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            if let Some(root) = directory.parent() {
                let back = |pid: &str| fs::write(root.join("cgroup.procs"), pid);
                procs.lines().for_each(|pid| drop(back(pid)));
            }
            // A drop cannot return an error; a leftover empty cgroup limits nothing.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// `MAJOR:MINOR` of the whole disk below a directory: limits apply to disks, not to partitions.
fn device(directory: &Path) -> Result<String> {
    let number = fs::metadata(directory).with_context(|| format!("find {}", directory.display()))?.dev();
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
    let block = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let Ok(block) = block.canonicalize() else {
        bail!("{} lies on no disk: choose another --out", directory.display());
    };
    let disk = if block.join("partition").is_file() { block.parent().unwrap_or(&block) } else { &block };
    let text = fs::read_to_string(disk.join("dev")).context("read the number of the disk")?;
    Ok(text.trim().to_owned())
}
