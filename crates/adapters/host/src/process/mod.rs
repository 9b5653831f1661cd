//! Reads the resource usage of a process from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_process::procfs::stat_field;

mod listener;
mod storage;
mod threads;

pub use listener::listener;
pub use plimsoll_process::procfs::{is_alive, started};
pub use storage::storage;
pub(crate) use threads::{ThreadTime, threads};

/// The resources that a process has used so far. Values that the kernel hides from this user are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user and system mode, in nanoseconds; the kernel usually counts it in ticks of 10 ms.
    pub cpu_ns: u64,
    /// Resident memory in bytes.
    pub rss_bytes: Option<u64>,
    /// The peak of resident memory, in bytes.
    pub rss_bytes_max: Option<u64>,
    /// The number of threads.
    pub threads: Option<u64>,
    /// Voluntary context switches of the main thread.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches of the main thread.
    pub switches_involuntary: Option<u64>,
    /// Bytes read from a disk for the process.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to a disk for the process.
    pub disk_written_bytes: Option<u64>,
}

/// The usage of a process; `None` if the process does not exist.
pub fn usage(pid: u32) -> Option<Usage> {
    usage_in(&directory(pid), rustix::param::clock_ticks_per_second())
}

/// The usage of this process.
pub fn own() -> Usage {
    usage(std::process::id()).unwrap_or_default()
}

fn directory(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn usage_in(directory: &Path, ticks_per_s: u64) -> Option<Usage> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
    let io = fs::read_to_string(directory.join("io")).unwrap_or_default();
    let ticks = stat_field(&stat, 14)? + stat_field(&stat, 15)?;
    Some(Usage {
        cpu_ns: ticks * (SECOND_NS / ticks_per_s.max(1)),
        rss_bytes: named(&status, "VmRSS").map(|kilobytes| kilobytes * 1024),
        rss_bytes_max: named(&status, "VmHWM").map(|kilobytes| kilobytes * 1024),
        threads: named(&status, "Threads"),
        switches_voluntary: named(&status, "voluntary_ctxt_switches"),
        switches_involuntary: named(&status, "nonvoluntary_ctxt_switches"),
        disk_read_bytes: named(&io, "read_bytes"),
        disk_written_bytes: named(&io, "write_bytes"),
    })
}

/// Finds the number after `name:` in a file of such lines.
pub(crate) fn named(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 3 0 9876 1 2 3";

    #[test]
    fn ticks_become_nanoseconds_and_kilobytes_bytes() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("stat"), STAT).unwrap();
        fs::write(directory.path().join("status"), "VmHWM:\t  20 kB\nVmRSS:\t  10 kB\nThreads:\t3\n")
            .unwrap();
        let usage = usage_in(directory.path(), 100).unwrap();
        assert_eq!(usage.cpu_ns, 120_000_000);
        assert_eq!((usage.rss_bytes, usage.rss_bytes_max), (Some(10_240), Some(20_480)));
        assert_eq!((usage.threads, usage.disk_written_bytes), (Some(3), None));
    }

    #[test]
    fn this_process_is_alive_and_uses_memory() {
        let pid = std::process::id();
        assert!(is_alive(pid) && started(pid).is_some());
        assert!(own().rss_bytes.unwrap() > 0);
    }

    #[test]
    fn a_missing_process_has_no_usage() {
        assert_eq!(usage(5_000_000), None);
        assert!(!is_alive(5_000_000));
    }
}
