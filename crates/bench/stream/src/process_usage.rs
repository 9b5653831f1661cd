//! Reads CPU time, memory and threads of this process.

use plimsoll_measure::clock;
use plimsoll_measure::stream::Process;
use std::fs;

/// CPU time, resident memory and threads of this process; zero where the system does not tell.
pub fn now() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Process {
        cpu_ns: clock::process_cpu_ns(),
        resident_bytes: field("VmRSS:").unwrap_or_default() << 10,
        threads: field("Threads:").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_uses_memory_and_has_threads() {
        let now = super::now();
        assert!(now.resident_bytes > 1 << 20 && now.threads > 0, "{now:?}");
    }
}
