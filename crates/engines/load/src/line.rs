//! Finds the load line: tries the rates that the search asks for, judges each window, and says what held it back.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::{Line, Probe, Stage};
use plimsoll_measure::sample::ServerSample;

use crate::beside::Beside;
use crate::engine::Second;
use crate::objective::{Objective, Window};
use crate::search::{Found, Search, Settings, Try};
use crate::suspects::{Examined, Machine, SecondOfService, Side, examine};

/// Part of a window's start that is not judged, in seconds: queues must first fill to their steady length.
pub const SETTLE_S: u64 = 1;

/// What a prober measured at one rate.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Nanoseconds from the run's start to the start of the arrivals.
    pub from_ns: u64,
    /// The seconds of the arrivals, the settling ones included, what came after the last arrival left out: with nothing in
    /// them but what the load did whose rate is searched.
    pub seconds: Vec<Second>,
    /// The same of the loads that went on beside it.
    pub beside: Vec<Beside>,
    /// Connections of the load.
    pub connections: u32,
    /// Cores that the server's process used; local servers only.
    pub server_cores: Option<f64>,
    /// Every look at the server during the arrivals, in order; its moments count from the run's start.
    pub samples: Vec<ServerSample>,
    /// Why nothing further can be measured, if that is so.
    pub over: Option<String>,
}

/// Something that can be put under constant arrivals.
pub trait Prober {
    /// Sends `attempt.rate` operations per second for [`SETTLE_S`] plus `attempt.window_s` seconds.
    ///
    /// # Errors
    /// When the load could not be sent at all.
    fn probe(&mut self, attempt: &Try) -> Result<Measured, Box<dyn std::error::Error + Send + Sync>>;

    /// Is told of each probe when it is judged.
    fn probed(&mut self, probe: &Probe);
}

/// What a search is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Quest {
    /// How to search.
    pub settings: Settings,
    /// What must hold.
    pub objective: Objective,
    /// Documents in one operation; one where the rate counts operations.
    pub documents_per_operation: f64,
    /// `documents/s` or `operations/s`.
    pub unit: String,
    /// What else runs on the machine.
    pub machine: Machine,
    /// How many searches to make; the interval spans all of them.
    pub searches: u32,
}

/// Finds the load line.
///
/// # Errors
/// What the prober says when it cannot send load at all.
pub fn find(
    quest: &Quest,
    prober: &mut impl Prober,
) -> Result<Line, Box<dyn std::error::Error + Send + Sync>> {
    let mut sides = Vec::new();
    let mut found = Vec::new();
    for _ in 0..quest.searches {
        let mut search = Search::new(quest.settings);
        let over = look(quest, prober, &mut search, &mut sides)?;
        // A search that was cut short says less than those before it.
        if over.is_none() || found.is_empty() {
            found.push(search.found());
        }
        if over.is_some() {
            return Ok(quest.conclude(sides, &found, over));
        }
    }
    Ok(quest.conclude(sides, &found, None))
}

/// Makes one search; gives why it ended before its time, if it did.
fn look(
    quest: &Quest,
    prober: &mut impl Prober,
    search: &mut Search,
    sides: &mut Vec<Side>,
) -> Result<Option<String>, Box<dyn std::error::Error + Send + Sync>> {
    while let Some(attempt) = search.next() {
        let measured = prober.probe(&attempt)?;
        if measured.over.is_some() {
            return Ok(measured.over);
        }
        let probe = quest.judge(&attempt, &measured);
        prober.probed(&probe);
        search.tell(probe.held);
        sides.push(side(probe, measured));
    }
    Ok(None)
}

impl Quest {
    fn judge(&self, attempt: &Try, measured: &Measured) -> Probe {
        let judged = measured.seconds.get(SETTLE_S as usize..).unwrap_or_default();
        let window = Window::of(judged);
        let mut reasons = self.objective.judge(&window);
        reasons.extend(measured.beside.iter().flat_map(|beside| beside.judge(&self.objective)));
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

    /// What was done, in the line's unit: documents are counted, not derived from operations.
    fn done(&self, tally: &Tally) -> f64 {
        if self.documents_per_operation > 1.0 { tally.documents as f64 } else { tally.completed() as f64 }
    }

    fn conclude(&self, sides: Vec<Side>, found: &[Found], over: Option<String>) -> Line {
        let scale = self.documents_per_operation;
        let low = lowest(found.iter().map(|it| it.low));
        let high = highest(found.iter().map(|it| it.high));
        let mut notes: Vec<String> = found.iter().flat_map(|it| it.notes.clone()).collect();
        notes.dedup();
        if let Some(reason) = &over {
            notes = vec![format!("the search ended early: {reason}")];
        }
        let Examined { held_back_by, unmoved, not_seen } =
            self.examine(&sides, high.map(|rate| rate * scale));
        Line {
            rate: low.map(|rate| rate * scale),
            low: low.map(|rate| rate * scale),
            high: high.map(|rate| rate * scale),
            confirmed: over.is_none() && found.iter().all(|it| it.notes.is_empty()),
            unit: self.unit.clone(),
            documents_per_operation: scale,
            objective: self.objective.describe(),
            bottlenecks: held_back_by,
            unmoved,
            not_seen,
            probes: sides.into_iter().map(|side| side.probe).collect(),
            notes,
            // Whoever probes knows which load it is.
            load: String::new(),
            background: Vec::new(),
        }
    }

    /// Compares the lowest rate that failed with the lowest that held; without both there is nothing to compare.
    fn examine(&self, sides: &[Side], high: Option<f64>) -> Examined {
        let by_rate = |a: &&Side, b: &&Side| a.probe.rate.total_cmp(&b.probe.rate);
        let judged = || sides.iter().filter(|side| side.probe.stage != Stage::WarmUp);
        let baseline = judged().filter(|side| side.probe.held).min_by(by_rate);
        let is_knee =
            |side: &&Side| !side.probe.held && high.is_none_or(|high| side.probe.rate >= high * 0.999);
        let knee = judged().filter(is_knee).min_by(by_rate);
        baseline.zip(knee).map(|(baseline, knee)| examine(baseline, knee, self.machine)).unwrap_or_default()
    }
}

/// What is kept of a window to compare it with another.
fn side(probe: Probe, measured: Measured) -> Side {
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
    Side { probe, samples, seconds }
}

fn service_mean_ns(second: &Second) -> f64 {
    let sums = second
        .tallies
        .iter()
        .map(|tally| (tally.service.mean() * tally.service.count() as f64, tally.service.count()));
    let (sum, count) = sums.fold((0.0, 0), |(sum, count), (more, n)| (sum + more, count + n));
    sum / count.max(1) as f64
}

/// The least of all ends; nothing if a search found none.
fn lowest(ends: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
}

/// The greatest of all ends; nothing if a search found none.
fn highest(ends: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
}
