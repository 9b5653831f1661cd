//! Measures the CPU time of other processes.

use std::process::Child;

use crate::Failure;

/// The kernel's clock ticks per second, as user space sees them: the same on every Linux.
const TICKS_PER_S: u64 = 100;
/// The positions of the times of reaped children, counted from the field after the process's name.
const CHILDREN_AT: [usize; 2] = [13, 14];

/// Waits for the end of a process; returns the CPU time of all its threads, user and system, in nanoseconds. The kernel reports
/// it to a hundredth of a second.
pub(crate) fn of(child: &mut Child) -> Result<u64, Failure> {
    let before = children_ticks()?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("it failed ({status}); see its messages above").into());
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
