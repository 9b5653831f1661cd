//! The CPU time of other processes.

use std::process::Child;

use crate::Failure;

/// The kernel's clock ticks for user space, a second: the same on every Linux.
const TICKS_PER_S: u64 = 100;
/// Where the times of children that were waited for stand, counted from after the process's name.
const CHILDREN_AT: [usize; 2] = [13, 14];

/// Waits for the end of a process; its CPU time, user and system, all of its threads, in nanoseconds. The kernel tells it
/// to a hundredth of a second.
pub(crate) fn of(child: &mut Child) -> Result<u64, Failure> {
    let before = children_ticks()?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("it failed ({status}); its words above say why").into());
    }
    Ok((children_ticks()? - before) * 1_000_000_000 / TICKS_PER_S)
}

fn children_ticks() -> Result<u64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("/proc/self/stat has another form")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let at = |place: usize| -> Result<u64, Failure> {
        Ok(fields.get(place).ok_or("a field is missing")?.parse()?)
    };
    Ok(at(CHILDREN_AT[0])? + at(CHILDREN_AT[1])?)
}
