//! Reads the CPU time of each thread of a process.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_process::procfs::stat_field;

/// The most threads that are read: a server may have a thread for each of ten thousand connections.
const THREADS_MAX: usize = 4096;

/// The time of one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    /// Time on a CPU.
    pub(crate) ran_ns: u64,
    /// Time in which the thread was ready to run and had no CPU. Unknown where the kernel keeps no scheduler
    /// statistics.
    pub(crate) waited_ns: Option<u64>,
}

/// The threads of a process by their IDs; none if the process does not exist or hides them.
pub(crate) fn threads(pid: u32, ticks_per_s: u64) -> Option<HashMap<u32, ThreadTime>> {
    threads_in(&super::directory(pid).join("task"), ticks_per_s)
}

fn threads_in(tasks: &Path, ticks_per_s: u64) -> Option<HashMap<u32, ThreadTime>> {
    let one = |entry: fs::DirEntry| {
        Some((entry.file_name().to_str()?.parse().ok()?, thread(&entry.path(), ticks_per_s)?))
    };
    let threads: HashMap<_, _> =
        fs::read_dir(tasks).ok()?.flatten().take(THREADS_MAX).filter_map(one).collect();
    (!threads.is_empty()).then_some(threads)
}

/// Reads the CPU time of one thread from its directory in `/proc`. The scheduler's `schedstat` counts
/// nanoseconds; the older `stat`, read if it is missing, counts ticks of usually 10 ms.
fn thread(directory: &Path, ticks_per_s: u64) -> Option<ThreadTime> {
    let file = |name: &str| fs::read_to_string(directory.join(name)).ok();
    file("schedstat")
        .and_then(|text| from_schedstat(&text))
        .or_else(|| from_stat(&file("stat")?, ticks_per_s))
}

/// `RAN WAITED SLICES`, see `Documentation/scheduler/sched-stats.rst` of the kernel.
fn from_schedstat(text: &str) -> Option<ThreadTime> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let (ran_ns, waited_ns) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(ThreadTime { ran_ns, waited_ns: Some(waited_ns) })
}

fn from_stat(text: &str, ticks_per_s: u64) -> Option<ThreadTime> {
    let ticks = stat_field(text, 14)? + stat_field(text, 15)?;
    Some(ThreadTime { ran_ns: ticks * (SECOND_NS / ticks_per_s.max(1)), waited_ns: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_statistics_are_preferred_to_ticks() {
        let tasks = tempfile::tempdir().unwrap();
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 3 0 9876 1 2 3";
        for (id, schedstat) in [("42", Some("664734 956692 2\n")), ("43", None)] {
            let directory = tasks.path().join(id);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("stat"), stat).unwrap();
            schedstat.iter().for_each(|text| fs::write(directory.join("schedstat"), text).unwrap());
        }
        let threads = threads_in(tasks.path(), 100).unwrap();
        assert_eq!(threads[&42], ThreadTime { ran_ns: 664_734, waited_ns: Some(956_692) });
        assert_eq!(threads[&43], ThreadTime { ran_ns: 120_000_000, waited_ns: None });
    }

    #[test]
    fn a_missing_process_has_no_threads_and_this_one_has() {
        assert_eq!(threads(5_000_000, 100), None);
        assert!(threads(std::process::id(), 100).is_some_and(|threads| !threads.is_empty()));
    }
}
