//! Finds the bottleneck, rule by rule. Compares slow seconds with calm ones of the same rate, and the lowest
//! rate that failed with the lowest that held.
//!
//! A rule is a pure function of two observations: the baseline, the lowest rate that held, and the knee, the
//! lowest rate that failed. It finds that its resource departed from the baseline, that it did not, or that
//! the resource was not observed: an unobserved resource is never cleared. This crate contains the rules
//! about the client and the machine. The caller adds the rules about a server.

mod client;
pub mod level;
pub mod observation;
mod observed_load;
pub mod reading;
mod resources;
pub mod timing;

use plimsoll_measure::line::{Candidate, Reading, Timing, Unchecked};

pub use level::Level;
pub use observation::{Observation, SecondOfService};
pub use observed_load::{ObservedLoad, WINDOW_S_MIN};
use reading::{evidence, evidence_at_limit, evidence_in_time};
use timing::{clears, shows, timings};

/// A value that grows by this factor departs from its baseline. A value that merely follows the rate grows
/// less between a rate that holds and the knee; a scarce resource grows more.
pub const DEPARTURE: f64 = 3.0;
/// A value that reaches its limit must also have grown by this factor: a value that is as high at the baseline, where the
/// objective holds, does not limit the rate.
pub const RISE: f64 = 1.1;

/// The reason why a resource was not observed.
pub type NotObserved = &'static str;

/// The server omits the value from its status.
pub const NOT_REPORTED: NotObserved = "not reported";
/// The operating system reports the value only for local processes, and only to users who may see them.
pub const NOT_LOCAL: NotObserved = "not reported: only visible when the server runs on this machine";
/// The server was sampled too rarely, or did not answer.
pub const TOO_FEW_SAMPLES: NotObserved = "fewer than two samples of the server lie in the window";

/// Compares the baseline with the knee.
pub type Check = fn(&Observation, &Observation) -> Result<Finding, NotObserved>;
/// The times of a trial in which the resource was at its limit.
pub type Levels = fn(&Observation) -> Result<Vec<Level>, NotObserved>;

/// A rule about one resource.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The resource's name in reports.
    pub name: &'static str,
    /// Compares the baseline with the knee.
    pub check: Check,
    /// Its times at the limit within a trial. None for a resource that every slow second exhausts.
    pub levels: Option<Levels>,
    /// Whether the resource may be at its limit at some times regardless of the rate, such as a disk to which
    /// another program writes. Such times may make an interval wide.
    pub is_intermittent: bool,
    /// The rule's use for a load without a baseline.
    pub without_baseline: WithoutBaseline,
}

/// Whether a rule holds for a load without a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutBaseline {
    /// The rule compares with an idle server.
    Compared,
    /// The rule is omitted: a full resource alone means nothing.
    LeftOut,
}

impl Rule {
    /// A rule that also holds against an idle server.
    pub const fn new(name: &'static str, check: Check, levels: Levels) -> Self {
        let without_baseline = WithoutBaseline::Compared;
        Self { name, check, levels: Some(levels), is_intermittent: false, without_baseline }
    }

    /// The same rule about a resource that may be at its limit at some times regardless of the rate.
    pub const fn intermittent(self) -> Self {
        Self { is_intermittent: true, ..self }
    }
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether the resource departed from its baseline.
    pub departed: bool,
    /// The numbers behind the result.
    pub readings: Vec<Reading>,
}

/// The busiest worker's share of its core, and the CPU quota of the tool.
pub const CLIENT_CPU: Rule = Rule::new("client CPU", client::cpu, client::cpu_levels);
/// The wake error: the lateness of the tool itself.
pub const WAKE: Rule = Rule::new("wake", client::wake, client::wake_levels);
/// The round trip to the server.
pub const NETWORK: Rule = Rule {
    name: "network",
    check: client::network,
    levels: None,
    is_intermittent: false,
    without_baseline: WithoutBaseline::LeftOut,
};
/// Connections in use. A closed load uses all of them, so they mean nothing without a lower rate. A slow
/// second uses all of them too.
pub const CONNECTIONS: Rule = Rule {
    name: "connections",
    check: client::connections,
    levels: None,
    is_intermittent: false,
    without_baseline: WithoutBaseline::LeftOut,
};
/// The CPU that the server's processes may use.
pub const SERVER_CPU: Rule = Rule::new("server CPU", resources::server_cpu, resources::server_cpu_levels);
/// The CPU quotas of the server's cgroups.
pub const CPU_QUOTA: Rule = Rule::new("CPU quota", resources::quota, resources::quota_levels);
/// The CPU time that the hypervisor gives to other machines.
pub const STOLEN_CPU: Rule =
    Rule::new("stolen CPU", resources::stolen, resources::stolen_levels).intermittent();
/// The memory of the server's machine.
pub const MEMORY: Rule = Rule::new("memory", resources::memory, resources::memory_levels);
/// The disk below the server's storage.
pub const DISK: Rule = Rule::new("disk", resources::disk, resources::disk_levels).intermittent();

/// Every rule's resource, in exactly one of three lists, in the order of the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examination {
    /// Resources that limit the rate: those that explain most of the slow time first.
    pub bottlenecks: Vec<Candidate>,
    /// Resources that do not limit the rate.
    pub unmoved: Vec<Candidate>,
    /// Resources that were not observed.
    pub unchecked: Vec<Unchecked>,
}

/// Applies every rule. `baseline` is a rate well below the knee that held, `knee` the lowest rate that failed, and `trials` are all
/// judged rates. A resource is named if it explains slow seconds within the trials. Where these say nothing, because the resource
/// was at its limit in all seconds or in none, it is named if it departed from its baseline. `seed` draws the rotations.
pub fn examine(
    rules: &[Rule],
    (baseline, knee): (&Observation, &Observation),
    trials: &[&Observation],
    seed: u64,
) -> Examination {
    let mut examination = Examination::default();
    for (rule, timing) in rules.iter().zip(timings(rules, trials, seed)) {
        let name = rule.name.to_owned();
        match (rule.check)(baseline, knee) {
            Err(reason) => examination.unchecked.push(Unchecked { name, reason: reason.to_owned() }),
            Ok(finding) => {
                let is_named = is_named(finding.departed, timing.as_ref());
                let at_rates = evidence(&finding.readings, baseline.probe.rate);
                let evidence = evidence_in_time(at_rates, timing.as_ref());
                examination.add(is_named, Candidate { name, evidence, readings: finding.readings, timing });
            }
        }
    }
    // The sort keeps the order of the rules among resources that explain equally much, or nothing.
    examination.bottlenecks.sort_by(|a, b| explained(b).total_cmp(&explained(a)));
    examination
}

fn is_named(departed: bool, timing: Option<&Timing>) -> bool {
    timing.is_some_and(shows) || departed && !timing.is_some_and(clears)
}

/// The share of the slow time that a named resource explains.
fn explained(candidate: &Candidate) -> f64 {
    candidate.timing.as_ref().map_or(0.0, |timing| timing.explained)
}

/// Finds resources at their limit in a load without a lower rate for comparison: applies the rules against
/// the same server `idle`. A resource at its limit does not prove that it limits the rate.
pub fn at_limit(rules: &[Rule], idle: &Observation, load: &Observation) -> Examination {
    let mut examination = Examination::default();
    for rule in rules.iter().filter(|rule| rule.without_baseline == WithoutBaseline::Compared) {
        let name = rule.name.to_owned();
        match (rule.check)(idle, load) {
            Err(reason) => examination.unchecked.push(Unchecked { name, reason: reason.to_owned() }),
            Ok(Finding { departed, mut readings }) => {
                readings.iter_mut().for_each(|reading| reading.baseline = None);
                let evidence = evidence_at_limit(&readings);
                examination.add(departed, Candidate { name, evidence, readings, timing: None });
            }
        }
    }
    examination
}

impl Examination {
    fn add(&mut self, is_named: bool, candidate: Candidate) {
        if is_named { self.bottlenecks.push(candidate) } else { self.unmoved.push(candidate) }
    }
}

/// Whether a value departed: it reaches `limit`, and it either rose from below the limit or grew by [`DEPARTURE`].
pub fn departs(baseline: f64, knee: f64, limit: f64) -> bool {
    knee >= limit && (baseline < limit && knee >= baseline * RISE || knee >= baseline * DEPARTURE)
}
