//! Makes the runs of a suite, each as a child process. A failed run does not end the suite.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use plimsoll_deployment::Namespace;
use plimsoll_measure::clock;
use plimsoll_measure::inspection::Inspection;
use plimsoll_measure::suite::{Kind, Row, Suite};
use plimsoll_report::suite as report;
use plimsoll_report::text::Width;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::reexec::last_words;
use plimsoll_run::run_dir::write_private;
use plimsoll_run::stale_runs;
use tokio::runtime::Runtime;

use super::environment::Environment;
use super::judge::{self, judge};
use super::kind::{Ended, Reached};
use super::resolve::Test;
use super::results;
use super::schedule::{Retry, Settings, is_missing};
use crate::child::{self, Message, Start, Watchdog};
use crate::directory::SeriesDir;
use crate::drive::{Next, Series, make_all};
use crate::server::When;
use crate::watch::{self, Watch};

/// The directory of the load within a run's directory.
const RUN: &str = "run";
/// The directory of the warm-up.
const WARM_UP: &str = "warm-up";
/// The directory of the topic's fill.
const FILL: &str = "fill";
const BEFORE: &str = "before.json";
const AFTER: &str = "after.json";

/// A suite in progress.
#[derive(Debug)]
pub struct Drive {
    /// Its directory.
    pub dir: SeriesDir,
    /// Its results.
    pub suite: Suite,
    /// Its tests.
    pub tests: Vec<Test>,
    /// Its options.
    pub settings: Settings,
    /// The flag that is set when the user asks to stop.
    pub flag: Arc<AtomicBool>,
    /// The runtime for questions to servers.
    pub runtime: Arc<Runtime>,
}

impl Series for Drive {
    fn dir(&self) -> &SeriesDir {
        &self.dir
    }

    fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    fn pending(&self) -> Vec<(usize, String)> {
        let runs = self.suite.runs.iter().enumerate();
        let missing = runs.filter(|(_, run)| is_missing(self.suite.row(run.number), Retry::No));
        missing.map(|(index, run)| (index, run.directory.clone())).collect()
    }

    /// Makes one run and records its result.
    fn make(&mut self, run: usize) -> Outcome<Next> {
        let planned = self.suite.runs[run].clone();
        let Some(test) = self.tests.iter().find(|test| test.name == planned.test) else {
            return Ok(Next::Continue);
        };
        self.say(report::heading(&self.suite, &planned, self.width()));
        let path = self.dir.path().join(&planned.directory);
        std::fs::create_dir(&path).with_context(|| format!("create the directory {}", path.display()))?;
        let row = Row {
            run: planned.number,
            test: planned.test,
            kind: test.kind.kind(),
            what: test.job.what.clone(),
            repetition: planned.repetition,
            directory: planned.directory,
            ..self.attempt(test, planned.number, path)
        };
        self.say(report::ended(&row, self.width()));
        results::append(&self.dir, &row)?;
        self.suite.record(row);
        self.dir.save(&self.suite)?;
        Ok(Next::Continue)
    }
}

impl Drive {
    /// Makes every missing run.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn make_all(&mut self) -> Outcome<()> {
        let retry = self.settings.retry;
        self.suite.rows.retain(|row| !is_missing(Some(row), retry));
        results::write(&self.dir, &self.suite.rows)?;
        self.suite.conclude();
        self.dir.save(&self.suite)?;
        make_all(self)
    }

    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn width(&self) -> Width {
        self.settings.console.width()
    }

    fn say(&self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.settings.console.say(&line));
    }

    /// The result of one attempt, without the names of the run. A failure is a result too.
    fn attempt(&self, test: &Test, number: u32, path: PathBuf) -> Row {
        let result = Attempt::begin(self, test, number, path).and_then(|attempt| attempt.finish());
        result.unwrap_or_else(|failure| judge::refused(&failure, self.is_over()))
    }
}

/// A run in progress.
struct Attempt<'a> {
    drive: &'a Drive,
    test: &'a Test,
    number: u32,
    path: PathBuf,
    environment: Environment<'a>,
}

impl<'a> Attempt<'a> {
    /// Finds or starts the servers, inspects them, and clears the collection and the topics.
    fn begin(drive: &'a Drive, test: &'a Test, number: u32, path: PathBuf) -> Outcome<Self> {
        let earlier = stale_runs::runs(&path, &[RUN, WARM_UP]);
        let stoppable = (&drive.runtime, &*drive.flag);
        let environment = Environment::open(test, number, earlier, drive.settings.console, stoppable)?;
        let mut attempt = Self { drive, test, number, path, environment };
        if attempt.environment.is_empty() {
            let message = "  before    the run owns its server, and prints its inspections at its end";
            drive.say((test.kind.kind() == Kind::Scenario).then(|| message.to_owned()));
        } else {
            let before = attempt.environment.inspect(When::Before).deserves(Exit::Server)?;
            attempt.keep(BEFORE, &before)?;
            drive.say(report::before(&before, drive.width()));
            drive.say(attempt.environment.clear(&before)?);
        }
        Ok(attempt)
    }

    /// Fills the topic, warms up, sends the load and judges it.
    fn finish(&self) -> Outcome<Row> {
        for prepare in [Self::fill, Self::warm_up] {
            if let Some(row) = prepare(self)? {
                return Ok(row);
            }
        }
        if self.drive.is_over() {
            return Ok(judge::stopped());
        }
        let before_ns = self.environment.cpu_ns();
        let arguments = self.test.job.arguments_of(self.number);
        Ok(match self.run(RUN, &arguments, self.environment.server_address()) {
            Ok(ended) => self.close(&ended, self.environment.cpu_ns().saturating_sub(before_ns)),
            Err(error) => judge::failed(&error),
        })
    }

    /// Fills the topic before it is read. Returns the result of the run, if the fill fails.
    fn fill(&self) -> Outcome<Option<Row>> {
        let (Some(text), Some(fill)) = (self.environment.filling()?, self.test.row.fill) else {
            return Ok(None);
        };
        let file = self.path.join("fill.yaml");
        write_private(&file, &text)?;
        let arguments = ["pipeline", "run", &*file.to_string_lossy()].map(str::to_owned);
        let over = self.run(FILL, &arguments, None)?;
        let ended = self.ended(FILL);
        let total = ended.as_ref().and_then(|ended| ended.measured.as_ref()).map_or(0, |it| it.total);
        let whole = ended.is_some_and(|ended| ended.intact) && total == fill.events;
        Ok(self.cut_short(FILL, &over, whole))
    }

    /// Sends the load for a short time, and drops its documents. Returns the result of the run, if the warm-up fails.
    fn warm_up(&self) -> Outcome<Option<Row>> {
        let Some((arguments, namespace)) = self.test.job.warm_up_of(self.number) else { return Ok(None) };
        let namespace: Option<&Namespace> = namespace.as_ref();
        self.drive.say(self.environment.clear_warm_up(namespace)?);
        let over = self.run(WARM_UP, &arguments, self.environment.server_address())?;
        // The collection was empty, so all its documents belong to the warm-up, however it ended.
        let dropped = self.environment.drop_warm_up(namespace).deserves(Exit::Server);
        let row = self.cut_short(WARM_UP, &over, self.ended(WARM_UP).is_some());
        match (&row, dropped) {
            (Some(_), Err(failure)) => self.drive.say([format!("            {:#}", failure.error)]),
            (_, dropped) => dropped?,
        }
        Ok(row)
    }

    /// The result of the run if its preparation `name` failed.
    fn cut_short(&self, name: &str, over: &child::Ended, whole: bool) -> Option<Row> {
        if over.cause.is_some() {
            let row = judge(over, None, self.test.timeout, self.drive.settings, None);
            let reason = row.reason.map(|reason| format!("in the {name}: {reason}"));
            return Some(Row { reason, ..row });
        }
        let why = || last_words(&self.log(name)).unwrap_or_default();
        (!whole).then(|| judge::failed(&anyhow!("the {name} could not be completed: {}", why())))
    }

    /// Runs this program to its end, with a watchdog that ends it if it hangs or exceeds its timeout.
    fn run(
        &self,
        name: &'static str,
        arguments: &[String],
        server: Option<&str>,
    ) -> anyhow::Result<child::Ended> {
        let (out, log, drive) = (self.path.join(name), self.log(name), self.drive);
        let server = server.map(|server| ["--server".to_owned(), server.to_owned()]);
        let mut arguments = arguments.to_vec();
        if name != FILL {
            arguments.extend(self.environment.arguments());
        }
        arguments.extend(server.into_iter().flatten());
        arguments.push("--json".to_owned());
        let cpus = self.test.client_cpus.as_ref();
        let start = Start { program: None, arguments: &arguments, out: &out, log: Some(&log), cpus };
        let progress = self.test.kind.progress(&out);
        let unit = progress.unit();
        let settings = watch::Settings {
            interval_ns: drive.settings.watch.as_ns(),
            hung_after: drive.settings.hung_after,
            timeout_ns: self.test.timeout.as_ns(),
        };
        let watchdog = Watchdog {
            watch: Watch::new(settings, clock::now()),
            progress,
            servers: self.environment.pids(),
            say: &|message| drive.say([text(name, unit, message)]),
        };
        start.run(&drive.flag, Some(watchdog))
    }

    /// The file of a load's messages.
    fn log(&self, name: &str) -> PathBuf {
        self.path.join(if name == RUN { "output.log".to_owned() } else { format!("{name}.log") })
    }

    fn ended(&self, name: &str) -> Option<Ended> {
        self.test.kind.ended(&self.path.join(name))
    }

    /// Inspects the servers after the run, reads its documents back where possible, and judges it.
    fn close(&self, over: &child::Ended, server_cpu_ns: u64) -> Row {
        let ended = self.ended(RUN);
        let last_words = last_words(&self.log(RUN));
        let row = judge(over, ended.clone(), self.test.timeout, self.drive.settings, last_words);
        let row = judge::with_server_cpu(row, server_cpu_ns);
        if let Err(error) = self.inspect_after() {
            self.drive.say([format!("  after     inspection failed: {error:#}")]);
        }
        let (row, intact) = self.read_back(row, ended.as_ref());
        let ended = ended.map(|ended| Ended { intact: ended.intact && intact, ..ended });
        self.drive.say(self.environment.tidy(ended.as_ref()));
        row
    }

    /// Inspects the servers of the suite, or takes the inspections of the run itself.
    fn inspect_after(&self) -> anyhow::Result<()> {
        let after = if self.environment.is_empty() {
            let states = self.test.kind.states(&self.path.join(RUN));
            let Some((before, after)) = states else { return Ok(()) };
            self.keep(BEFORE, &before)?;
            self.drive.say(report::before(&before, self.drive.width()));
            after
        } else {
            self.environment.inspect(When::After)?
        };
        self.keep(AFTER, &after)?;
        self.drive.say(report::after(&after, self.drive.width()));
        Ok(())
    }

    /// Reads the documents back if the kind supports it. Returns whether they are intact.
    fn read_back(&self, row: Row, ended: Option<&Ended>) -> (Row, bool) {
        let total = row.measured.as_ref().map_or(0, |measured| measured.total);
        let (server, brokers) = (self.environment.server_address(), self.environment.brokers_address());
        let fill = self.path.join(FILL);
        let ledger = Some(&*fill).filter(|fill| fill.is_dir());
        let reached = Reached { ledger, server, brokers, total };
        let proven = ended.filter(|ended| ended.intact);
        match proven.and_then(|_| self.test.kind.read_back(&self.test.row, &reached)) {
            None => (row, true),
            Some(Ok(found)) => {
                self.drive.say([report::read_back(found.read, found.lost, found.reason.as_deref())]);
                let intact = found.reason.is_none();
                (judge::with_read_back(row, found), intact)
            }
            Some(Err(error)) => {
                let reason = Some(format!("it could not be read back: {error:#}"));
                (Row { reason, ..row }, false)
            }
        }
    }

    /// Writes an inspection into the run's directory.
    fn keep(&self, name: &str, inspection: &Inspection) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(inspection).context("write an inspection")?;
        let file = self.path.join(name);
        std::fs::write(&file, format!("{text}\n")).with_context(|| format!("write {}", file.display()))
    }
}

fn text(name: &str, unit: &str, message: Message) -> String {
    let name = if name == RUN { "running" } else { name };
    match message {
        Message::Progress(it) => {
            report::progress(name, it.elapsed_s, (it.operations, unit), it.rate_per_s, it.idle)
        }
        Message::Asked(cause) => format!("  {name:<9} {}: it is asked to end", judge::why(cause)),
        Message::Killed => format!("  {name:<9} it does not end, and is killed"),
    }
}
