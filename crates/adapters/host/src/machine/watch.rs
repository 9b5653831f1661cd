//! Watches how a server's processes use their machine: CPUs, quotas, memory and disk.

use std::collections::HashMap;

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::host_sample::HostSample;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::cgroup::Cgroup;
use super::cpu::{CpuTime, cpu_time};
use super::pressure::Pressure;
use super::{Disk, read};
use crate::process::{ThreadTime, storage, threads};

/// The most CPUs in an affinity mask.
const CPUS_MAX: usize = CpuSet::MAX_CPU;

/// Reads the kernel's counters about some processes of one server. Reads only files; asks no server.
#[derive(Debug)]
pub struct HostWatch {
    pids: Vec<u32>,
    cgroup: Cgroup,
    pressure: Pressure,
    disk: Option<Disk>,
    ticks_per_s: u64,
    last: Option<Counters>,
}

/// The counters at one moment. Unreadable counters are absent.
#[derive(Clone, Debug, Default)]
struct Counters {
    at_ns: u64,
    threads: Option<HashMap<(u32, u32), ThreadTime>>,
    cpus: Option<CpuTime>,
    /// The number of CPUs in the affinity mask.
    affinity: Option<usize>,
    quota_cores: Option<f64>,
    throttled_ns: Option<u64>,
    pressure_is_own: bool,
    /// Microseconds in which some task waited: for CPUs, for input and output, for memory.
    pressure_us: [Option<u64>; 3],
    disk_busy_ms: Option<u64>,
}

impl HostWatch {
    /// Watches these processes of this machine, and the cgroup of the first; none without a process.
    pub fn of(pids: &[u32]) -> Option<Self> {
        let cgroup = Cgroup::of(*pids.first()?);
        Some(Self {
            pids: pids.to_vec(),
            pressure: Pressure::of(cgroup.unified()),
            cgroup,
            disk: pids.iter().find_map(|pid| Disk::below(&storage(*pid)?)),
            ticks_per_s: rustix::param::clock_ticks_per_second(),
            last: None,
        })
    }

    /// The use since the last call; none at the first call. `at_ns` counts from the run's start.
    pub fn look(&mut self, at_ns: u64) -> Option<HostSample> {
        let now = self.counters(at_ns);
        let sample = self.last.as_ref().map(|last| between(last, &now));
        self.last = Some(now);
        sample.filter(|sample| sample.to_ns > sample.from_ns)
    }

    fn counters(&self, at_ns: u64) -> Counters {
        let affinity = affinity(&self.pids);
        let cpus = affinity.as_ref().and_then(|set| cpu_time(&read("/proc/stat")?, |cpu| includes(set, cpu)));
        Counters {
            at_ns,
            threads: self.threads(),
            cpus,
            affinity: affinity.map(|set| set.count() as usize),
            quota_cores: self.cgroup.quota_cores(),
            throttled_ns: self.cgroup.throttled_ns(),
            pressure_is_own: self.pressure.is_own(),
            pressure_us: self.pressure.some_us(),
            disk_busy_ms: self.disk.as_ref().and_then(Disk::busy_ms),
        }
    }

    fn threads(&self) -> Option<HashMap<(u32, u32), ThreadTime>> {
        let of = |pid: &u32| Some((*pid, threads(*pid, self.ticks_per_s)?));
        let all = self.pids.iter().filter_map(of);
        let all: HashMap<_, _> =
            all.flat_map(|(pid, it)| it.into_iter().map(move |(id, time)| ((pid, id), time))).collect();
        (!all.is_empty()).then_some(all)
    }
}

/// The CPUs that at least one of the processes may use.
fn affinity(pids: &[u32]) -> Option<CpuSet> {
    let of = |pid: &u32| sched_getaffinity(Pid::from_raw(i32::try_from(*pid).ok()?)).ok();
    pids.iter().filter_map(of).reduce(|mut all, set| {
        (0..CPUS_MAX).filter(|cpu| set.is_set(*cpu)).for_each(|cpu| all.set(cpu));
        all
    })
}

fn includes(set: &CpuSet, cpu: usize) -> bool {
    cpu < CPUS_MAX && set.is_set(cpu)
}

/// The use between two moments.
fn between(before: &Counters, after: &Counters) -> HostSample {
    let length_ns = after.at_ns.saturating_sub(before.at_ns);
    // The growth of a counter with the unit `unit_ns`, as a share of the time.
    let share = |before: Option<u64>, after: Option<u64>, unit_ns: u64| {
        let ns = after?.saturating_sub(before?).saturating_mul(unit_ns);
        Some((ns as f64 / length_ns.max(1) as f64).min(1.0))
    };
    let pressure = |index: usize| share(before.pressure_us[index], after.pressure_us[index], 1_000);
    let threads = thread_use(before, after, length_ns);
    let [idle, stolen] = cpu_shares(before, after).map_or([None; 2], |shares| shares.map(Some));
    let cpus = after.affinity.map(|count| count as f64);
    HostSample {
        from_ns: before.at_ns,
        to_ns: after.at_ns,
        cores_used: threads.map(|it| it.used),
        busiest_thread: threads.map(|it| it.busiest),
        threads_waiting: threads.and_then(|it| it.waiting),
        cores_allowed: cpus.map(|cpus| after.quota_cores.map_or(cpus, |quota| quota.min(cpus))),
        cores_idle: idle.zip(cpus).map(|(share, cpus)| share * cpus),
        stolen,
        throttled: share(before.throttled_ns, after.throttled_ns, 1),
        pressure_is_own: after.pressure_is_own,
        cpu_pressure: pressure(0),
        io_pressure: pressure(1),
        memory_pressure: pressure(2),
        disk_busy: share(before.disk_busy_ms, after.disk_busy_ms, SECOND_NS / 1_000),
    }
}

/// The cores that all threads used, the cores that the busiest thread used, and the mean number of waiting threads.
#[derive(Clone, Copy)]
struct ThreadUse {
    used: f64,
    busiest: f64,
    waiting: Option<f64>,
}

fn thread_use(before: &Counters, after: &Counters, length_ns: u64) -> Option<ThreadUse> {
    let (earlier, later) = (before.threads.as_ref()?, after.threads.as_ref()?);
    let mut sum = ThreadUse { used: 0.0, busiest: 0.0, waiting: None };
    for (id, now) in later {
        // A thread without an earlier reading is new, or was not read. Its whole time may be longer than this
        // interval.
        let then = earlier.get(id).copied().unwrap_or(ThreadTime { ran_ns: 0, waited_ns: Some(0) });
        let share = |before: u64, after: u64| {
            after.saturating_sub(before).min(length_ns) as f64 / length_ns.max(1) as f64
        };
        let ran = share(then.ran_ns, now.ran_ns);
        sum.used += ran;
        sum.busiest = sum.busiest.max(ran);
        let waited = then.waited_ns.zip(now.waited_ns).map(|(before, after)| share(before, after));
        sum.waiting = waited.map(|waited| waited + sum.waiting.unwrap_or(0.0)).or(sum.waiting);
    }
    Some(sum)
}

/// The idle and the stolen share of the CPUs' time.
fn cpu_shares(before: &Counters, after: &Counters) -> Option<[f64; 2]> {
    let (before, after) = (before.cpus?, after.cpus?);
    let total = after.total.saturating_sub(before.total);
    let share = |before: u64, after: u64| after.saturating_sub(before) as f64 / total as f64;
    (total > 0).then(|| [share(before.idle, after.idle), share(before.stolen, after.stolen)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH_NS: u64 = SECOND_NS / 10;

    fn thread(ran_ms: u64, waited_ms: u64) -> ThreadTime {
        ThreadTime { ran_ns: ran_ms * 1_000_000, waited_ns: Some(waited_ms * 1_000_000) }
    }

    fn threads<const N: usize>(of: [(u32, ThreadTime); N]) -> Option<HashMap<(u32, u32), ThreadTime>> {
        Some(of.into_iter().map(|(id, time)| ((1, id), time)).collect())
    }

    #[test]
    fn one_saturated_thread_shows_among_idle_ones() {
        let before =
            Counters { threads: threads([(1, thread(50, 0)), (2, thread(10, 5))]), ..Counters::default() };
        let after = Counters {
            at_ns: TENTH_NS,
            threads: threads([(1, thread(148, 0)), (2, thread(10, 25)), (3, thread(12, 0))]),
            ..Counters::default()
        };
        let sample = between(&before, &after);
        let rounded = |value: Option<f64>| value.map(|value| (value * 100.0).round() / 100.0);
        assert_eq!(rounded(sample.busiest_thread), Some(0.98));
        assert_eq!(rounded(sample.cores_used), Some(1.1));
        assert_eq!(rounded(sample.threads_waiting), Some(0.2));
        let unread = Counters { threads: threads([(4, thread(60_000, 0))]), ..after.clone() };
        assert_eq!(
            between(&before, &unread).busiest_thread,
            Some(1.0),
            "an old thread that was not read before"
        );
    }

    #[test]
    fn shares_are_of_the_time_between_the_readings() {
        let before = Counters {
            cpus: Some(CpuTime { idle: 100, stolen: 5, total: 1000 }),
            throttled_ns: Some(7),
            pressure_us: [Some(1), None, Some(5)],
            disk_busy_ms: Some(10),
            ..Counters::default()
        };
        let after = Counters {
            at_ns: TENTH_NS,
            cpus: Some(CpuTime { idle: 110, stolen: 6, total: 1040 }),
            affinity: Some(4),
            quota_cores: Some(1.5),
            throttled_ns: Some(7 + TENTH_NS / 2),
            pressure_us: [Some(25_001), Some(3), Some(5)],
            disk_busy_ms: Some(115),
            ..Counters::default()
        };
        let expected = HostSample {
            to_ns: TENTH_NS,
            cores_allowed: Some(1.5),
            cores_idle: Some(1.0),
            stolen: Some(0.025),
            throttled: Some(0.5),
            cpu_pressure: Some(0.25),
            memory_pressure: Some(0.0),
            disk_busy: Some(1.0),
            ..HostSample::default()
        };
        assert_eq!(between(&before, &after), expected);
    }

    #[test]
    fn this_process_can_be_watched_and_no_process_cannot() {
        assert!(HostWatch::of(&[]).is_none());
        let mut watch = HostWatch::of(&[std::process::id()]).unwrap();
        assert_eq!(watch.look(0), None);
        let sample = watch.look(TENTH_NS).unwrap();
        assert!(sample.cores_used.is_some() && sample.cores_allowed >= Some(0.01), "{sample:?}");
        let mut ended = HostWatch::of(&[5_000_000]).unwrap();
        assert_eq!(ended.look(0), None);
        assert_eq!(ended.look(TENTH_NS).unwrap().cores_used, None);
    }
}
