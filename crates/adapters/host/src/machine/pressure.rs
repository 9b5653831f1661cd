//! Reads pressure stall information: how long tasks waited for a resource.

use std::fs;
use std::path::{Path, PathBuf};

/// The pressure files of the three resources, see `Documentation/accounting/psi.rst` of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pressure {
    cpu: PathBuf,
    io: PathBuf,
    memory: PathBuf,
    is_own: bool,
}

impl Pressure {
    /// The pressure in a cgroup (version 2), or else on the whole machine.
    pub(super) fn of(cgroup: Option<&Path>) -> Self {
        let own = cgroup.filter(|directory| directory.join("io.pressure").is_file());
        let file = |name: &str| match own {
            Some(directory) => directory.join(format!("{name}.pressure")),
            None => Path::new("/proc/pressure").join(name),
        };
        Self { cpu: file("cpu"), io: file("io"), memory: file("memory"), is_own: own.is_some() }
    }

    /// Whether the pressure is that of the cgroup.
    pub(super) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// The microseconds in which some task waited, for CPUs, for input and output, and for memory.
    pub(super) fn some_us(&self) -> [Option<u64>; 3] {
        [&self.cpu, &self.io, &self.memory].map(|file| some_us(&fs::read_to_string(file).ok()?))
    }
}

/// The total of the line `some avg10=… avg60=… avg300=… total=MICROSECONDS`.
fn some_us(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_the_line_some_is_read() {
        let text = "some avg10=52.04 avg60=51.97 avg300=33.87 total=3392856277\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
        assert_eq!(some_us(text), Some(3_392_856_277));
        assert_eq!(some_us("full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n"), None);
        assert_eq!(some_us(""), None);
    }

    #[test]
    fn a_cgroup_without_pressure_files_falls_back_to_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Pressure::of(Some(directory.path())), Pressure::of(None));
        fs::write(directory.path().join("io.pressure"), "some avg10=0.00 total=5\n").unwrap();
        assert_eq!(Pressure::of(Some(directory.path())).io, directory.path().join("io.pressure"));
        assert_eq!(Pressure::of(Some(directory.path())).some_us()[1], Some(5));
    }
}
