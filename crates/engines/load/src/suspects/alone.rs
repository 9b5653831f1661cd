//! A load by itself, without a rate that held to compare it with: what stands at its limit.
//!
//! Each suspect is looked at as in a search, against an idle server: the same counters, standing still. What only shows by
//! comparison is left out. That something is at its limit does not prove that it holds the load back.

use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::{NotSeen, Probe, Suspect};
use plimsoll_measure::sample::ServerSample;

use super::reading::alone;
use super::{Examined, Machine, SUSPECTS, SecondOfService, Seen, Side};
use crate::engine::Second;

/// Whether all connections are in use says nothing of a load that is to use them all, and of an open one only beside a
/// lower rate.
const ONLY_BY_COMPARISON: [&str; 1] = ["connections"];
/// A shorter load has no level, in seconds.
pub const WINDOW_S_MIN: f64 = 3.0;

/// A load second by second, as far as that is needed here.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    whole: Tally,
    seconds: Vec<SecondOfService>,
    cpu_ns: Vec<u64>,
    length_ns: u64,
}

impl Watched {
    /// Adds a second of a phase that began `from_ns` nanoseconds after the run.
    pub fn add(&mut self, from_ns: u64, second: &Second) {
        let mut tally = Tally::default();
        second.tallies.iter().for_each(|part| tally.merge(part));
        let (from_ns, to_ns) = (from_ns + second.from_ns, from_ns + second.to_ns);
        self.seconds.push(SecondOfService { from_ns, to_ns, mean_ns: tally.service.mean() });
        self.whole.merge(&tally);
        self.cpu_ns.resize(self.cpu_ns.len().max(second.cpu_ns.len()), 0);
        self.cpu_ns.iter_mut().zip(&second.cpu_ns).for_each(|(sum, part)| *sum += part);
        self.length_ns += second.to_ns - second.from_ns;
    }

    /// How long it lasted, in seconds.
    pub fn length_s(&self) -> f64 {
        self.length_ns as f64 / 1e9
    }

    /// Completed ÷ due; one where nothing was due.
    pub fn achieved(&self) -> f64 {
        if self.whole.due == 0 { 1.0 } else { self.whole.completed() as f64 / self.whole.due as f64 }
    }

    /// What was measured, with every look at the server in the meantime and the cores that it used.
    pub fn side(&self, samples: &[ServerSample], server_cores: Option<f64>) -> Side {
        let ends = self.seconds.first().zip(self.seconds.last());
        let (from_ns, to_ns) = ends.map_or((0, 0), |(first, last)| (first.from_ns, last.to_ns));
        let inside = |sample: &&ServerSample| (from_ns..=to_ns).contains(&sample.at_ns);
        let busiest_ns = self.cpu_ns.iter().copied().max().unwrap_or(0);
        let probe = Probe {
            from_ns,
            window_s: self.length_s(),
            response_ns: self.whole.response.latency(),
            service_ns: self.whole.service.latency(),
            wake_ns: self.whole.wake.latency(),
            client_cpu: busiest_ns as f64 / self.length_ns.max(1) as f64,
            server_cores,
            ..Probe::default()
        };
        Side {
            probe,
            samples: samples.iter().filter(inside).cloned().collect(),
            seconds: self.seconds.clone(),
        }
    }
}

/// What stands at its limit in `side`, in the first list; what does not, and what could not be looked at.
pub fn at_limit(side: &Side, machine: Machine) -> Examined {
    let idle = idle(side);
    let mut examined = Examined::default();
    for (name, look) in SUSPECTS.iter().filter(|(name, _)| !ONLY_BY_COMPARISON.contains(name)) {
        match look(&idle, side, machine) {
            Err(reason) => {
                examined.not_seen.push(NotSeen { name: (*name).to_owned(), reason: reason.to_owned() });
            }
            Ok(Seen { departed, mut readings }) => {
                readings.iter_mut().for_each(|reading| reading.baseline = None);
                let suspect = Suspect { name: (*name).to_owned(), evidence: alone(&readings), readings };
                if departed { examined.held_back_by.push(suspect) } else { examined.unmoved.push(suspect) }
            }
        }
    }
    examined
}

/// The same server without a load. Operations take as long and evictions are as many, since that these are many or slow
/// can only be said beside others.
fn idle(side: &Side) -> Side {
    let probe = Probe {
        window_s: side.probe.window_s,
        service_ns: side.probe.service_ns.clone(),
        server_cores: side.probe.server_cores.map(|_| 0.0),
        ..Probe::default()
    };
    let ends = side.samples.first().zip(side.samples.last());
    let samples = ends.map(|(first, last)| {
        let evictions = last.cache_application_evictions;
        let still =
            ServerSample { at_ns: last.at_ns, cache_application_evictions: evictions, ..quiet(first) };
        vec![quiet(first), still]
    });
    Side { probe, samples: samples.unwrap_or_default(), seconds: Vec::new() }
}

/// A look at which nothing is under way: what counts stands where it stood, what measures a level is zero.
fn quiet(sample: &ServerSample) -> ServerSample {
    let none = |gauge: Option<u64>| gauge.map(|_| 0);
    ServerSample {
        cache_bytes: none(sample.cache_bytes),
        cache_dirty_bytes: none(sample.cache_dirty_bytes),
        read_tickets_out: none(sample.read_tickets_out),
        read_tickets_waiting: none(sample.read_tickets_waiting),
        write_tickets_out: none(sample.write_tickets_out),
        write_tickets_waiting: none(sample.write_tickets_waiting),
        checkpoint_running: sample.checkpoint_running.map(|_| false),
        replication_lag_ms: none(sample.replication_lag_ms),
        ..sample.clone()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::SECOND_NS;

    use super::*;

    const MACHINE: Machine = Machine { cores: 2, workers: 1 };

    /// Ten seconds of 100 operations of 20 ms a second; `change` makes of second n what the server then said.
    fn watched(cpu_ns: u64) -> Watched {
        let mut watched = Watched::default();
        for second in 0..10 {
            let mut tally = Tally { due: 100, count: 100, ..Tally::default() };
            tally.service.record_many(20_000_000, 100);
            let (from_ns, to_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
            let tallies = vec![tally];
            watched.add(0, &Second { from_ns, to_ns, tallies, cpu_ns: vec![cpu_ns], ..Second::default() });
        }
        watched
    }

    fn samples(change: impl Fn(u64, &mut ServerSample)) -> Vec<ServerSample> {
        let look = |second| {
            let mut sample = ServerSample { at_ns: second * SECOND_NS, ..ServerSample::default() };
            change(second, &mut sample);
            sample
        };
        (0..10).map(look).collect()
    }

    #[track_caller]
    fn check(
        cpu_ns: u64,
        cores: Option<f64>,
        change: impl Fn(u64, &mut ServerSample),
        names: &[&str],
    ) -> Examined {
        let examined = at_limit(&watched(cpu_ns).side(&samples(change), cores), MACHINE);
        let found: Vec<_> = examined.held_back_by.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(found, names, "{examined:?}");
        let all = [examined.held_back_by.len(), examined.unmoved.len(), examined.not_seen.len()];
        assert_eq!(all.iter().sum::<usize>(), SUSPECTS.len() - ONLY_BY_COMPARISON.len());
        examined
    }

    #[test]
    fn what_is_at_its_limit_is_named_with_its_numbers_alone() {
        let examined = check(SECOND_NS / 10, Some(1.95), |_, _| (), &["server CPU"]);
        let evidence = &examined.held_back_by[0].evidence;
        assert_eq!(evidence, "used by the server 1.95 cores, left by the load itself 1.90 cores");
        check(SECOND_NS / 100 * 97, Some(0.5), |_, _| (), &["client CPU"]);
        check(SECOND_NS / 10, Some(0.5), |_, _| (), &[]);
    }

    #[test]
    fn the_servers_counters_are_held_against_their_limits() {
        let disk =
            |ms_per_s| move |second: u64, it: &mut ServerSample| it.disk_busy_ms = Some(second * ms_per_s);
        check(0, Some(0.5), disk(980), &["disk"]);
        check(0, Some(0.5), disk(300), &[]);
        let dirty = |bytes| {
            move |_: u64, it: &mut ServerSample| {
                (it.cache_bytes_max, it.cache_bytes, it.cache_dirty_bytes) =
                    (Some(1000), Some(500), Some(bytes));
            }
        };
        check(0, Some(0.5), dirty(250), &["WiredTiger cache"]);
        check(0, Some(0.5), dirty(100), &[]);
        let syncs = |us: u64| {
            move |second: u64, it: &mut ServerSample| {
                (it.journal_syncs, it.journal_sync_us) = (Some(second * 100), Some(second * us));
            }
        };
        check(0, Some(0.5), syncs(950_000), &["journal sync"]);
        check(0, Some(0.5), syncs(100_000), &[]);
    }

    #[test]
    fn what_shows_by_comparison_only_is_not_said() {
        // A thousand pages a second may be many or few.
        let evicting = |second: u64, it: &mut ServerSample| {
            it.cache_application_evictions = Some(second * 1000);
        };
        check(0, Some(0.5), evicting, &[]);
        let examined = check(0, None, |_, _| (), &[]);
        assert!(examined.not_seen.iter().any(|it| it.name == "server CPU"), "{examined:?}");
        assert!(!examined.unmoved.iter().any(|it| it.name == "connections"));
    }

    #[test]
    fn a_load_knows_how_much_of_what_was_due_it_did() {
        let mut watched = watched(0);
        assert_eq!((watched.achieved(), watched.length_s()), (1.0, 10.0));
        let tally = Tally { due: 1_000, ..Tally::default() };
        let second = Second {
            from_ns: 10 * SECOND_NS,
            to_ns: 11 * SECOND_NS,
            tallies: vec![tally],
            ..Second::default()
        };
        watched.add(0, &second);
        assert_eq!(watched.achieved(), 0.5);
        assert_eq!(Watched::default().achieved(), 1.0);
    }
}
