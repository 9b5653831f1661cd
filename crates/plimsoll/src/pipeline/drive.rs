//! Runs a pipeline and looks at it once a second: the terminal, the directory and Prometheus see the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::stream::{FORMAT, Moved, Second, Stage, Stream};
use plimsoll_pipeline::flow::Budget;
use plimsoll_pipeline::meter::{Meter, Stages};
use plimsoll_pipeline::{Control, Ended, Error};
use plimsoll_report::stream::{Labels, Told, exposition, line};
use tokio::sync::oneshot;

use super::build::Built;
use super::dir::Dir;
use super::metrics::{self, Board};
use super::motion::{End, Motion};
use super::process;
use super::recent::Recent;
use crate::signals::Signals;
use crate::terminal::say;

/// How often it is looked at whether events move, and whether it has done what it was to do.
const MOTION_EVERY: Duration = Duration::from_millis(20);

/// Where a running pipeline is seen, and when it ends.
pub struct Seen<'a> {
    /// Its directory.
    pub dir: &'a mut Dir,
    /// Where Prometheus may ask.
    pub listen: Option<SocketAddr>,
    /// Whether each second is a line on the terminal.
    pub lines: bool,
    /// When it ends by itself.
    pub end: End,
}

/// Runs a pipeline to its end; gives how it was, and the error that ended it, if one did. A signal lets it finish what it
/// has read; a second one ends it at once.
///
/// # Errors
/// When it cannot be seen: an address that is taken, a directory that cannot be written.
pub fn drive(built: Built, started_ms: u64, seen: Seen<'_>) -> anyhow::Result<(Stream, Option<Error>)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let board = Board::default();
    let mut watch = Watch::new(&built, board.clone(), started_ms);
    let (ended, mut over) = oneshot::channel();
    let Built { pipeline, control, guarantee, path, labels, .. } = built;
    let ended = runtime.block_on(async {
        if let Some(address) = seen.listen {
            let bound = metrics::serve(address, board).await?;
            say(&format!("metrics at http://{bound}/metrics"));
        }
        let thread = std::thread::Builder::new().name("pipeline".into());
        thread.spawn(move || drop(ended.send(pipeline.run()))).context("start the pipeline")?;
        let mut signals = Signals::listen().context("listen to signals")?;
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.tick().await;
        let mut motion_tick = tokio::time::interval(MOTION_EVERY);
        let mut unseen = None;
        let ended = loop {
            tokio::select! {
                result = &mut over => break result.map_err(|_| anyhow!("the pipeline's thread ended without a word"))?,
                _ = tick.tick(), if unseen.is_none() => if let Err(error) = watch.look(seen.dir, seen.lines) {
                    // Nobody sees it any more, but what it has read is still written.
                    control.drain();
                    unseen = Some(error);
                },
                _ = motion_tick.tick() => watch.follow(&control, seen.end),
                () = signals.next() => interrupt(&control),
            }
        };
        unseen.map_or(Ok(ended), Err)
    })?;
    watch.look(seen.dir, false)?;
    let moved = watch.moved();
    let (word, failure) = match ended {
        Ok(Ended::Exhausted) => ("exhausted", None),
        Ok(Ended::Drained) if watch.finished => ("finished", None),
        Ok(Ended::Drained) => ("drained", None),
        Ok(Ended::Aborted) => ("aborted", None),
        Err(error) => ("failed", Some(error)),
    };
    let stream = Stream {
        format: FORMAT,
        name: labels.pipeline,
        guarantee: guarantee.to_string(),
        path,
        ended: word.into(),
        failure: failure.as_ref().map(Error::to_string),
        started_ms,
        version: env!("CARGO_PKG_VERSION").into(),
        moved,
        last: watch.whole(),
    };
    Ok((stream, failure))
}

fn interrupt(control: &Control) {
    if control.is_draining() {
        control.abort();
        return;
    }
    say("what is read is written and committed; press Ctrl-C again to end at once");
    control.drain();
}

/// Looks at a pipeline once a second.
struct Watch {
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
    fn new(built: &Built, board: Board, started_ms: u64) -> Self {
        let meter = built.pipeline.meter();
        Self {
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
            say(&line(&self.before, &second, second.stages.last()));
            if let Some(trouble) = second.trouble.as_ref().filter(|_| self.before.trouble != second.trouble) {
                say(&format!("         {trouble}; tried again"));
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
        let told =
            Told { labels: &self.labels, before: &self.before, now: second, recent: &recent, whole: &whole };
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
            process: process::now(),
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
