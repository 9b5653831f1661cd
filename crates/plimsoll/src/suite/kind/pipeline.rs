//! A test that runs a pipeline until its source ends: `plimsoll pipeline run` as a process of its own.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use plimsoll_measure::stream::{Count, Stream};
use plimsoll_measure::suite::{self, Measured};
use plimsoll_mongo::scenario::Existing;
use sha2::{Digest, Sha256};

use super::{Ended, Host, Job, Kind, settled_path};
use crate::ab::own::Own;
use crate::pipeline::{PipelineFile, read};
use crate::suite::progress::{Progress, Seconds};
use crate::suite::typed::Row;

/// Where a pipeline's directory has its summary.
const SUMMARY: &str = "pipeline.json";

/// A test that runs a pipeline.
#[derive(Debug)]
pub struct Pipeline;

impl Kind for Pipeline {
    fn kind(&self) -> suite::Kind {
        suite::Kind::Pipeline
    }

    fn named<'a>(&self, row: &'a Row) -> Option<&'a str> {
        row.pipeline.as_deref()
    }

    fn settled(&self, row: Row, base: &Path) -> Row {
        Row { pipeline: settled_path(row.pipeline.as_deref(), base), ..row }
    }

    fn prepare(&self, row: &Row) -> anyhow::Result<Job> {
        let name = row.pipeline.as_deref().unwrap_or_default();
        check(row)?;
        let (file, _) = read(Path::new(name), &row.overrides)?;
        let sets = row.overrides.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
        let words = ["pipeline", "run", name].map(str::to_owned).into_iter().chain(sets).collect();
        Ok(Job {
            what: file.name.clone(),
            hash: hash(&file)?,
            words,
            warm_up: None,
            host: Host::Run(None),
            own: Own::Nothing,
            existing: Existing::default(),
            cache_bytes: None,
        })
    }

    fn progress(&self, directory: &Path) -> Box<dyn Progress> {
        Box::new(Seconds::of(directory))
    }

    fn ended(&self, directory: &Path) -> Option<Ended> {
        let text = fs::read_to_string(directory.join(SUMMARY)).ok()?;
        serde_json::from_str(&text).ok().map(|stream| ended(&stream))
    }
}

/// A pipeline says itself where its events come from and go to, how many are in flight and which threads it has.
fn check(row: &Row) -> anyhow::Result<()> {
    let warm_up = row.warm_up.is_some_and(|time| time.as_ns() > 0);
    for (column, is_there) in [
        ("duration", row.duration.is_some()),
        ("warm_up", warm_up),
        ("in_flight", row.in_flight.is_some()),
        ("threads", row.threads.is_some()),
        ("executor", row.executor.is_some()),
        ("server_cpus", row.server_cpus.is_some()),
        ("cache", row.cache.is_some()),
    ] {
        ensure!(
            !is_there,
            "{column}: a pipeline says that in its own file, and runs until its source ends: leave it out, and change the file \
             with overrides"
        );
    }
    Ok(())
}

/// SHA-256 of a pipeline as it was read, in hex.
fn hash(file: &PipelineFile) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(file).map_err(|error| anyhow!("{error}"));
    let text = text.context("write the pipeline as YAML")?;
    Ok(Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn ended(stream: &Stream) -> Ended {
    Ended {
        measured: Some(measured(stream)),
        interrupted: ["aborted", "drained"].contains(&stream.ended.as_str()),
        intact: false,
        reasons: stream.failure.iter().cloned().collect(),
    }
}

/// What a whole run measured. Of what it promised nothing was looked for.
fn measured(stream: &Stream) -> Measured {
    let (last, written) = (&stream.last, stream.last.count(Count::Written));
    let delivery = last.stages.last().filter(|stage| stage.events > 0);
    Measured {
        unit: "events".to_owned(),
        rate_per_s: written as f64 * 1e9 / last.elapsed_ns.max(1) as f64,
        total: written,
        p50_ns: delivery.map(|stage| stage.p50_ns),
        p99_ns: delivery.map(|stage| stage.p99_ns),
        p99_9_ns: delivery.map(|stage| stage.p999_ns),
        max_ns: delivery.map(|stage| stage.max_ns),
        errors: last.count(Count::DeadLettered) + last.count(Count::Lost),
        lost: None,
        client_cpu_us: (written > 0).then(|| last.process.cpu_ns as f64 / 1e3 / written as f64),
        server_cpu_us: None,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::stream::{Process, Second, Stage};

    use super::*;

    #[test]
    fn a_pipeline_measures_the_events_that_it_wrote_and_their_way() {
        let counts = [("written_events", 4_000), ("dead_letter_events", 3)];
        let last = Second {
            elapsed_ns: 2_000_000_000,
            counts: counts.map(|(word, count)| (word.to_owned(), count)).into(),
            stages: vec![Stage { name: "delivery".into(), events: 4_000, p50_ns: 5, ..Stage::default() }],
            process: Process { cpu_ns: 8_000_000, ..Process::default() },
            ..Second::default()
        };
        let stream = Stream { ended: "exhausted".into(), last, ..Stream::default() };
        let whole = ended(&stream);
        let it = whole.measured.unwrap();
        assert_eq!((it.unit.as_str(), it.total, it.errors, it.lost), ("events", 4_000, 3, None));
        assert_eq!((it.rate_per_s, it.p50_ns, it.client_cpu_us), (2_000.0, Some(5), Some(2.0)));
        assert!(!whole.interrupted && whole.reasons.is_empty());
        assert!(ended(&Stream { ended: "drained".into(), ..stream }).interrupted);
        let idle = measured(&Stream::default());
        assert_eq!((idle.rate_per_s, idle.p50_ns, idle.client_cpu_us), (0.0, None, None));
    }
}
