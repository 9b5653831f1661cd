//! Finds the load line: tries the rates of the search, judges each trial, and names the bottlenecks.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::line::{Drift, Line, Probe, Stage};
use plimsoll_measure::sample::ServerSample;

use crate::background_load::BackgroundLoad;
use crate::bottlenecks::{Examination, Observation, Rule, SecondOfService, examine};
use crate::due_second::DueSecond;
use crate::objective::{Objective, Window};
use crate::search::estimate::{CONFIDENCE, Estimate, Mixed, mixed};
use crate::search::trial::{Block, Trial};
use crate::search::{Attempt, OPERATIONS_MIN, Search, Settings};

pub use crate::objective::SETTLE_S;

mod events;

use events::lowering;

/// The excess that counts for a trial in which a background load fell behind. It is so large that the trial
/// does not hold, for any weight.
const BACKGROUND_EXCESS: f64 = 20.0;
/// The result explains an interval if its half is wider than this share of the line.
const WIDE: f64 = 0.08;
/// The rate of a soak, as a share of the line.
const SOAK: f64 = 0.9;
/// The measurements at one rate.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Nanoseconds from the run's start to the start of the arrivals.
    pub from_ns: u64,
    /// The window of the searched load.
    pub window: Window,
    /// Its operations by the second in which they were due, the settling seconds included.
    pub due: Vec<DueSecond>,
    /// The background loads.
    pub background: Vec<BackgroundLoad>,
    /// Connections of the load.
    pub connections: u32,
    /// Cores that the server's process used; local servers only.
    pub server_cores: Option<f64>,
    /// The server samples during the arrivals, in order; their times count from the run's start.
    pub samples: Vec<ServerSample>,
    /// The samples of the server's machine during the arrivals, in order; local servers only.
    pub host: Vec<HostSample>,
    /// The samples of the tool's own process during the arrivals, in order.
    pub client: Vec<HostSample>,
    /// The reason why the search must end early, if any.
    pub over: Option<String>,
}

/// Sends a load at constant rates.
pub trait Prober {
    /// Sends `attempt.rate` operations per second for [`SETTLE_S`] plus `attempt.window_s` seconds, and waits for their answers.
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
    /// The length of the soak after the search, in whole seconds; `None`: there is none.
    pub soak_s: Option<u64>,
}

/// Finds the load line.
///
/// # Errors
/// The prober's error when it cannot send any load.
pub fn find(
    line_search: &LineSearch,
    prober: &mut impl Prober,
) -> Result<Line, Box<dyn std::error::Error + Send + Sync>> {
    let (mut search, mut observations) = (Search::new(line_search.settings), Vec::new());
    while let Some(attempt) = search.next() {
        let measured = prober.probe(&attempt)?;
        if measured.over.is_some() {
            return Ok(line_search.conclude(observations, &search, measured.over));
        }
        let (probe, trial) = line_search.judge(&attempt, &measured);
        prober.probed(&probe);
        observations.push(observation(probe, measured, &trial));
        search.record(&attempt, trial);
    }
    let Some(attempt) = line_search.soak(&search) else {
        return Ok(line_search.conclude(observations, &search, None));
    };
    let measured = prober.probe(&attempt)?;
    if measured.over.is_some() {
        // A soak that was cut short says nothing about its whole time.
        return Ok(line_search.conclude(observations, &search, measured.over));
    }
    let (probe, _) = line_search.judge(&attempt, &measured);
    prober.probed(&probe);
    Ok(Line { soak: Some(probe), ..line_search.conclude(observations, &search, None) })
}

impl LineSearch {
    /// The load after the search: long, just below the line.
    fn soak(&self, search: &Search) -> Option<Attempt> {
        let (rate, soak_s) = search.estimate().map(|found| found.rate).zip(self.soak_s)?;
        Some(Attempt { stage: Stage::Soak, rate: rate * SOAK, window_s: soak_s as f64 })
    }

    /// Judges a trial: its excess over each bound, then over the rate itself, then of the background loads.
    fn judge(&self, attempt: &Attempt, measured: &Measured) -> (Probe, Trial) {
        let due: Vec<_> = measured.due.iter().filter(|second| second.index >= SETTLE_S).cloned().collect();
        let window = &measured.window;
        let background: Vec<String> =
            measured.background.iter().flat_map(|load| load.judge(&self.objective)).collect();
        let fell_behind = if background.is_empty() { 0.0 } else { BACKGROUND_EXCESS };
        let block = |second: &DueSecond| {
            let at = (second.index - SETTLE_S) as usize;
            let own = [window.behind.get(at).copied().unwrap_or(0.0), fell_behind];
            let bounds = self.objective.excess(second, attempt.window_s);
            let at_ns = measured.from_ns + second.index * SECOND_NS;
            Block { at_ns, excess: bounds.into_iter().chain(own).collect() }
        };
        let blocks = due.iter().map(block).collect();
        let mut trial = Trial { rate: attempt.rate, blocks, is_slow_throughout: false };
        if attempt.stage == Stage::Soak {
            trial.blocks = self.soak_block(&trial, &due).into_iter().collect();
        }
        let bounds = self.objective.bounds.len();
        let means: Vec<f64> = (0..bounds).map(|bound| trial.mean(bound)).collect();
        let mut reasons = self.objective.reasons(&means, &due, window);
        trial.is_slow_throughout = trial.mean(bounds) < 1.0 && are_all_slow(&due);
        // A broken bound says more than a rate that was not reached because of it.
        let is_only_late = reasons.is_empty() && trial.mean(bounds) >= 1.0;
        reasons.extend(is_only_late.then(|| window.not_reached()));
        reasons.extend(background);
        (self.probe(attempt, measured, &trial, reasons), trial)
    }

    /// The whole time of a soak as one block. A search asks how often a second breaks a bound, and allows an error or a latency
    /// over `max` in some seconds; a soak asks whether the objective held.
    fn soak_block(&self, trial: &Trial, due: &[DueSecond]) -> Option<Block> {
        let at_ns = trial.blocks.first()?.at_ns;
        let mut whole = DueSecond::default();
        due.iter().for_each(|second| whole.merge(second));
        // The counts are those of the whole window, so a count of errors applies to them as it is.
        let bounds = self.objective.excess(&whole, 1.0);
        let own = (bounds.len()..trial.bounds()).map(|bound| trial.mean(bound));
        Some(Block { at_ns, excess: bounds.iter().copied().chain(own).collect() })
    }

    fn probe(&self, attempt: &Attempt, measured: &Measured, trial: &Trial, reasons: Vec<String>) -> Probe {
        let window = &measured.window;
        let tally = &window.tally;
        let busy_ns = tally.service.mean() * tally.service.count() as f64;
        Probe {
            stage: attempt.stage,
            from_ns: measured.from_ns,
            window_s: window.length_s(),
            rate: attempt.rate * self.documents_per_operation,
            achieved: self.done(tally) / window.length_s().max(f64::MIN_POSITIVE),
            achieved_ratio: window.achieved(),
            response_ns: tally.response.latency(),
            service_ns: tally.service.latency(),
            wake_ns: tally.wake.latency(),
            wait_ns: tally.wait.latency(),
            errors: tally.errors.total(),
            client_cpu: window.client_cpu(),
            server_cores: measured.server_cores,
            connections_busy: busy_ns / (window.length_s() * 1e9 * f64::from(measured.connections)).max(1.0),
            excess: Some(trial.excess()),
            held: trial.held(),
            reasons,
        }
    }

    /// The completed work in the line's unit: documents are counted, not derived from operations.
    fn done(&self, tally: &Tally) -> f64 {
        if self.documents_per_operation > 1.0 { tally.documents as f64 } else { tally.completed() as f64 }
    }

    fn conclude(&self, observations: Vec<Observation>, search: &Search, over: Option<String>) -> Line {
        let scale = self.documents_per_operation;
        let found = search.estimate();
        let mut notes: Vec<String> =
            over.map(|reason| format!("the search ended early: {reason}")).into_iter().collect();
        notes.extend(self.notes(&observations, search, found));
        let Examination { bottlenecks, unmoved, unchecked } = self.examine(&observations, found);
        Line {
            rate: found.map(|it| it.rate * scale),
            low: found.map(|it| it.low * scale),
            high: found.and_then(|it| it.high).map(|rate| rate * scale),
            confidence: Some(CONFIDENCE),
            confirmed: None,
            drift: search.drift().map(|(first, second)| Drift {
                first: first * scale,
                second: second * scale,
                ..Drift::default()
            }),
            unit: self.unit.clone(),
            documents_per_operation: scale,
            objective: self.objective.describe(),
            bottlenecks,
            unmoved,
            unchecked,
            probes: observations.into_iter().map(|observation| observation.probe).collect(),
            notes,
            soak: None,
            // The prober knows the load and its arrivals.
            arrivals: None,
            load: String::new(),
            background: Vec::new(),
        }
    }

    /// Compares slow with calm seconds of all trials, and the lowest rate that failed, at the load line or above, with the lowest
    /// that held, if both exist.
    fn examine(&self, observations: &[Observation], found: Option<Estimate>) -> Examination {
        let by_rate = |a: &&&Observation, b: &&&Observation| a.probe.rate.total_cmp(&b.probe.rate);
        let line = found.map_or(0.0, |found| found.rate * self.documents_per_operation);
        let judged: Vec<_> = observations.iter().filter(|it| it.probe.stage != Stage::WarmUp).collect();
        let baseline = judged.iter().filter(|it| it.probe.held).min_by(by_rate);
        let knee = judged.iter().filter(|it| !it.probe.held && it.probe.rate >= line).min_by(by_rate);
        let Some((baseline, knee)) = baseline.zip(knee) else { return Examination::default() };
        examine(self.rules, (baseline, knee), &judged, self.settings.seed)
    }

    /// Explains a line that was not found, and a wide interval, in sentences.
    fn notes(&self, observations: &[Observation], search: &Search, found: Option<Estimate>) -> Vec<String> {
        let trials = search.trials();
        let Some(found) = found else { return nothing_held(search).into_iter().collect() };
        let Some(high) = found.high else { return Vec::new() };
        let is_wide = high / found.low > (1.0 + WIDE) * (1.0 + WIDE);
        if !is_wide {
            return self.lowered(observations, search, found).into_iter().collect();
        }
        let cause = self
            .lowered(observations, search, found)
            .or_else(|| mixed(trials).map(|it| self.alternating(it)));
        vec![cause.unwrap_or_else(|| unexplained(search))]
    }

    fn alternating(&self, Mixed { low, high, .. }: Mixed) -> String {
        format!(
            "the interval is wide because trials held and failed in turns from {} to {}: events, and not only the rate, \
             decide there; a larger --budget narrows it",
            self.rate(low),
            self.rate(high)
        )
    }

    /// The events that lowered the line most, if any did.
    fn lowered(&self, observations: &[Observation], search: &Search, found: Estimate) -> Option<String> {
        let events = events::all(observations, self.rules);
        let most = lowering(&events, search.trials(), found, self.settings.seed)?;
        let (between, failed) = (self.rate(most.between), self.rate(most.failed));
        Some(format!("{}: between them {between} holds, during them {failed} failed", most.events))
    }

    /// A rate of operations in the line's unit.
    fn rate(&self, operations: f64) -> String {
        let digits = format!("{:.0}", operations * self.documents_per_operation);
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        format!("{text} {}", self.unit)
    }
}

/// Whether all due operations succeeded, and all exceeded a limit. Few operations may be slow by chance.
fn are_all_slow(due: &[DueSecond]) -> bool {
    let mut whole = DueSecond::default();
    due.iter().for_each(|second| whole.merge(second));
    whole.due as f64 >= OPERATIONS_MIN
        && whole.not_answered() == 0
        && (0..whole.over.len()).any(|limit| whole.over(limit) == whole.due)
}

fn nothing_held(search: &Search) -> Option<String> {
    let lowest = search.trials().iter().map(|trial| trial.rate).reduce(f64::min)?;
    let why = if search.is_slow_at_two_rates() {
        "; the system reached two rates at which every operation exceeded a bound, so lower rates were not tried"
    } else {
        ""
    };
    Some(format!("no rate held, down to {lowest:.1} operations/s{why}"))
}

/// The sentence about a wide interval that no event explains.
fn unexplained(search: &Search) -> String {
    let cause = match search.drift() {
        Some(_) => "the line moved during the search".to_owned(),
        None => format!("{} trials say no more", search.trials().len()),
    };
    format!("the interval is wide because {cause}; a larger --budget narrows it")
}

/// Keeps the values of a window that the rules need. A second is slow if its due operations broke a bound.
fn observation(probe: Probe, measured: Measured, trial: &Trial) -> Observation {
    let from_ns = measured.from_ns;
    // A second without due operations has no block.
    let is_slow = |index: usize| {
        let at_ns = from_ns + (SETTLE_S + index as u64) * SECOND_NS;
        let mut of = trial.blocks.iter().filter(|block| block.at_ns == at_ns);
        of.any(|block| block.excess.iter().any(|excess| *excess >= 1.0))
    };
    let seconds = measured.window.seconds.iter().enumerate();
    let seconds: Vec<_> = seconds
        .map(|(index, second)| SecondOfService { is_slow: is_slow(index), ..second.since(from_ns) })
        .collect();
    let (from_ns, to_ns) =
        (from_ns + SETTLE_S * SECOND_NS, seconds.last().map_or(from_ns, |second| second.to_ns));
    let (mut samples, mut host, mut client) = (measured.samples, measured.host, measured.client);
    samples.retain(|sample| (from_ns..=to_ns).contains(&sample.at_ns));
    let is_within = |sample: &HostSample| sample.from_ns >= from_ns && sample.to_ns <= to_ns;
    host.retain(is_within);
    client.retain(is_within);
    Observation { probe, samples, host, client, seconds }
}
