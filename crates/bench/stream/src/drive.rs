//! Runs a pipeline and samples its counters once a second, for terminal, directory and Prometheus alike.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::stream::{FORMAT, Moved, Process, Second, Stage, Stream};
use plimsoll_pipeline::flow::Budget;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter, Stages};
use plimsoll_pipeline::{Control, Ended, Error, SourceError};
use plimsoll_report::stream::{Labels, Scrape, exposition, line, trouble};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior};

use super::build::{Built, TakeProduced};
use super::completion::{Activity, End};
use super::dir::Dir;
use super::metrics::{self, MetricsPage};
use super::recent::RecentTimes;
use plimsoll_run::console::Console;
use plimsoll_run::signals::{Asked, Signals};

/// The interval at which movement and the end condition are checked.
const ACTIVITY_EVERY: Duration = Duration::from_millis(20);
/// The time limit of an abort, in nanoseconds: threads notice it when their current call returns, which may
/// take some time.
const ABORT_LIMIT_NS: u64 = 3 * clock::SECOND_NS;

/// The outputs and the end of a running pipeline.
pub struct Outputs<'a> {
    /// The directory.
    pub dir: &'a mut Dir,
    /// The address for Prometheus.
    pub listen: Option<SocketAddr>,
    /// The console for messages.
    pub console: &'static dyn Console,
    /// Whether to print a line each second.
    pub lines: bool,
    /// The limits that end it.
    pub end: End,
}

/// Runs a pipeline to its end; returns its summary, and the error that ended it, if any. The first signal
/// lets it finish its events in flight; the second aborts it.
///
/// # Errors
/// An output fails: the address is taken, or the directory cannot be written.
pub fn drive(
    mut built: Built,
    started_ms: u64,
    mut outputs: Outputs<'_>,
) -> anyhow::Result<(Stream, Option<Error>)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let page = MetricsPage::default();
    let mut watch = Watch::new(&mut built, page.clone(), started_ms, outputs.console);
    let (ended, over) = oneshot::channel();
    let Built { pipeline, control, guarantee, path, labels, .. } = built;
    let ended = runtime.block_on(async {
        if let Some(address) = outputs.listen {
            let bound = metrics::serve(address, page).await?;
            outputs.console.say(&format!("metrics at http://{bound}/metrics"));
        }
        let thread = std::thread::Builder::new().name("pipeline".into());
        thread.spawn(move || drop(ended.send(pipeline.run()))).context("start the pipeline")?;
        watch_until_end(&mut watch, &control, over, &mut outputs).await
    })?;
    let undone = ended.is_none().then(|| watch.abandon(guarantee));
    watch.sample(outputs.dir, false)?;
    if outputs.lines {
        watch.print_notes();
    }
    let moved = watch.moved();
    let ended = ended.map(|ended| ended.and_then(|ended| watch.refuse_unread(ended)));
    let (word, failure) = match ended {
        None | Some(Ok(Ended::Aborted)) => ("aborted", None),
        Some(Ok(Ended::Exhausted)) => ("exhausted", None),
        Some(Ok(Ended::Drained)) if watch.finished => ("finished", None),
        Some(Ok(Ended::Drained)) => ("drained", None),
        Some(Err(error)) => ("failed", Some(error)),
    };
    let mut stream = Stream {
        format: FORMAT,
        name: labels.pipeline,
        guarantee: guarantee.to_string(),
        path,
        ended: word.into(),
        failure: failure.as_ref().map(Error::to_string).or(undone),
        notes: watch.meter.notes(),
        started_ms,
        version: env!("CARGO_PKG_VERSION").into(),
        moved,
        last: watch.whole(),
    };
    if stream.is_fruitless() {
        stream.failure = Some(fruitless(stream.last.count(Count::DeadLettered)));
    }
    Ok((stream, failure))
}

/// The reason for the failure of a pipeline whose events are all dead letters.
fn fruitless(dead_letters: u64) -> String {
    format!("no event succeeded: all {dead_letters} became dead letters; each says why")
}

/// Samples a pipeline until it has ended. Returns `None` if an aborted pipeline's threads did not end in time:
/// they end with the process.
async fn watch_until_end(
    watch: &mut Watch,
    control: &Control,
    mut over: oneshot::Receiver<Result<Ended, Error>>,
    outputs: &mut Outputs<'_>,
) -> anyhow::Result<Option<Result<Ended, Error>>> {
    let mut signals = Signals::listen().context("listen to signals")?;
    let (mut tick, mut activity_tick) = (interval(Duration::from_secs(1)), interval(ACTIVITY_EVERY));
    tick.tick().await;
    let (mut output_error, mut leave_at, mut asks) = (None, None, 0_u32);
    let ended = loop {
        tokio::select! {
            result = &mut over => break Some(result.map_err(|_| anyhow!("the pipeline's thread ended without a result"))?),
            _ = tick.tick(), if output_error.is_none() => if let Err(error) = watch.sample(outputs.dir, outputs.lines) {
                // The output has failed, but events in flight are still written.
                control.drain();
                output_error = Some(error);
            },
            _ = activity_tick.tick() => watch.follow(control, outputs.end),
            asked = signals.next() => {
                asks = asks.saturating_add(1);
                if interrupt(control, asked, asks, outputs.console) == Ending::Aborting {
                    leave_at.get_or_insert_with(|| clock::now() + ABORT_LIMIT_NS);
                }
            }
        }
        if leave_at.is_some_and(|at| clock::now() >= at) {
            break None;
        }
    };
    output_error.map_or(Ok(ended), Err)
}

/// Ticks that are not repeated after a stall: several samples at once would show rates over zero time.
fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The way in which a stopped pipeline ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Draining,
    Aborting,
}

/// Handles a signal. The first signal never aborts, even if the pipeline is already ending: a supervisor
/// sends one to every process.
fn interrupt(control: &Control, asked: Asked, asks: u32, console: &dyn Console) -> Ending {
    if asks > 1 {
        control.abort();
        return Ending::Aborting;
    }
    console.say(stop_message(asked));
    control.drain();
    Ending::Draining
}

/// The message for a stop request.
const fn stop_message(asked: Asked) -> &'static str {
    match asked {
        Asked::AtTerminal => "finishing the events in flight; press Ctrl-C again to abort",
        Asked::ByProgram => "finishing the events in flight",
    }
}

/// Samples a pipeline once a second.
struct Watch {
    console: &'static dyn Console,
    meter: Arc<Meter>,
    budget: Arc<Budget>,
    labels: Labels,
    page: MetricsPage,
    begun: Instant,
    started_ms: u64,
    in_flight_events_max: u64,
    whole: Stages,
    recent: RecentTimes,
    before: Second,
    activity: Activity,
    produced: Option<TakeProduced>,
    /// The number of printed notes.
    notes: usize,
    /// Whether it reached its end condition.
    finished: bool,
}

impl Watch {
    fn new(built: &mut Built, page: MetricsPage, started_ms: u64, console: &'static dyn Console) -> Self {
        let meter = built.pipeline.meter();
        Self {
            console,
            whole: Stages::new(meter.stages().len()),
            recent: RecentTimes::new(meter.stages().len()),
            meter,
            budget: built.pipeline.budget(),
            labels: built.labels.clone(),
            page,
            begun: clock::now(),
            started_ms,
            in_flight_events_max: built.in_flight_events_max as u64,
            before: Second::default(),
            activity: Activity::default(),
            produced: built.produced.take(),
            notes: 0,
            finished: false,
        }
    }

    /// Samples the movement of events, and drains the pipeline at its end condition.
    fn follow(&mut self, control: &Control, end: End) {
        let (elapsed_ns, counts) = (clock::now().since(self.begun), self.meter.counts());
        self.activity.record(elapsed_ns, &counts);
        if !control.is_draining() && end.is_reached(elapsed_ns, &counts) {
            self.finished = true;
            control.drain();
        }
    }

    /// Reports that this program no longer waits for the pipeline's threads; returns the message. With
    /// at-most-once, unsettled events are lost: their positions are committed.
    fn abandon(&self, guarantee: Guarantee) -> String {
        let counts = self.meter.counts();
        let open = counts.get(Count::Read).saturating_sub(counts.settled());
        if guarantee == Guarantee::AtMostOnce {
            self.meter.add(Count::Lost, open);
        }
        let words = format!(
            "aborted: a call did not return within {} s, and {open} events that were read are not settled",
            ABORT_LIMIT_NS / clock::SECOND_NS
        );
        self.console.say(&format!("plimsoll: {words}"));
        words
    }

    /// Fails a pipeline that reached its end condition without reading its source at all. A pipeline that still waits for its
    /// source may be stopped by a signal.
    fn refuse_unread(&self, ended: Ended) -> Result<Ended, Error> {
        let unread = self.finished && ended == Ended::Drained && self.meter.counts().get(Count::Read) == 0;
        match self.meter.trouble().filter(|_| unread) {
            Some(reason) => Err(SourceError::Failed(format!("no event was read: {reason}")).into()),
            None => Ok(ended),
        }
    }

    /// The time range in which events moved, after the pipeline has ended.
    fn moved(&mut self) -> Option<Moved> {
        self.activity.record(clock::now().since(self.begun), &self.meter.counts());
        self.activity.moved()
    }

    fn sample(&mut self, dir: &mut Dir, lines: bool) -> anyhow::Result<()> {
        let path = dir.path().to_owned();
        let times = self.meter.take_times();
        let second = self.second(&times);
        self.whole.merge(&times);
        if lines {
            let width = self.console.line_width();
            self.console.say(&line(&self.before, &second, second.stages.last(), width));
            if let Some(trouble) = trouble(&self.before, &second, width) {
                self.console.say(&trouble);
            }
            self.print_notes();
        }
        self.recent.add(&times);
        self.update_page(&second);
        let here = || format!("write to {}", path.display());
        dir.keep(&second).with_context(here)?;
        if let Some(take) = &self.produced {
            let (ranges, without_offset) = take();
            dir.keep_produced(&ranges).with_context(here)?;
            if without_offset > 0 {
                self.console.say(&format!(
                    "plimsoll: {without_offset} acknowledged records came without an offset, so the ledger lacks them"
                ));
            }
        }
        self.before = second;
        Ok(())
    }

    /// Prints the notes since the last call.
    fn print_notes(&mut self) {
        let notes = self.meter.notes();
        notes.iter().skip(self.notes).for_each(|note| self.console.say(note));
        self.notes = notes.len();
    }

    /// Updates the metrics page.
    fn update_page(&self, second: &Second) {
        let names = self.meter.stages().iter().enumerate();
        let whole: Vec<_> = names.map(|(at, name)| (name.as_str(), self.whole.of(at))).collect();
        let recent = self.stages(&self.recent.all());
        let scrape = Scrape {
            labels: &self.labels,
            before: &self.before,
            now: second,
            recent: &recent,
            whole: &whole,
        };
        self.page.put(exposition(&scrape));
    }

    fn second(&self, times: &Stages) -> Second {
        let in_flight = self.budget.in_flight();
        let mut second = Second {
            at_ms: clock::wall_ms(),
            started_ms: self.started_ms,
            elapsed_ns: clock::now().since(self.begun),
            in_flight_events: in_flight.events as u64,
            in_flight_bytes: in_flight.bytes as u64,
            in_flight_events_max: self.in_flight_events_max,
            stages: self.stages(times),
            process: process_usage(),
            trouble: self.meter.trouble(),
            ..Second::default()
        };
        second.set_counts(&self.meter.counts());
        second
    }

    fn stages(&self, times: &Stages) -> Vec<Stage> {
        self.meter.stages().iter().enumerate().map(|(at, name)| Stage::of(name, times.of(at))).collect()
    }

    /// The last sample, with the times of the whole run.
    fn whole(&self) -> Second {
        Second { stages: self.stages(&self.whole), ..self.before.clone() }
    }
}

/// CPU time, resident memory and threads of this process; zero if the system does not report them.
fn process_usage() -> Process {
    let usage = plimsoll_host::process::own();
    Process {
        cpu_ns: clock::process_cpu_ns(),
        resident_bytes: usage.rss_bytes.unwrap_or_default(),
        threads: usage.threads.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::console::Silent;

    use super::*;

    #[test]
    fn only_a_terminal_user_is_told_to_press_ctrl_c_again() {
        assert!(stop_message(Asked::AtTerminal).contains("press Ctrl-C again"));
        assert!(!stop_message(Asked::ByProgram).contains("Ctrl-C"));
    }

    #[test]
    fn the_first_signal_never_aborts_a_pipeline() {
        let control = Control::default();
        control.drain();
        assert!(
            interrupt(&control, Asked::ByProgram, 1, &Silent) == Ending::Draining && !control.is_aborted()
        );
        assert!(
            interrupt(&control, Asked::ByProgram, 2, &Silent) == Ending::Aborting && control.is_aborted()
        );
    }
}
