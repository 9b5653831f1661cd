//! Reads how the machine's CPUs spent their time.

/// Time of some CPUs, in clock ticks since the machine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    /// Time without work, or waiting for input or output.
    pub(super) idle: u64,
    /// Time that the hypervisor gave to other machines.
    pub(super) stolen: u64,
    /// All time, idle and stolen time included.
    pub(super) total: u64,
}

/// Adds up the CPUs that `includes` names, from `/proc/stat`: `cpuN user nice system idle iowait irq softirq steal …`, see
/// proc(5). Guest time is contained in user time.
pub(super) fn cpu_time(stat: &str, includes: impl Fn(usize) -> bool) -> Option<CpuTime> {
    let one = |line: &str| {
        let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
        if !includes(number.parse().ok()?) {
            return None;
        }
        let fields: Vec<u64> = fields.split_ascii_whitespace().map_while(|it| it.parse().ok()).collect();
        let at = |index: usize| fields.get(index).copied().unwrap_or(0);
        Some(CpuTime { idle: at(3) + at(4), stolen: at(7), total: fields.iter().take(8).sum() })
    };
    stat.lines().filter_map(one).reduce(|a, b| CpuTime {
        idle: a.idle + b.idle,
        stolen: a.stolen + b.stolen,
        total: a.total + b.total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  300 0 60 1000 20 0 4 16 0 0\n\
        cpu0 100 0 20 500 10 0 2 8 0 0\n\
        cpu1 200 0 40 500 10 0 2 8 0 0\n\
        cpu10 9 9 9 9 9 9 9 9 9 9\n\
        intr 1 2 3\n";

    #[test]
    fn the_time_of_the_allowed_cpus_is_added_up() {
        let one = CpuTime { idle: 510, stolen: 8, total: 760 };
        assert_eq!(cpu_time(STAT, |cpu| cpu == 1), Some(one));
        let both = CpuTime { idle: 1020, stolen: 16, total: 1400 };
        assert_eq!(cpu_time(STAT, |cpu| cpu < 2), Some(both));
        assert_eq!(cpu_time(STAT, |cpu| cpu == 5), None);
        assert_eq!(cpu_time("", |_| true), None);
    }
}
