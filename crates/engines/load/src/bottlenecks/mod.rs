//! Finds the bottleneck: compares the lowest rate that failed with the lowest that held, rule by rule.
//!
//! A rule is a pure function of two observations: the baseline, the lowest rate that held, and the knee, the
//! lowest rate that failed. It finds that its resource departed from the baseline, that it did not, or that
//! the resource was not observed: an unobserved resource is never cleared. This crate contains the rules
//! about the client and the machine. The caller adds the rules about a server.

mod client;
pub mod observation;
mod observed_load;
pub mod reading;
mod resources;

use plimsoll_measure::line::{Candidate, Reading, Unchecked};

pub use observation::{Observation, SecondOfService};
pub use observed_load::{ObservedLoad, WINDOW_S_MIN};
use reading::{evidence, evidence_at_limit};

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

/// The machine that the load runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Cores that the server may use.
    pub cores: u32,
    /// Worker threads of the load.
    pub workers: u32,
}

/// A rule about one resource.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The resource's name in reports.
    pub name: &'static str,
    /// Compares the baseline with the knee.
    pub check: fn(&Observation, &Observation, Machine) -> Result<Finding, NotObserved>,
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
    pub const fn new(
        name: &'static str,
        check: fn(&Observation, &Observation, Machine) -> Result<Finding, NotObserved>,
    ) -> Self {
        Self { name, check, without_baseline: WithoutBaseline::Compared }
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

/// The busiest worker's share of its core.
pub const CLIENT_CPU: Rule = Rule::new("client CPU", client::cpu);
/// The delay between the due time and the moment when the tool notices it.
pub const WAKE: Rule = Rule::new("wake", client::wake);
/// Connections in use. A closed load uses all of them, so they mean nothing without a lower rate.
pub const CONNECTIONS: Rule =
    Rule { name: "connections", check: client::connections, without_baseline: WithoutBaseline::LeftOut };
/// Cores that the server's process uses.
pub const SERVER_CPU: Rule = Rule::new("server CPU", resources::server_cpu);
/// The time that the server's disk is busy.
pub const DISK: Rule = Rule::new("disk", resources::disk);

/// Every rule's resource, in exactly one of three lists, in the order of the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examination {
    /// Resources that departed from their baseline.
    pub bottlenecks: Vec<Candidate>,
    /// Resources that did not.
    pub unmoved: Vec<Candidate>,
    /// Resources that were not observed.
    pub unchecked: Vec<Unchecked>,
}

impl Examination {
    fn add(
        &mut self,
        name: &str,
        finding: Result<Finding, NotObserved>,
        evidence: impl Fn(&[Reading]) -> String,
    ) {
        let name = name.to_owned();
        match finding {
            Err(reason) => self.unchecked.push(Unchecked { name, reason: reason.to_owned() }),
            Ok(Finding { departed, readings }) => {
                let resource = Candidate { name, evidence: evidence(&readings), readings };
                if departed { self.bottlenecks.push(resource) } else { self.unmoved.push(resource) }
            }
        }
    }
}

/// Applies every rule. `baseline` is a rate well below the knee that held, `knee` the lowest rate that failed.
pub fn examine(rules: &[Rule], baseline: &Observation, knee: &Observation, machine: Machine) -> Examination {
    let mut examination = Examination::default();
    for rule in rules {
        let finding = (rule.check)(baseline, knee, machine);
        examination.add(rule.name, finding, |readings| evidence(readings, baseline.probe.rate));
    }
    examination
}

/// Finds resources at their limit in a load without a lower rate for comparison: applies the rules against
/// the same server `idle`. A resource at its limit does not prove that it limits the rate.
pub fn at_limit(rules: &[Rule], idle: &Observation, load: &Observation, machine: Machine) -> Examination {
    let mut examination = Examination::default();
    for rule in rules.iter().filter(|rule| rule.without_baseline == WithoutBaseline::Compared) {
        let finding = (rule.check)(idle, load, machine).map(|mut finding| {
            finding.readings.iter_mut().for_each(|reading| reading.baseline = None);
            finding
        });
        examination.add(rule.name, finding, evidence_at_limit);
    }
    examination
}

/// Whether a value departed: it reaches `limit`, and it either rose from below the limit or grew by [`DEPARTURE`].
pub fn departs(baseline: f64, knee: f64, limit: f64) -> bool {
    knee >= limit && (baseline < limit && knee >= baseline * RISE || knee >= baseline * DEPARTURE)
}
