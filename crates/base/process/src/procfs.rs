//! Reads from `/proc` whether a process exists, its children and its threads.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = stat(pid).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// The start of a process, in clock ticks since boot. With the process ID it identifies one process permanently, though IDs are
/// reused.
pub fn started(pid: u32) -> Option<u64> {
    stat_field(&stat(pid)?, 22)
}

/// The running children of a process; none where the system does not report them.
pub fn started_by(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(directory(pid).join("task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>();
    lists.flat_map(pids).collect()
}

/// A field of `/proc/<pid>/stat` by its number in proc(5), from 3 on. The second, the name in brackets, may hold spaces
/// and brackets itself.
pub fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The threads of a process, each with its name, its state (a letter of proc(5)) and, if the system reports it, the kernel
/// function in which it waits.
pub(crate) fn threads(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(directory(pid).join("task")).into_iter().flatten().flatten();
    let shown = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let place = fs::read_to_string(thread.path().join("wchan")).unwrap_or_default();
        let (name, fields) = stat.split_once(" (")?.1.rsplit_once(") ")?;
        Some(format!("{name} {} {place}", fields.get(..1)?).trim_end().to_owned())
    });
    shown.collect()
}

/// A handle that identifies this process permanently, though its ID may be reused.
pub(crate) fn handle(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(directory(pid).join("stat")).ok()
}

fn directory(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 3 0 9876 1 2 3";
        assert_eq!(stat_field(stat, 14), Some(7));
        assert_eq!(stat_field(stat, 15), Some(5));
        assert_eq!(stat_field(stat, 22), Some(9876));
        assert_eq!(stat_field("", 14), None);
    }

    #[test]
    fn this_process_is_alive_and_an_impossible_one_is_not() {
        let pid = std::process::id();
        assert!(is_alive(pid) && started(pid).is_some() && handle(pid).is_ok());
        // Above the kernel's greatest process id.
        assert!(!is_alive(5_000_000) && started(5_000_000).is_none() && handle(5_000_000).is_err());
    }

    #[test]
    fn the_threads_of_a_process_are_listed_with_the_systems_details() {
        let running = threads(std::process::id());
        assert!(running.iter().any(|thread| thread.contains(" R")), "this one runs: {running:?}");
        assert!(threads(5_000_000).is_empty());
    }

    #[test]
    fn running_children_of_a_process_are_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        assert!(started_by(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!started_by(std::process::id()).contains(&child.id()));
        assert!(started_by(5_000_000).is_empty());
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while is_alive(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(started(child.id()).is_some(), "its exit status was not taken yet");
        child.wait().unwrap();
    }
}
