//! Makes the runs of a suite one after the other. A failed run ends nothing else.

mod close;
mod prepare;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::suite::{Kind, Planned, Row, Suite};
use plimsoll_report::suite as report;
use tokio::runtime::Runtime;

use self::prepare::FILL;
use crate::suite::child::{Guard, Over, Said, Start};
use crate::suite::dir::SuiteDir;
use crate::suite::environment::Footing;
use crate::suite::host::When;
use crate::suite::judge::{Came, refused};
use crate::suite::kind::Host;
use crate::suite::resolve::Test;
use crate::suite::schedule::{Retry, Settings, is_to_be_made};
use crate::suite::watch;
use plimsoll_run::exit::{Deserves, Exit, Failure};
use plimsoll_run::stale_runs;

/// What a run's directory has.
const RUN: &str = "run";
const WARM_UP: &str = "warm-up";
const LOG: &str = "output.log";
const BEFORE: &str = "before.json";
const AFTER: &str = "after.json";

/// A suite that is being made.
#[derive(Debug)]
pub struct Drive {
    /// Where it is written down.
    pub dir: SuiteDir,
    /// What is known.
    pub suite: Suite,
    /// The tests.
    pub tests: Vec<Test>,
    /// How it is made.
    pub settings: Settings,
    /// The wish to stop.
    pub flag: Arc<AtomicBool>,
    /// For questions to servers.
    pub runtime: Runtime,
}

/// A run that is being made.
struct Turn<'a> {
    test: &'a Test,
    number: u32,
    path: &'a Path,
    footing: Footing<'a>,
    /// The loads of earlier tries: what they wrote is not in the way.
    left: Vec<String>,
}

impl Turn<'_> {
    /// The server that the words of a run do not say. A pipeline has it from its file, unless its row names another.
    fn server(&self) -> Option<&str> {
        let of_scenario = self.test.kind.kind() == Kind::Scenario;
        match (&self.footing.hosted, &self.test.job.host) {
            (Some((hosted, _)), _) => {
                Some(hosted.uri()).filter(|_| of_scenario || self.test.row.server.is_some())
            }
            (None, Host::Run(server)) => server.as_deref(),
            (None, Host::Suite(..)) => None,
        }
    }
}

/// A run that has ended.
struct Ran {
    over: Over,
    /// CPU of the server and the brokers meanwhile, in nanoseconds; zero where it is not known.
    server_cpu_ns: u64,
}

impl Drive {
    /// Makes every run that is not there yet.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn make_all(&mut self) -> anyhow::Result<()> {
        let retry = self.settings.retry;
        let known = std::mem::take(&mut self.suite.rows);
        self.suite.rows = known.into_iter().filter(|row| !is_to_be_made(Some(row), retry)).collect();
        self.dir.keep(&self.suite.rows)?;
        self.suite.conclude();
        self.dir.save(&self.suite)?;
        for planned in self.suite.runs.clone() {
            if self.is_over() {
                break;
            }
            if is_to_be_made(self.suite.row(planned.number), Retry::No) {
                self.make(&planned)?;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn say(&self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.settings.console.say(&line));
    }

    /// Makes one run and writes down what came of it.
    fn make(&mut self, planned: &Planned) -> anyhow::Result<()> {
        let Some(test) = self.tests.iter().find(|test| test.name == planned.test) else { return Ok(()) };
        self.say(report::heading(&self.suite, planned));
        let path = self.dir.run(&planned.directory)?;
        let came = self.attempt(test, planned.number, &path);
        let row = Row {
            run: planned.number,
            test: planned.test.clone(),
            kind: test.kind.kind(),
            what: test.job.what.clone(),
            repetition: planned.repetition,
            outcome: came.outcome,
            from_ms: came.from_ms,
            to_ms: came.to_ms,
            measured: came.measured,
            exit: came.exit.code(),
            directory: planned.directory.clone(),
            reason: came.reason,
        };
        self.say(report::ended(&row));
        self.dir.append(&row)?;
        self.suite.record(row);
        self.dir.save(&self.suite)
    }

    /// From the server to what it is worth. Whatever goes wrong is what came of the run.
    fn attempt(&self, test: &Test, number: u32, path: &Path) -> Came {
        let turn = match self.begin(test, number, path) {
            Ok(turn) => turn,
            Err(failure) => return refused(&failure, self.is_over()),
        };
        for prepare in [Self::fill, Self::warm_up] {
            match prepare(self, &turn) {
                Ok(None) => {}
                Ok(Some(came)) => return came,
                Err(failure) => return refused(&failure, self.is_over()),
            }
        }
        if self.is_over() {
            return Came::stopped();
        }
        match self.load(&turn) {
            Ok(ran) => self.close(&turn, &ran),
            Err(error) => Came::unmade(&error),
        }
    }

    /// The server and the brokers, what is there before, an empty collection and empty topics.
    fn begin<'a>(&'a self, test: &'a Test, number: u32, path: &'a Path) -> Result<Turn<'a>, Failure> {
        let mut footing = Footing::open(test, number, self.settings.console, &self.runtime)?;
        let left = stale_runs::runs(path, &[RUN, WARM_UP]);
        if footing.is_empty() {
            let of_scenario = test.kind.kind() == Kind::Scenario;
            let said = "  before    the run has its server for itself: what it saw there is told at its end";
            self.say(of_scenario.then(|| said.to_owned()));
        } else {
            let before = footing.look(When::Before).deserves(Exit::Server)?;
            keep(path, BEFORE, &before)?;
            self.say(report::before(&before));
            self.say(footing.clear(test.job.existing, &before, &left)?);
        }
        Ok(Turn { test, number, path, footing, left })
    }

    fn load(&self, turn: &Turn<'_>) -> anyhow::Result<Ran> {
        let (log, words) = (turn.path.join(LOG), turn.test.job.words_of(turn.number));
        let before_ns = turn.footing.cpu_ns();
        let over = self.run(turn, &words, turn.server(), RUN, &log)?;
        Ok(Ran { over, server_cpu_ns: turn.footing.cpu_ns().saturating_sub(before_ns) })
    }

    /// Runs words of this program until they end or are ended.
    fn run(
        &self,
        turn: &Turn<'_>,
        words: &[String],
        server: Option<&str>,
        name: &'static str,
        log: &Path,
    ) -> anyhow::Result<Over> {
        let (out, test, footing) = (turn.path.join(name), turn.test, &turn.footing);
        let told = match (test.kind.kind(), &footing.hosted) {
            (Kind::Scenario, Some((hosted, _))) => hosted.words(),
            (Kind::Pipeline, _) if name != FILL => footing.words(test),
            _ => Vec::new(),
        };
        let words = &[words, &told[..]].concat();
        let start = Start { words, server, out: &out, log, cpus: test.client_cpus.as_ref() };
        let mut progress = test.kind.progress(&out);
        let unit = progress.unit();
        let mut say = |said: Said| self.say([tell(name, unit, said)]);
        let mut guard = Guard { flag: &self.flag, servers: footing.pids(), say: &mut say };
        let settings = watch::Settings {
            interval_ns: self.settings.watch.as_ns(),
            hung_after: self.settings.hung_after,
            timeout_ns: test.timeout.as_ns(),
        };
        start.watched(&mut guard, progress.as_mut(), settings)
    }
}

fn tell(name: &str, unit: &str, said: Said) -> String {
    let name = if name == RUN { "running" } else { name };
    match said {
        Said::Far(far) => {
            report::progress(name, far.elapsed_s, (far.operations, unit), far.rate_per_s, far.idle)
        }
        Said::Asked(cause) => format!("  {name:<9} {}: it is asked to end", crate::suite::judge::why(cause)),
        Said::Killed => format!("  {name:<9} it does not end, and is killed"),
    }
}

/// Keeps what was seen of a server.
fn keep(path: &Path, name: &str, inspection: &Inspection) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(inspection).context("write an inspection")?;
    let file = path.join(name);
    std::fs::write(&file, format!("{text}\n")).with_context(|| format!("write {}", file.display()))
}
