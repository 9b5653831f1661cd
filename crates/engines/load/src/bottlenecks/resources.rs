//! Checks the resources of the server's machine: CPUs, memory and disk.

use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::sample::ServerSample;

use super::observation::both;
use super::reading::{MIB, partial, reading, share};
use super::{Finding, Level, NOT_LOCAL, NotObserved, Observation, departs};

/// A server above this share of the cores that it could use has no CPU left.
const CORES_SHARE_MAX: f64 = 0.90;
/// A thread above this share of a core is saturated, however many other cores are idle.
const THREAD_SHARE_MAX: f64 = 0.95;
/// A machine without free CPU limits the server if at least this many of the server's threads wait for a CPU, on average.
const WAITING_MIN: f64 = 0.10;
/// A shortage counts if it lasts for this share of the time: a quota stops the server, a hypervisor takes its
/// CPUs, or tasks wait for memory.
const WITHHELD_MAX: f64 = 0.10;
/// A disk above this share of the time is busy. A disk with parallel requests may still accept more, so the
/// evidence also shows the bytes.
const DISK_BUSY_MAX: f64 = 0.90;
/// A resource that is at its limit for this share of the time departs.
const TIME_MAX: f64 = 0.50;

/// The threads of the server cannot be read.
const THREADS_HIDDEN: NotObserved =
    "not readable: the server's process ended, or the kernel hides its threads from this user";
/// No cgroup of the server counts its throttling.
const NO_QUOTA: NotObserved = "not reported: no cgroup of the server counts the time that a quota stops it";
/// The affinity or the times of the CPUs cannot be read.
const NO_STEAL: NotObserved = "not readable: the kernel hides the server's CPUs from this user";
/// The kernel was built or started without pressure stall information.
const NO_PRESSURE: NotObserved = "not reported: this kernel keeps no pressure stall information";
/// The storage lies on no disk that the kernel counts.
const NO_DISK: NotObserved = "not reported: the server's storage lies on no disk that the kernel counts";

/// Finds a server without CPU left: a saturated thread, or all cores that it could get in use.
pub(super) fn server_cpu(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let time = both(sides, |side| time_at(side, cpu_at_limit, THREADS_HIDDEN))?;
    let mean = |of: fn(&HostSample) -> Option<f64>| (side_mean(baseline, of), side_mean(knee, of));
    let mut readings = vec![
        share("time without CPU left", time),
        partial("used by the server", "cores", mean(|it| it.cores_used)),
        partial("available to it", "cores", mean(available)),
        partial("busiest thread's share of a core", "%", mean(|it| it.busiest_thread.map(|it| it * 100.0))),
        partial("threads that waited for a CPU", "", mean(|it| it.threads_waiting)),
    ];
    readings.retain(|it| it.knee.is_some());
    Ok(Finding { departed: departs(time.0, time.1, TIME_MAX), readings })
}

/// The tenths of a second in which the server had no CPU left.
pub(super) fn server_cpu_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels(side, cpu_at_limit, THREADS_HIDDEN)
}

fn cpu_at_limit(sample: &HostSample) -> Option<bool> {
    let used = sample.cores_used?;
    let is_full = available(sample).is_some_and(|all| used >= all * CORES_SHARE_MAX);
    let waits = sample.threads_waiting.is_none_or(|threads| threads >= WAITING_MIN);
    let is_one_thread = sample.busiest_thread.is_some_and(|share| share >= THREAD_SHARE_MAX);
    Some(is_one_thread || is_full && waits)
}

/// The cores that the server could use: its own and the idle ones, up to its affinity and its quota.
fn available(sample: &HostSample) -> Option<f64> {
    let unused = sample.cores_idle.map(|idle| idle + sample.cores_used.unwrap_or(0.0));
    sample.cores_allowed.into_iter().chain(unused).reduce(f64::min)
}

/// Finds a CPU quota that stops the server, or one of its cgroups.
pub(super) fn quota(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    withheld((baseline, knee), "time stopped by the quota", |it| it.throttled, NO_QUOTA)
}

/// The tenths of a second in which a quota stopped the server.
pub(super) fn quota_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels(side, |it| it.throttled.map(is_withheld), NO_QUOTA)
}

/// Finds a hypervisor that gives the server's CPUs to other machines.
pub(super) fn stolen(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    withheld((baseline, knee), "time stolen by the hypervisor", |it| it.stolen, NO_STEAL)
}

/// The tenths of a second in which CPUs were stolen.
pub(super) fn stolen_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels(side, |it| it.stolen.map(is_withheld), NO_STEAL)
}

/// Finds tasks that wait for memory: the kernel reclaims pages, or swaps.
pub(super) fn memory(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    withheld((baseline, knee), "time in which tasks waited for memory", |it| it.memory_pressure, NO_PRESSURE)
}

/// The tenths of a second in which tasks waited for memory.
pub(super) fn memory_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels(side, |it| it.memory_pressure.map(is_withheld), NO_PRESSURE)
}

/// Whether a resource was withheld for a relevant share of the time.
fn is_withheld(share: f64) -> bool {
    share >= WITHHELD_MAX
}

/// Compares the mean share of the time in which a resource was withheld.
fn withheld(
    sides: (&Observation, &Observation),
    what: &str,
    of: fn(&HostSample) -> Option<f64>,
    unreadable: NotObserved,
) -> Result<Finding, NotObserved> {
    let shares = both(sides, |side| {
        observed(side)?;
        side_mean(side, of).ok_or(unreadable)
    })?;
    Ok(Finding { departed: departs(shares.0, shares.1, WITHHELD_MAX), readings: vec![share(what, shares)] })
}

/// Finds a disk that is never idle, or a server that waits for it all the time, for example because the disk's throughput is limited.
pub(super) fn disk(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let time = both(sides, |side| time_at(side, disk_at_limit, NO_DISK))?;
    let mean = |of: fn(&HostSample) -> Option<f64>| {
        let of = |side| side_mean(side, of).map(|it| it * 100.0);
        (of(baseline), of(knee))
    };
    let mib = |it: &Observation, counter: fn(&ServerSample) -> Option<u64>| {
        it.per_s(counter).map(|bytes| bytes / MIB)
    };
    let written = both(sides, |it| mib(it, |it| it.process_written_bytes));
    let read = both(sides, |it| mib(it, |it| it.process_read_bytes));
    let mut readings = vec![
        share("time at its limit", time),
        partial("disk busy", "%", mean(|it| it.disk_busy)),
        partial("tasks waited for input or output", "%", mean(|it| it.io_pressure)),
    ];
    readings.retain(|it| it.knee.is_some());
    readings.extend(written.map(|written| reading("written by the server", "MiB/s", written)));
    readings.extend(read.map(|read| reading("read by the server", "MiB/s", read)));
    Ok(Finding { departed: departs(time.0, time.1, TIME_MAX), readings })
}

/// The tenths of a second in which the disk was at its limit.
pub(super) fn disk_levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    levels(side, disk_at_limit, NO_DISK)
}

/// Pressure counts only in the server's own cgroup: on the whole machine, other programs wait as well.
fn disk_at_limit(sample: &HostSample) -> Option<bool> {
    let own = sample.io_pressure.filter(|_| sample.pressure_is_own);
    let shares = [sample.disk_busy, own].into_iter().flatten();
    shares.map(|share| share >= DISK_BUSY_MAX).reduce(|a, b| a || b)
}

/// The share of the time in which a resource was at its limit.
fn time_at(
    side: &Observation,
    is_at_limit: fn(&HostSample) -> Option<bool>,
    unreadable: NotObserved,
) -> Result<f64, NotObserved> {
    let levels = levels(side, is_at_limit, unreadable)?;
    Ok(levels.iter().map(|level| level.share).sum::<f64>() / levels.len() as f64)
}

fn levels(
    side: &Observation,
    is_at_limit: fn(&HostSample) -> Option<bool>,
    unreadable: NotObserved,
) -> Result<Vec<Level>, NotObserved> {
    observed(side)?;
    let level = |it: &HostSample| Some(Level::new((it.from_ns, it.to_ns), is_at_limit(it)?));
    let levels: Vec<_> = side.host.iter().filter_map(level).collect();
    if levels.is_empty() { Err(unreadable) } else { Ok(levels) }
}

fn observed(side: &Observation) -> Result<(), NotObserved> {
    if side.host.is_empty() { Err(NOT_LOCAL) } else { Ok(()) }
}

fn side_mean(side: &Observation, of: impl Fn(&HostSample) -> Option<f64>) -> Option<f64> {
    let seen: Vec<f64> = side.host.iter().filter_map(of).collect();
    (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_limit(sample: HostSample) -> Option<bool> {
        cpu_at_limit(&HostSample { cores_allowed: Some(64.0), cores_idle: Some(40.0), ..sample })
    }

    fn used(cores: f64) -> HostSample {
        HostSample { cores_used: Some(cores), busiest_thread: Some(0.4), ..HostSample::default() }
    }

    #[test]
    fn whole_numbers_of_cores_are_no_limit_on_a_large_machine() {
        for cores in [1.0, 9.97, 10.0, 23.4, 24.0] {
            assert_eq!(at_limit(used(cores)), Some(false), "{cores}");
        }
    }

    #[test]
    fn one_saturated_thread_is_a_limit_however_many_cores_are_idle() {
        assert_eq!(at_limit(HostSample { busiest_thread: Some(0.98), ..used(1.1) }), Some(true));
        assert_eq!(at_limit(HostSample { busiest_thread: Some(0.90), ..used(1.1) }), Some(false));
    }

    #[test]
    fn a_full_machine_is_a_limit_if_threads_wait() {
        let full = HostSample { cores_idle: Some(0.02), cores_allowed: Some(2.0), ..used(1.2) };
        assert_eq!(cpu_at_limit(&HostSample { threads_waiting: Some(0.8), ..full }), Some(true));
        assert_eq!(cpu_at_limit(&HostSample { threads_waiting: Some(0.01), ..full }), Some(false));
        assert_eq!(cpu_at_limit(&full), Some(true), "a kernel that does not count the waits");
    }

    #[test]
    fn all_of_a_quota_in_use_is_a_limit_of_the_cpu() {
        let quota = HostSample { cores_allowed: Some(0.5), cores_idle: Some(1.5), ..used(0.48) };
        assert_eq!(cpu_at_limit(&quota), Some(true));
        assert_eq!(cpu_at_limit(&HostSample { cores_allowed: Some(0.7), ..quota }), Some(false));
    }

    fn side(sample: HostSample) -> Observation {
        Observation { host: vec![sample; 30], ..Observation::default() }
    }

    #[test]
    fn throttled_and_stolen_time_and_waits_for_memory_are_limits() {
        type Sample = fn(share: f64) -> HostSample;
        let cases: [(super::super::Check, Sample); 3] = [
            (quota, |it| HostSample { throttled: Some(it), ..HostSample::default() }),
            (stolen, |it| HostSample { stolen: Some(it), ..HostSample::default() }),
            (memory, |it| HostSample { memory_pressure: Some(it), ..HostSample::default() }),
        ];
        for (check, sample) in cases {
            let departed = |before, at| check(&side(sample(before)), &side(sample(at))).unwrap().departed;
            assert!(departed(0.0, 0.2) && !departed(0.0, 0.05) && !departed(0.19, 0.2));
        }
    }

    #[test]
    fn an_unreadable_process_is_not_checked() {
        let hidden = Observation { host: vec![HostSample::default()], ..Observation::default() };
        let reason = |side: &Observation, check: super::super::Check| check(side, side).unwrap_err();
        assert_eq!(reason(&hidden, server_cpu), THREADS_HIDDEN);
        assert_eq!((reason(&hidden, quota), reason(&hidden, stolen)), (NO_QUOTA, NO_STEAL));
        assert_eq!(reason(&hidden, memory), NO_PRESSURE);
        assert_eq!(reason(&hidden, disk), NO_DISK);
        assert_eq!(reason(&Observation::default(), memory), NOT_LOCAL);
    }

    #[test]
    fn only_the_servers_own_waits_for_the_disk_count() {
        let waits = |pressure_is_own| HostSample { io_pressure: Some(0.97), pressure_is_own, ..used(0.1) };
        assert_eq!(disk_at_limit(&waits(true)), Some(true));
        assert_eq!(disk_at_limit(&waits(false)), None);
        assert_eq!(disk_at_limit(&HostSample { disk_busy: Some(0.3), ..waits(false) }), Some(false));
    }
}
