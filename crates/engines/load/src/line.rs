//! Finds the load line: attempts the rates of the search, judges each window, and names the bottlenecks.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::{Line, Probe, Stage};
use plimsoll_measure::sample::ServerSample;

use crate::background_load::BackgroundLoad;
use crate::bottlenecks::{Examination, Machine, Observation, Rule, SecondOfService, examine};
use crate::objective::{Objective, Window};
use crate::search::{Attempt, Found, Search, Settings};
use crate::second::Second;

pub use crate::objective::SETTLE_S;

/// The measurements at one rate.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Nanoseconds from the run's start to the start of the arrivals.
    pub from_ns: u64,
    /// The seconds from the first arrival to the last, the settling ones included, of the searched load only.
    pub seconds: Vec<Second>,
    /// The background loads.
    pub background: Vec<BackgroundLoad>,
    /// Connections of the load.
    pub connections: u32,
    /// Cores that the server's process used; local servers only.
    pub server_cores: Option<f64>,
    /// The server samples during the arrivals, in order; their times count from the run's start.
    pub samples: Vec<ServerSample>,
    /// The reason why the search must end early, if any.
    pub over: Option<String>,
}

/// Sends a load at constant rates.
pub trait Prober {
    /// Sends `attempt.rate` operations per second for [`SETTLE_S`] plus `attempt.window_s` seconds.
    ///
    /// # Errors
    /// The load cannot be sent at all.
    fn probe(&mut self, attempt: &Attempt) -> Result<Measured, Box<dyn std::error::Error + Send + Sync>>;

    /// Receives each judged probe.
    fn probed(&mut self, probe: &Probe);
}

/// The settings of the search for a load line.
#[derive(Clone, Debug)]
pub struct LineSearch {
    /// The settings of the search.
    pub settings: Settings,
    /// The objective.
    pub objective: Objective,
    /// The rules that find bottlenecks, in the order of the report.
    pub rules: &'static [Rule],
    /// Documents in one operation; one if the rate counts operations.
    pub documents_per_operation: f64,
    /// `documents/s` or `operations/s`.
    pub unit: String,
    /// The machine that the load runs on.
    pub machine: Machine,
    /// The number of searches; the interval spans all of them.
    pub searches: u32,
}

/// Finds the load line.
///
/// # Errors
/// The prober's error when it cannot send any load.
pub fn find(
    line_search: &LineSearch,
    prober: &mut impl Prober,
) -> Result<Line, Box<dyn std::error::Error + Send + Sync>> {
    let mut observations = Vec::new();
    let mut found = Vec::new();
    for _ in 0..line_search.searches {
        let mut search = Search::new(line_search.settings);
        let over = search_once(line_search, prober, &mut search, &mut observations)?;
        // A search that ended early knows less than the earlier ones.
        if over.is_none() || found.is_empty() {
            found.push(search.found());
        }
        if over.is_some() {
            return Ok(line_search.conclude(observations, &found, over));
        }
    }
    Ok(line_search.conclude(observations, &found, None))
}

/// Runs one search; returns why it ended early, if it did.
fn search_once(
    line_search: &LineSearch,
    prober: &mut impl Prober,
    search: &mut Search,
    observations: &mut Vec<Observation>,
) -> Result<Option<String>, Box<dyn std::error::Error + Send + Sync>> {
    while let Some(attempt) = search.next() {
        let measured = prober.probe(&attempt)?;
        if measured.over.is_some() {
            return Ok(measured.over);
        }
        let probe = line_search.judge(&attempt, &measured);
        prober.probed(&probe);
        search.record(probe.held);
        observations.push(observation(probe, measured));
    }
    Ok(None)
}

impl LineSearch {
    fn judge(&self, attempt: &Attempt, measured: &Measured) -> Probe {
        let judged = measured.seconds.get(SETTLE_S as usize..).unwrap_or_default();
        let window = Window::of(judged);
        let mut reasons = self.objective.judge(&window);
        reasons.extend(measured.background.iter().flat_map(|load| load.judge(&self.objective)));
        let tally = &window.tally;
        let busy_ns = tally.service.mean() * tally.service.count() as f64;
        let documents = self.documents_per_operation;
        Probe {
            stage: attempt.stage,
            from_ns: measured.from_ns,
            window_s: window.length_s,
            rate: attempt.rate * documents,
            achieved: self.done(tally) / window.length_s.max(f64::MIN_POSITIVE),
            achieved_ratio: window.achieved(),
            response_ns: tally.response.latency(),
            service_ns: tally.service.latency(),
            wake_ns: tally.wake.latency(),
            wait_ns: tally.wait.latency(),
            errors: tally.errors.total(),
            client_cpu: window.client_cpu,
            server_cores: measured.server_cores,
            connections_busy: busy_ns / (window.length_s * 1e9 * f64::from(measured.connections)).max(1.0),
            held: reasons.is_empty(),
            reasons,
        }
    }

    /// The completed work in the line's unit: documents are counted, not derived from operations.
    fn done(&self, tally: &Tally) -> f64 {
        if self.documents_per_operation > 1.0 { tally.documents as f64 } else { tally.completed() as f64 }
    }

    fn conclude(&self, observations: Vec<Observation>, found: &[Found], over: Option<String>) -> Line {
        let scale = self.documents_per_operation;
        let low = lowest(found.iter().map(|it| it.low));
        let high = highest(found.iter().map(|it| it.high));
        let mut notes: Vec<String> = found.iter().flat_map(|it| it.notes.clone()).collect();
        notes.dedup();
        if let Some(reason) = &over {
            notes = vec![format!("the search ended early: {reason}")];
        }
        let Examination { bottlenecks, unmoved, unchecked } =
            self.examine(&observations, high.map(|rate| rate * scale));
        Line {
            rate: low.map(|rate| rate * scale),
            low: low.map(|rate| rate * scale),
            high: high.map(|rate| rate * scale),
            confirmed: over.is_none() && found.iter().all(|it| it.notes.is_empty()),
            unit: self.unit.clone(),
            documents_per_operation: scale,
            objective: self.objective.describe(),
            bottlenecks,
            unmoved,
            unchecked,
            probes: observations.into_iter().map(|observation| observation.probe).collect(),
            notes,
            // The prober knows the name of the load.
            load: String::new(),
            background: Vec::new(),
        }
    }

    /// Compares the lowest rate that failed with the lowest that held, if both exist.
    fn examine(&self, observations: &[Observation], high: Option<f64>) -> Examination {
        let by_rate = |a: &&Observation, b: &&Observation| a.probe.rate.total_cmp(&b.probe.rate);
        let judged = || observations.iter().filter(|it| it.probe.stage != Stage::WarmUp);
        let baseline = judged().filter(|it| it.probe.held).min_by(by_rate);
        let is_knee =
            |it: &&Observation| !it.probe.held && high.is_none_or(|high| it.probe.rate >= high * 0.999);
        let knee = judged().filter(is_knee).min_by(by_rate);
        let pair = baseline.zip(knee);
        pair.map(|(baseline, knee)| examine(self.rules, baseline, knee, self.machine)).unwrap_or_default()
    }
}

/// Keeps the values of a window that the rules need.
fn observation(probe: Probe, measured: Measured) -> Observation {
    let from_ns = measured.from_ns;
    let judged = measured.seconds.get(SETTLE_S as usize..).unwrap_or_default();
    let seconds = judged.iter().map(|second| SecondOfService {
        from_ns: from_ns + second.from_ns,
        to_ns: from_ns + second.to_ns,
        mean_ns: service_mean_ns(second),
    });
    let seconds: Vec<_> = seconds.collect();
    let window = from_ns + SETTLE_S * SECOND_NS..=seconds.last().map_or(from_ns, |second| second.to_ns);
    let mut samples = measured.samples;
    samples.retain(|sample| window.contains(&sample.at_ns));
    Observation { probe, samples, seconds }
}

fn service_mean_ns(second: &Second) -> f64 {
    let sums = second
        .tallies
        .iter()
        .map(|tally| (tally.service.mean() * tally.service.count() as f64, tally.service.count()));
    let (sum, count) = sums.fold((0.0, 0), |(sum, count), (more, n)| (sum + more, count + n));
    sum / count.max(1) as f64
}

/// The lowest end; none if a search found none.
fn lowest(ends: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
}

/// The highest end; none if a search found none.
fn highest(ends: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
}
