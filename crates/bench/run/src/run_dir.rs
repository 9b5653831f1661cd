//! Writes and reads the run directory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use plimsoll_load::engine::Second;
use plimsoll_measure::clock;
use plimsoll_measure::event::{Event, Interval};
use plimsoll_measure::hdr_log::{self, HdrLog};
use plimsoll_measure::run::Run;
use plimsoll_measure::sample::ServerSample;
use plimsoll_report::page::{Distribution, Page, page};

use crate::shard_log::SHARD;

mod listing;
mod locate;
mod prune;

pub use listing::{Listed, State, label, list, set_label};
pub use locate::{Named, Whole, is_run, locate, locate_any, locate_run_or_matrix, resolve, runs_in};
pub use prune::{Rule, check, remove, surplus};

/// Part of a directory's name that marks an earlier attempt of a run.
pub const ASIDE: &str = ".cut-";
/// The directory of all runs if `--out` is absent.
pub const RUNS: &str = "plimsoll-runs";
/// The free space that a run needs to start, in bytes.
const ROOM_BYTES_MIN: u64 = 32 << 20;

/// The number of events, from the first on, that are searched for the run's start.
const STARTED_WITHIN: usize = 16;

const EVENTS: &str = "events.ndjson";
const INTERVALS: &str = "intervals.hlog";
/// The summary of a run.
pub const RUN: &str = "run.json";
/// The result file in a matrix directory.
pub const MATRIX: &str = "matrix.json";
/// The result file in a comparison directory.
pub const COMPARISON: &str = "comparison.json";
/// The result file in a suite directory.
pub const SUITE: &str = "suite.json";
/// The settings of a service that the run started.
pub const SERVICE_SETTINGS: &str = "service.yaml";
/// The output of a service that the run started.
pub const SERVICE_LOG: &str = "service.log";
/// The output of a fill of such a service, removed after a successful fill.
pub const SERVICE_FILL_LOG: &str = "service-fill.log";
const SCENARIO: &str = "scenario.yaml";
const REPORT: &str = "report.html";
const LEDGER: &str = "ledger";
const STORAGE: &str = "storage";
/// The user's label of a run.
const LABEL: &str = "label.txt";

/// A run directory that is being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    events: BufWriter<File>,
    intervals: HdrLog<BufWriter<File>>,
}

impl RunDir {
    /// Creates the directory `out`, or a new one below `plimsoll-runs` for a run of `name`.
    ///
    /// # Errors
    /// When the directory is not empty, or the disk has too little space.
    pub fn create(out: Option<&Path>, name: &str, started_ms: u64) -> anyhow::Result<Self> {
        check_vacant(out)?;
        let path = out.map_or_else(|| fresh(name, started_ms), Path::to_owned);
        let here = || format!("make the run directory {}; name another place with --out", path.display());
        fs::create_dir_all(&path).with_context(here)?;
        check_room(&path)?;
        let file = |name| File::create(path.join(name)).map(BufWriter::new).with_context(here);
        let events = file(EVENTS)?;
        // A lock that ends with this process marks the run as running. On a file system without locks the run
        // works, but is not recognised as running.
        let _ = events.get_ref().try_lock();
        let (events, intervals) = (events, HdrLog::new(file(INTERVALS)?, started_ms).with_context(here)?);
        Ok(Self { path, events, intervals })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the ledger.
    pub fn ledger(&self) -> PathBuf {
        ledger(&self.path)
    }

    /// Writes the resolved scenario, readable by its owner only: it may hold passwords and tokens of a service.
    ///
    /// # Errors
    /// When a write fails.
    pub fn scenario(&self, resolved: &str) -> anyhow::Result<()> {
        write_private(&self.path.join(SCENARIO), resolved)
    }

    /// Appends an event.
    ///
    /// # Errors
    /// When a write fails.
    pub fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        let line = serde_json::to_string(event).context("write an event")?;
        let written = writeln!(self.events, "{line}").and_then(|()| self.events.flush());
        written.with_context(|| self.full())
    }

    /// Appends the histograms of one second that started `from_ns` nanoseconds after the run's start.
    ///
    /// # Errors
    /// When a write fails.
    pub fn second(&mut self, from_ns: u64, second: &Second, names: &[String]) -> anyhow::Result<()> {
        let length_ns = second.to_ns - second.from_ns;
        for (name, tally) in names.iter().zip(&second.tallies) {
            for (metric, counts) in [("response", &tally.response), ("service", &tally.service)] {
                let written = self.intervals.write(&format!("{name}.{metric}"), from_ns, length_ns, counts);
                written.with_context(|| self.full())?;
            }
        }
        self.intervals.flush().with_context(|| self.full())
    }

    /// Writes the summary and the report page.
    ///
    /// # Errors
    /// When a write fails.
    pub fn finish(mut self, run: &Run) -> anyhow::Result<PathBuf> {
        self.event(&Event::Finished(Box::new(run.clone())))?;
        self.write(RUN, &format!("{}\n", serde_json::to_string_pretty(run).context("write run.json")?))?;
        write_report(&self.path, None)?;
        Ok(self.path)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.path.join(name), text).with_context(|| self.full())
    }

    fn full(&self) -> String {
        format!(
            "write to {}; is the disk full? Free some space or name another place with --out",
            self.path.display()
        )
    }
}

/// Refuses a directory that holds files, and a path that is a file: a run needs its own directory.
///
/// # Errors
/// When the directory is not empty, or is no directory.
pub fn check_vacant(out: Option<&Path>) -> anyhow::Result<()> {
    match out.and_then(occupied) {
        Some(fault) => bail!("{fault}: a run needs its own directory; name another one with --out"),
        None => Ok(()),
    }
}

/// The reason why a run cannot use a directory: it is not empty, or is a file. `None` if it is vacant or does not exist.
pub fn occupied(path: &Path) -> Option<String> {
    if path.exists() && !path.is_dir() {
        return Some(format!("{} is a file", path.display()));
    }
    let has_files = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    has_files.then(|| format!("{} is not empty", path.display()))
}

/// Writes a file that only its owner can read, because it may hold passwords, tokens or keys.
///
/// # Errors
/// When a write fails.
pub fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written
        .with_context(|| format!("write {}: is the disk full, or the directory not yours?", path.display()))
}

/// Removes a run directory that holds no measurements, so that it is not taken for the latest run. Keeps foreign files.
pub fn abandon(path: &Path) {
    for name in [EVENTS, INTERVALS, SCENARIO, SHARD, SERVICE_SETTINGS, SERVICE_LOG, SERVICE_FILL_LOG] {
        fs::remove_file(path.join(name)).unwrap_or_default();
    }
    fs::remove_dir(path).unwrap_or_default();
}

/// The ledger of a run directory.
pub fn ledger(run: &Path) -> PathBuf {
    run.join(LEDGER)
}

/// The path for the storage of the embedded server with this index, from 0: `storage`, `storage-2` and so on.
pub fn storage(run: &Path, index: usize) -> PathBuf {
    run.join(if index == 0 { STORAGE.to_owned() } else { format!("{STORAGE}-{}", index + 1) })
}

/// The path of a run's saved storage: all runs of a matrix share one.
pub fn kept_storage(run: &Path, index: usize) -> PathBuf {
    let matrix = run.join("..");
    let own = storage(run, index);
    if own.is_dir() || !matrix.join(MATRIX).is_file() { own } else { storage(&matrix, index) }
}

/// A path below `plimsoll-runs` that does not exist yet.
pub fn fresh(name: &str, started_ms: u64) -> PathBuf {
    let stamp: String = clock::utc(started_ms).chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let base = Path::new(RUNS).join(format!("{stamp}-{name}"));
    let numbered = (2..1000).map(|number| Path::new(RUNS).join(format!("{stamp}-{name}-{number}")));
    std::iter::once(base.clone()).chain(numbered).find(|path| !path.exists()).unwrap_or(base)
}

fn check_room(path: &Path) -> anyhow::Result<()> {
    let Ok(room) = rustix::fs::statvfs(path) else { return Ok(()) };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < ROOM_BYTES_MIN {
        bail!(
            "no space left for the run directory {}: {} MB are free and {} MB are needed; free some space or name \
             another place with --out",
            path.display(),
            free >> 20,
            ROOM_BYTES_MIN >> 20
        );
    }
    Ok(())
}

/// The summary of a run.
///
/// # Errors
/// When the file is missing, because the run did not end.
pub fn read_run(path: &Path) -> anyhow::Result<Run> {
    let file = path.join(RUN);
    let text = fs::read_to_string(&file).with_context(|| {
        format!(
            "read {}; a run that was killed has none: `plimsoll show {dir} --replay` shows its seconds, and, if its server still runs, \
             `plimsoll audit {dir} --server ADDRESS` checks its writes",
            file.display(),
            dir = path.display()
        )
    })?;
    serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))
}

/// The path of a run's resolved scenario.
pub fn scenario(path: &Path) -> PathBuf {
    path.join(SCENARIO)
}

/// Every event of a run. A truncated last line is left out.
///
/// # Errors
/// When the file cannot be read.
pub fn read_events(path: &Path) -> anyhow::Result<Vec<Event>> {
    let file =
        File::open(path.join(EVENTS)).with_context(|| format!("read the events of {}", path.display()))?;
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    Ok(lines.filter_map(|line| serde_json::from_str(&line).ok()).collect())
}

/// The ID of the run that was started in a directory, even if it did not end.
pub fn started(path: &Path) -> Option<String> {
    match started_event(path)? {
        Event::Started { id, .. } => Some(id),
        _ => None,
    }
}

/// The event that announces a run.
fn started_event(path: &Path) -> Option<Event> {
    let lines = BufReader::new(File::open(path.join(EVENTS)).ok()?).lines().map_while(Result::ok);
    let events = lines.take(STARTED_WITHIN).filter_map(|line| serde_json::from_str(&line).ok());
    events.into_iter().find(|event| matches!(event, Event::Started { .. }))
}

/// Writes the report page of a run from its directory.
///
/// # Errors
/// When the run did not end, or a file cannot be read or written.
pub fn write_report(path: &Path, out: Option<&Path>) -> anyhow::Result<PathBuf> {
    let run = read_run(path)?;
    let (intervals, server) = series(read_events(path)?);
    let distributions = distributions(path)?;
    let out = out.map_or_else(|| path.join(REPORT), Path::to_owned);
    let text =
        page(&Page { run: &run, intervals: &intervals, server: &server, distributions: &distributions });
    fs::write(&out, text).with_context(|| format!("write {}", out.display()))?;
    Ok(out)
}

fn series(events: Vec<Event>) -> (Vec<Interval>, Vec<ServerSample>) {
    let (mut intervals, mut server) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Interval(interval) => intervals.push(interval),
            Event::Server(sample) => server.push(sample),
            _ => {}
        }
    }
    (intervals, server)
}

fn distributions(path: &Path) -> anyhow::Result<BTreeMap<String, Distribution>> {
    let log =
        fs::read(path.join(INTERVALS)).with_context(|| format!("read {INTERVALS} of {}", path.display()))?;
    let mut all: BTreeMap<String, Distribution> = BTreeMap::new();
    for entry in
        hdr_log::read(&log).with_context(|| format!("understand {INTERVALS} of {}", path.display()))?
    {
        let Some((operation, metric)) = entry.tag.rsplit_once('.') else { continue };
        let distribution = all.entry(operation.to_owned()).or_default();
        match metric {
            "response" => distribution.response.merge(&entry.histogram),
            "service" => distribution.service.merge(&entry.histogram),
            _ => {}
        }
    }
    Ok(all)
}
