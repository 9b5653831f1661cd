//! Reads the CPU time of processes.

use std::fs;

/// The seconds that this process has used.
pub(crate) fn own() -> f64 {
    seconds(std::process::id()).unwrap_or(0.0)
}

/// The seconds that a process and its children have used, including ended children.
pub(crate) fn tree(pid: u32) -> f64 {
    let children = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        (field(child, 4)? as u32 == pid).then_some(child)
    });
    seconds(pid).unwrap_or(0.0) + children.filter_map(seconds).sum::<f64>()
}

/// User and system time of a process and its ended children.
fn seconds(pid: u32) -> Option<f64> {
    let ticks = (14..=17).map(|number| field(pid, number)).sum::<Option<u64>>()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A field of `/proc/PID/stat`, numbered from 1 as in proc(5).
fn field(pid: u32, number: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks. The field after it is the third.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(number - 3)?.parse().ok()
}
