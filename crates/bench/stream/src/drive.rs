//! Runs a pipeline and reads its counters once a second, for terminal, directory and Prometheus alike.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::stream::{FORMAT, Moved, Second, Stage, Stream};
use plimsoll_pipeline::flow::Budget;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::{Count, Meter, Stages};
use plimsoll_pipeline::{Control, Ended, Error};
use plimsoll_report::stream::{Labels, Scrape, exposition, line};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior};

use super::build::Built;
use super::completion::{End, Motion};
use super::dir::Dir;
use super::metrics::{self, Board};
use super::process_usage;
use super::recent::Recent;
use plimsoll_run::console::Console;
use plimsoll_run::signals::{Asked, Signals};

/// How often it is looked at whether events move, and whether it has done what it was to do.
const MOTION_EVERY: Duration = Duration::from_millis(20);
/// How long its threads may take to end at once, in nanoseconds: they look whenever a call comes back, and some take their time.
const LEAVING_NS: u64 = 3 * clock::SECOND_NS;

/// Where a running pipeline is seen, and when it ends.
pub struct Seen<'a> {
    /// Its directory.
    pub dir: &'a mut Dir,
    /// Where Prometheus may ask.
    pub listen: Option<SocketAddr>,
    /// Where messages go.
    pub console: &'static dyn Console,
    /// Whether each second is a line on the console.
    pub lines: bool,
    /// When it ends by itself.
    pub end: End,
}

/// Runs a pipeline to its end; gives how it was, and the error that ended it, if one did. A signal lets it finish what it
/// has read; a second one ends it at once.
///
/// # Errors
/// When it cannot be seen: an address that is taken, a directory that cannot be written.
pub fn drive(built: Built, started_ms: u64, mut seen: Seen<'_>) -> anyhow::Result<(Stream, Option<Error>)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let board = Board::default();
    let mut watch = Watch::new(&built, board.clone(), started_ms, seen.console);
    let (ended, over) = oneshot::channel();
    let Built { pipeline, control, guarantee, path, labels, .. } = built;
    let ended = runtime.block_on(async {
        if let Some(address) = seen.listen {
            let bound = metrics::serve(address, board).await?;
            seen.console.say(&format!("metrics at http://{bound}/metrics"));
        }
        let thread = std::thread::Builder::new().name("pipeline".into());
        thread.spawn(move || drop(ended.send(pipeline.run()))).context("start the pipeline")?;
        attend(&mut watch, &control, over, &mut seen).await
    })?;
    let undone = ended.is_none().then(|| watch.abandon(guarantee));
    watch.look(seen.dir, false)?;
    let moved = watch.moved();
    let (word, failure) = match ended {
        None | Some(Ok(Ended::Aborted)) => ("aborted", None),
        Some(Ok(Ended::Exhausted)) => ("exhausted", None),
        Some(Ok(Ended::Drained)) if watch.finished => ("finished", None),
        Some(Ok(Ended::Drained)) => ("drained", None),
        Some(Err(error)) => ("failed", Some(error)),
    };
    let stream = Stream {
        format: FORMAT,
        name: labels.pipeline,
        guarantee: guarantee.to_string(),
        path,
        ended: word.into(),
        failure: failure.as_ref().map(Error::to_string).or(undone),
        started_ms,
        version: env!("CARGO_PKG_VERSION").into(),
        moved,
        last: watch.whole(),
    };
    Ok((stream, failure))
}

/// Looks at a pipeline until it has ended. Gives nothing if it was to end at once and its threads did not in time: whatever they
/// do, they end with the process.
async fn attend(
    watch: &mut Watch,
    control: &Control,
    mut over: oneshot::Receiver<Result<Ended, Error>>,
    seen: &mut Seen<'_>,
) -> anyhow::Result<Option<Result<Ended, Error>>> {
    let mut signals = Signals::listen().context("listen to signals")?;
    let (mut tick, mut motion_tick) = (every(Duration::from_secs(1)), every(MOTION_EVERY));
    tick.tick().await;
    let (mut unseen, mut leave_at, mut asks) = (None, None, 0_u32);
    let ended = loop {
        tokio::select! {
            result = &mut over => break Some(result.map_err(|_| anyhow!("the pipeline's thread ended without a word"))?),
            _ = tick.tick(), if unseen.is_none() => if let Err(error) = watch.look(seen.dir, seen.lines) {
                // Nobody sees it any more, but what it has read is still written.
                control.drain();
                unseen = Some(error);
            },
            _ = motion_tick.tick() => watch.follow(control, seen.end),
            asked = signals.next() => {
                asks = asks.saturating_add(1);
                if interrupt(control, asked, asks, seen.console) == Ends::AtOnce {
                    leave_at.get_or_insert_with(|| clock::now() + LEAVING_NS);
                }
            }
        }
        if leave_at.is_some_and(|at| clock::now() >= at) {
            break None;
        }
    };
    unseen.map_or(Ok(ended), Err)
}

/// Ticks that are not made up for after a stall: several looks at once would tell rates of no time at all.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// How a pipeline that was asked to end does so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Gently,
    AtOnce,
}

/// Ends it as the signals ask so far. The first is never the one that ends it at once, not even of a pipeline that was ending by
/// itself: a supervisor sends it to everybody.
fn interrupt(control: &Control, asked: Asked, asks: u32, console: &dyn Console) -> Ends {
    if asks > 1 {
        control.abort();
        return Ends::AtOnce;
    }
    console.say(drains(asked));
    control.drain();
    Ends::Gently
}

/// What is said of the end to who asks for it.
const fn drains(asked: Asked) -> &'static str {
    match asked {
        Asked::AtTerminal => "what is read is written and committed; press Ctrl-C again to end at once",
        Asked::ByProgram => "what is read is written and committed",
    }
}

/// Looks at a pipeline once a second.
struct Watch {
    console: &'static dyn Console,
    meter: Arc<Meter>,
    budget: Arc<Budget>,
    labels: Labels,
    board: Board,
    begun: Instant,
    started_ms: u64,
    in_flight_events_max: u64,
    whole: Stages,
    recent: Recent,
    before: Second,
    motion: Motion,
    /// Whether it was ended because it had done what it was to do.
    finished: bool,
}

impl Watch {
    fn new(built: &Built, board: Board, started_ms: u64, console: &'static dyn Console) -> Self {
        let meter = built.pipeline.meter();
        Self {
            console,
            whole: Stages::new(meter.stages().len()),
            recent: Recent::new(meter.stages().len()),
            meter,
            budget: built.pipeline.budget(),
            labels: built.labels.clone(),
            board,
            begun: clock::now(),
            started_ms,
            in_flight_events_max: built.in_flight_events_max as u64,
            before: Second::default(),
            motion: Motion::default(),
            finished: false,
        }
    }

    /// Looks whether events move, and ends the pipeline when it has done what it was to do.
    fn follow(&mut self, control: &Control, end: End) {
        let (elapsed_ns, counts) = (clock::now().since(self.begun), self.meter.counts());
        self.motion.see(elapsed_ns, &counts);
        if !control.is_draining() && end.is_reached(elapsed_ns, &counts) {
            self.finished = true;
            control.drain();
        }
    }

    /// Notes that nobody waits for the pipeline's threads any more; gives the words for it, and says them. What is read and not
    /// settled is lost where its positions are committed.
    fn abandon(&self, guarantee: Guarantee) -> String {
        let counts = self.meter.counts();
        let open = counts.get(Count::Read).saturating_sub(counts.settled());
        if guarantee == Guarantee::AtMostOnce {
            self.meter.add(Count::Lost, open);
        }
        let words = format!(
            "ended at once: a call that did not come back within {} s was not waited for, and {open} events that were read are not \
             settled",
            LEAVING_NS / clock::SECOND_NS
        );
        self.console.say(&format!("plimsoll: {words}"));
        words
    }

    /// From when to when events moved, now that none does any more.
    fn moved(&mut self) -> Option<Moved> {
        self.motion.see(clock::now().since(self.begun), &self.meter.counts());
        self.motion.moved()
    }

    fn look(&mut self, dir: &mut Dir, lines: bool) -> anyhow::Result<()> {
        let times = self.meter.take_times();
        let second = self.second(&times);
        self.whole.merge(&times);
        if lines {
            self.console.say(&line(&self.before, &second, second.stages.last()));
            if let Some(trouble) = second.trouble.as_ref().filter(|_| self.before.trouble != second.trouble) {
                self.console.say(&format!("         {trouble}; tried again"));
            }
        }
        self.recent.add(&times);
        self.tell(&second);
        dir.keep(&second).with_context(|| format!("write to {}", dir.path().display()))?;
        self.before = second;
        Ok(())
    }

    /// Puts up what Prometheus is told.
    fn tell(&self, second: &Second) {
        let names = self.meter.stages().iter().enumerate();
        let whole: Vec<_> = names.map(|(at, name)| (name.as_str(), self.whole.of(at))).collect();
        let recent = self.stages(&self.recent.all());
        let told = Scrape {
            labels: &self.labels,
            before: &self.before,
            now: second,
            recent: &recent,
            whole: &whole,
        };
        self.board.put(exposition(&told));
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
            process: process_usage::now(),
            trouble: self.meter.trouble(),
            ..Second::default()
        };
        second.set_counts(&self.meter.counts());
        second
    }

    fn stages(&self, times: &Stages) -> Vec<Stage> {
        self.meter.stages().iter().enumerate().map(|(at, name)| Stage::of(name, times.of(at))).collect()
    }

    /// The last look, with the times of the whole run.
    fn whole(&self) -> Second {
        Second { stages: self.stages(&self.whole), ..self.before.clone() }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::console::Silent;

    use super::*;

    #[test]
    fn only_who_pressed_ctrl_c_is_told_to_press_it_again() {
        assert!(drains(Asked::AtTerminal).contains("press Ctrl-C again"));
        assert!(!drains(Asked::ByProgram).contains("Ctrl-C"));
    }

    #[test]
    fn the_first_signal_lets_a_pipeline_finish_that_is_ending_by_itself() {
        let control = Control::default();
        control.drain();
        assert!(interrupt(&control, Asked::ByProgram, 1, &Silent) == Ends::Gently && !control.is_aborted());
        assert!(interrupt(&control, Asked::ByProgram, 2, &Silent) == Ends::AtOnce && control.is_aborted());
    }
}
