//! Makes the runs of a suite, one after the other. What happens to one of them ends nothing else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use plimsoll_measure::duration::Span;
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::suite::{self, Planned, Row, Suite};
use plimsoll_mongo::scenario::Existing;
use plimsoll_mongo::setup::Namespace;
use plimsoll_report::suite as report;
use tokio::runtime::Runtime;

use super::child::{Guard, Over, Said, Start, last_words};
use super::dir::SuiteDir;
use super::host::{self, Hosted, When};
use super::judge::{Came, judge, refused};
use super::kind::Host;
use super::meant::Test;
use super::room;
use super::schedule::{Retry, is_to_be_made};
use super::watch;
use crate::exit::{Deserves, Exit, Failure};
use crate::terminal::say;

/// What a run's directory has.
const RUN: &str = "run";
const WARM_UP: &str = "warm-up";
const LOG: &str = "output.log";
const WARM_UP_LOG: &str = "warm-up.log";
const BEFORE: &str = "before.json";
const AFTER: &str = "after.json";

/// How a suite is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From one look of the watchdog to the next.
    pub watch: Span,
    /// After so many looks without progress a run is taken for hung.
    pub hung_after: u32,
    /// Whether what failed or hung is made again.
    pub retry: Retry,
    /// Whether nothing is said on the way.
    pub quiet: bool,
}

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
    hosted: Option<(Hosted<'a>, Namespace)>,
    /// Whether everything that is in the collection after the run is of this run.
    is_ours: bool,
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
        if !self.settings.quiet {
            lines.into_iter().for_each(|line| say(&line));
        }
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
        let turn = match self.host(test, number, path) {
            Ok(turn) => turn,
            Err(failure) => return refused(&failure, self.is_over()),
        };
        match self.warm_up(&turn) {
            Ok(None) => {}
            Ok(Some(came)) => return came,
            Err(failure) => return refused(&failure, self.is_over()),
        }
        if self.is_over() {
            return Came::stopped();
        }
        match self.load(&turn) {
            Ok(over) => self.close(&turn, over),
            Err(error) => Came::unmade(&error),
        }
    }

    /// The server, what is there before, and an empty collection.
    fn host<'a>(&'a self, test: &'a Test, number: u32, path: &'a Path) -> Result<Turn<'a>, Failure> {
        let (Host::Suite(choice, _), Some(namespace)) = (&test.job.host, test.job.namespace(number)) else {
            let of_scenario = test.kind.kind() == suite::Kind::Scenario;
            let said = "  before    the server belongs to the run, which looks at its collection by itself";
            self.say(of_scenario.then(|| said.to_owned()));
            return Ok(Turn { test, number, path, hosted: None, is_ours: false });
        };
        let (cpus, cache_bytes) = (test.server_cpus.as_ref(), test.job.cache_bytes);
        let start = host::Start { choice, cpus, cache_bytes, quiet: self.settings.quiet };
        let hosted = Hosted::open(start, &self.runtime)?;
        let server = |error| Failure { exit: Exit::Server, error };
        let before = hosted.look(&namespace, When::Before).map_err(server)?;
        keep(path, BEFORE, &before)?;
        self.say(report::before(&before));
        let was_there =
            before.collections.iter().any(|it| it.exists && it.namespace == namespace.to_string());
        let is_ours = !was_there || test.job.existing == Existing::Drop;
        self.clear(&hosted, &namespace, test.job.existing)?;
        Ok(Turn { test, number, path, hosted: Some((hosted, namespace)), is_ours })
    }

    /// Does what the rule says about a collection that is not empty.
    fn clear(&self, hosted: &Hosted<'_>, namespace: &Namespace, rule: Existing) -> Result<(), Failure> {
        self.say(room::clear(hosted, namespace, rule)?);
        Ok(())
    }

    /// Sends the same load for a short time, and drops what it wrote. What came of the run, if this already decides it.
    fn warm_up(&self, turn: &Turn<'_>) -> Result<Option<Came>, Failure> {
        let job = &turn.test.job;
        let (Some((words, namespace)), Some((hosted, _))) = (job.warm_up_of(turn.number), &turn.hosted)
        else {
            return Ok(None);
        };
        let rule = if job.existing == Existing::Drop { Existing::Drop } else { Existing::Refuse };
        self.clear(hosted, &namespace, rule)?;
        let log = turn.path.join(WARM_UP_LOG);
        let over = self.run(turn, &words, WARM_UP, &log)?;
        // It was empty before, so whatever became of the warm-up, what is in it now is nobody's.
        let dropped = hosted.drop_collection(&namespace).deserves(Exit::Server);
        match (cut_short(turn, &over, &log, self.settings), dropped) {
            (Some(came), dropped) => {
                self.say(dropped.err().map(|failure| format!("            {:#}", failure.error)));
                Ok(Some(came))
            }
            (None, dropped) => dropped.map(|()| None),
        }
    }

    fn load(&self, turn: &Turn<'_>) -> anyhow::Result<Over> {
        let log = turn.path.join(LOG);
        self.run(turn, &turn.test.job.words_of(turn.number), RUN, &log)
    }

    /// Runs words of this program until they end or are ended.
    fn run(&self, turn: &Turn<'_>, words: &[String], name: &str, log: &Path) -> anyhow::Result<Over> {
        let out = turn.path.join(name);
        let server = match (&turn.hosted, &turn.test.job.host) {
            (Some((hosted, _)), _) => Some(hosted.uri()),
            (None, Host::Run(server)) => server.as_deref(),
            (None, Host::Suite(..)) => None,
        };
        let told = turn.hosted.as_ref().map(|(hosted, _)| hosted.words()).unwrap_or_default();
        let words = &[words, &told[..]].concat();
        let start = Start { words, server, out: &out, log, cpus: turn.test.client_cpus.as_ref() };
        let mut say = |said: Said| self.say([tell(name, said)]);
        let servers = turn.hosted.as_ref().map(|(hosted, _)| hosted.pids()).unwrap_or_default();
        let mut guard = Guard { flag: &self.flag, servers, say: &mut say };
        let mut progress = turn.test.kind.progress(&out);
        let settings = watch::Settings {
            interval_ns: self.settings.watch.as_ns(),
            hung_after: self.settings.hung_after,
            timeout_ns: turn.test.timeout.as_ns(),
        };
        start.watched(&mut guard, progress.as_mut(), settings)
    }

    /// What is there after, and what the run is worth.
    fn close(&self, turn: &Turn<'_>, over: Over) -> Came {
        let ended = turn.test.kind.ended(&turn.path.join(RUN));
        let came =
            judge(&over, ended.clone(), turn.test.timeout, self.settings, last_words(&turn.path.join(LOG)));
        let Some((hosted, namespace)) = &turn.hosted else { return came };
        let after = hosted.look(namespace, When::After).and_then(|after| {
            keep(turn.path, AFTER, &after)?;
            Ok(after)
        });
        match after {
            Ok(after) => self.say(report::after(&after)),
            Err(error) => self.say([format!("  after     could not be looked at: {error:#}")]),
        }
        self.say(room::tidy(hosted, namespace, &turn.test.job, turn.is_ours, ended.as_ref()));
        came
    }
}

/// What came of a run, if its warm-up already decides it.
fn cut_short(turn: &Turn<'_>, over: &Over, log: &Path, settings: Settings) -> Option<Came> {
    if over.cause.is_some() {
        let came = judge(over, None, turn.test.timeout, settings, None);
        let reason = came.reason.map(|reason| format!("in the warm-up: {reason}"));
        return Some(Came { reason, ..came });
    }
    let whole = turn.test.kind.ended(&turn.path.join(WARM_UP)).is_some();
    let why = || last_words(log).unwrap_or_default();
    (!whole).then(|| Came::unmade(&anyhow::anyhow!("the warm-up could not be made: {}", why())))
}

fn tell(name: &str, said: Said) -> String {
    let name = if name == RUN { "running" } else { "warm-up" };
    match said {
        Said::Far(far) => report::progress(name, far.elapsed_s, far.operations, far.rate_per_s, far.idle),
        Said::Asked(cause) => format!("  {name:<9} {}: it is asked to end", super::judge::why(cause)),
        Said::Killed => format!("  {name:<9} it does not end, and is killed"),
    }
}

/// Keeps what was seen of a server.
fn keep(path: &Path, name: &str, inspection: &Inspection) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(inspection).context("write an inspection")?;
    let file = path.join(name);
    std::fs::write(&file, format!("{text}\n")).with_context(|| format!("write {}", file.display()))
}
