//! Pins child processes to CPUs, given as a list in the form of `taskset`.
//!
//! A new process inherits the CPUs of the thread that starts it. So the thread is pinned while it starts the process.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, anyhow, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Numbers of CPUs; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(BTreeSet<usize>);

impl FromStr for Cpus {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split(',').map(|part| range(part.trim()));
        let all: Option<Vec<_>> = parts.collect();
        let all = all.with_context(|| {
            format!("`{text}` is not a list of CPUs; write numbers and ranges, such as 0-3,6")
        })?;
        Ok(Self(all.into_iter().flatten().collect()))
    }
}

/// Parses `n` or `n-m`. `None` if the text has another form or a number is too large.
fn range(text: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < CpuSet::MAX_CPU).then_some(first..=last)
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(","))
    }
}

impl Cpus {
    /// Checks that this process may use all of these CPUs.
    ///
    /// # Errors
    /// When a CPU is forbidden. The error names the forbidden and the allowed CPUs.
    pub fn check(&self) -> anyhow::Result<()> {
        let set = sched_getaffinity(None).context("ask which CPUs this process may use")?;
        let usable = Self((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect());
        let missing: BTreeSet<_> = self.0.difference(&usable.0).copied().collect();
        ensure!(
            missing.is_empty(),
            "CPU {} cannot be used here: this process may use {usable}",
            Self(missing.clone())
        );
        Ok(())
    }

    fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|cpu| set.set(*cpu));
        set
    }
}

/// Calls `act` with this thread pinned to `cpus`, if there are any. New processes and threads inherit the CPUs.
///
/// # Errors
/// When the system refuses.
pub fn pinned<T>(cpus: Option<&Cpus>, act: impl FnOnce() -> T) -> anyhow::Result<T> {
    let Some(cpus) = cpus else { return Ok(act()) };
    let before = sched_getaffinity(None).context("ask which CPUs this process may use")?;
    sched_setaffinity(None, &cpus.set()).map_err(|error| anyhow!("use the CPUs {cpus} only: {error}"))?;
    let done = act();
    sched_setaffinity(None, &before).context("use all CPUs again")?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_list_is_parsed_and_printed() {
        for (text, all) in [("0", "0"), ("0-2", "0,1,2"), (" 4 , 0-1,1", "0,1,4")] {
            assert_eq!(text.parse::<Cpus>().unwrap().to_string(), all, "{text}");
        }
        for text in ["", "a", "3-1", "0-", "0-99999999", "1;2"] {
            let message = text.parse::<Cpus>().unwrap_err().to_string();
            assert!(message.contains("such as 0-3,6"), "{message}");
        }
    }

    #[test]
    fn a_missing_cpu_is_refused() {
        let message = "1000".parse::<Cpus>().unwrap().check().unwrap_err().to_string();
        assert!(message.contains("CPU 1000 cannot be used here"), "{message}");
    }

    #[test]
    fn a_child_is_pinned_to_the_cpus_and_this_process_is_not() {
        let status = || {
            let output =
                Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let first = (0..CpuSet::MAX_CPU).find(|cpu| sched_getaffinity(None).unwrap().is_set(*cpu)).unwrap();
        let before = status();
        let only: Cpus = first.to_string().parse().unwrap();
        let there = pinned(Some(&only), status).unwrap();
        assert_eq!(there.split_whitespace().last(), Some(first.to_string().as_str()));
        assert_eq!((status(), pinned(None, status).unwrap()), (before.clone(), before));
    }
}
