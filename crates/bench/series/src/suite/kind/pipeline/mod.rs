//! Runs a pipeline as a test: a child process that ends at the row's limits.

mod arguments;
mod outcome;
mod warm_up;

#[cfg(feature = "kafka")]
mod audit;

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use plimsoll_measure::suite;
use plimsoll_mongo::scenario::Existing;
use sha2::{Digest, Sha256};

use super::{Ended, Host, Job, Kind, settled_path};
#[cfg(feature = "kafka")]
use super::{Reached, ReadBack};
use crate::dry_run::{DryRun, unveiled};
use crate::isolation::Exclusive;
use crate::matrix::run_estimate::{RUN_S, RunEstimate};
use crate::progress::{Progress, Seconds};
use crate::suite::topics::Topics;
use crate::suite::typed::Row;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Registry;
use plimsoll_stream::{PipelineFile, read};

/// The summary in a pipeline's directory.
const SUMMARY: &str = "pipeline.json";
/// The time limit of one answer of a server to the suite itself.
const PATIENCE: Span = Span::from_secs(10);

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

    fn prepare(&self, row: &Row, _: Registry) -> anyhow::Result<Job> {
        let name = row.pipeline.as_deref().unwrap_or_default();
        let mut file = pipeline(name, row)?;
        let (hash, warnings) = (hash(&file)?, warnings(&file, row));
        let topics = Topics::of(&mut file, row)?;
        let (host, existing) = host(&mut file, row)?;
        check_started(row, &host, topics.as_ref())?;
        let warm_up = row.warm_up.filter(|time| time.as_ns() > 0);
        let sets = arguments::sets(name, row)?;
        Ok(Job {
            what: file.name.clone(),
            hash,
            arguments: arguments::of(name, &sets, row),
            warm_up: warm_up.map(|time| warm_up::build(name, &sets, &file, row, time)).transpose()?,
            host,
            awaited: awaited(&file, row)?,
            exclusive: Exclusive::Nothing,
            existing,
            is_theirs: row.server.is_none(),
            cache_bytes: row.cache.map(Bytes::get),
            patience: PATIENCE,
            topics,
            warnings,
        })
    }

    fn dry_run(&self, row: &Row, _: Registry) -> anyhow::Result<DryRun> {
        let file = pipeline(row.pipeline.as_deref().unwrap_or_default(), row)?;
        let estimate = RunEstimate {
            load_s: row.duration.map(Span::as_secs),
            around_s: RUN_S,
            ..RunEstimate::default()
        };
        Ok(DryRun { file: unveiled(&text(&file)?)?, estimate: Some(estimate), ..DryRun::default() })
    }

    fn progress(&self, directory: &Path) -> Box<dyn Progress> {
        Box::new(Seconds::of(directory))
    }

    fn ended(&self, directory: &Path) -> Option<Ended> {
        let text = fs::read_to_string(directory.join(SUMMARY)).ok()?;
        serde_json::from_str(&text).ok().map(|stream| outcome::ended(&stream))
    }

    #[cfg(feature = "kafka")]
    fn read_back(&self, row: &Row, reached: &Reached<'_>) -> Option<anyhow::Result<ReadBack>> {
        audit::read_back(&pipeline(row.pipeline.as_deref()?, row).ok()?, row, reached)
    }
}

/// The pipeline of a row.
fn pipeline(name: &str, row: &Row) -> anyhow::Result<PipelineFile> {
    Ok(read(Path::new(name), &arguments::sets(name, row)?)?.0)
}

/// One sentence for each option without effect in the addresses of a pipeline and its row.
fn warnings(file: &PipelineFile, row: &Row) -> Vec<String> {
    let server = row.server.as_deref().map(plimsoll_deployment::warnings).unwrap_or_default();
    file.uri_warnings().into_iter().chain(server).collect()
}

/// SHA-256 of a pipeline, in hex.
fn hash(file: &PipelineFile) -> anyhow::Result<String> {
    let text = text(file)?;
    Ok(Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn text(file: &PipelineFile) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(file).map_err(|error| anyhow!("{error}"));
    text.context("write the pipeline as YAML")
}

/// The owner of the MongoDB server, and the rule for its collection. If only the file names a server, it is inspected and never
/// changed.
fn host(file: &mut PipelineFile, row: &Row) -> anyhow::Result<(Host, Existing)> {
    let Some(uri) = file.uris().first().map(|uri| (*uri).clone()) else {
        return Ok((Host::Run(None), Existing::Append));
    };
    let named = row.server.as_deref().map(str::parse::<Choice>).transpose()?;
    let Some(collection) = file.collection_written() else {
        ensure!(
            named.as_ref().is_none_or(Choice::is_running),
            "server {}: the sink of this pipeline is not MongoDB, and a server started for the run is empty: name a running \
             server by its URI",
            row.server.as_deref().unwrap_or_default()
        );
        return Ok((Host::Run(row.server.clone()), Existing::Append));
    };
    let rule = match (&named, row.existing) {
        (None, _) => Existing::Append,
        (Some(_), existing) => existing.map_or(Existing::Refuse, Into::into),
    };
    let namespace = collection.parse().context("the collection of the pipeline's sink")?;
    Ok((Host::Suite(named.unwrap_or(Choice::Uri(uri)), namespace), rule))
}

/// The URIs of all servers of a pipeline. None if the suite starts the server.
fn awaited(file: &PipelineFile, row: &Row) -> anyhow::Result<Vec<String>> {
    let mut file = file.clone();
    if let Some(named) = row.server.as_deref().map(str::parse::<Choice>).transpose()? {
        let uris = named.uris();
        let Some(uri) = uris.first() else { return Ok(Vec::new()) };
        file.point(Some(uri), None);
    }
    Ok(file.uris().into_iter().map(|uri| uri.clone()).collect())
}

/// Checks the columns for servers and brokers that the suite starts.
fn check_started(row: &Row, host: &Host, topics: Option<&Topics>) -> anyhow::Result<()> {
    let server = matches!(host, Host::Suite(choice, _) if !choice.is_running());
    let broker = topics.is_some_and(|topics| !topics.are_external());
    ensure!(
        row.cache.is_none() || server,
        "cache: no MongoDB server is started for this test: leave it out, or use server embedded"
    );
    ensure!(
        row.server_cpus.is_none() || server || broker,
        "server_cpus: nothing is started for this test: leave it out, or use server embedded or broker installed"
    );
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "kafka")]
mod tests {
    use super::*;

    fn row(columns: &[(&str, &str)]) -> Row {
        let mut row = Row::default();
        columns.iter().for_each(|(column, text)| row.put(column, text).unwrap());
        row
    }

    fn job(pipeline: &str, columns: &[(&str, &str)]) -> anyhow::Result<Job> {
        Pipeline.prepare(&row(&[&[("pipeline", pipeline)], columns].concat()), &[])
    }

    #[test]
    fn a_row_becomes_the_arguments_of_a_pipeline() {
        let columns = [
            ("server", "embedded"),
            ("broker", "installed"),
            ("fill", "500 of 64B"),
            ("duration", "9s"),
            ("in_flight", "4000"),
            ("threads", "3"),
            ("overrides", "in_flight.batch=200"),
            ("warm_up", "2s"),
        ];
        let job = job("kafka-to-mongodb", &columns).unwrap();
        assert_eq!(
            job.arguments.join(" "),
            "pipeline run kafka-to-mongodb --set in_flight.batch=200 --set in_flight.events=4000 --set threads={pool: 3} --for \
             9s --events 500"
        );
        assert_eq!((job.existing, job.what.as_str()), (Existing::Refuse, "kafka-to-mongodb"));
        let (words, apart) = job.warm_up_of(1).unwrap();
        let words = words.join(" ");
        assert_eq!(apart.unwrap().to_string(), "plimsoll.pipeline_events_warm_up");
        for part in [
            "--for 2s",
            "source.kafka.group=plimsoll-archive-warm-up",
            "sink.insert.collection=plimsoll.pipeline_events_warm_up",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(!words.contains("--events") && !words.contains("9s"), "{words}");
    }

    #[test]
    fn a_server_named_only_by_the_file_is_inspected_and_not_changed() {
        let job = job("generator-to-mongodb", &[]).unwrap();
        let Host::Suite(choice, namespace) = &job.host else { panic!("{:?}", job.host) };
        assert_eq!(*choice, Choice::Uri("mongodb://localhost:27017".into()));
        assert_eq!(
            (namespace.to_string().as_str(), job.existing),
            ("plimsoll.pipeline_metadata", Existing::Append)
        );
        for said in ["drop", "refuse"] {
            let mut job = self::job("generator-to-mongodb", &[("existing", said)]).unwrap();
            job.rule(crate::suite::typed::Existing::Drop);
            assert_eq!(
                job.existing,
                Existing::Append,
                "{said}: nothing is dropped on a server that no row names"
            );
            let mut job = self::job("kafka-to-noop", &[("existing", said)]).unwrap();
            job.rule(crate::suite::typed::Existing::Drop);
            assert_eq!(job.topics.unwrap().rule, Existing::Append, "{said}: nor a topic");
        }
        let nothing = self::job("generator-to-noop", &[("server", "embedded")]).unwrap();
        assert_eq!((nothing.host, nothing.topics), (Host::Run(None), None));
    }

    #[test]
    fn invalid_columns_are_refused_with_the_remedy() {
        for (pipeline, columns, part) in [
            ("generator-to-noop", &[("cache", "1GB")][..], "no MongoDB server is started"),
            ("generator-to-noop", &[("server_cpus", "0")], "nothing is started for this test"),
            (
                "generator-to-mongodb",
                &[("server", "mongodb://h"), ("cache", "1GB")],
                "no MongoDB server is started",
            ),
            ("generator-to-noop", &[("executor", "fixed")], "write pool or per_partition"),
            ("generator-to-noop", &[("executor", "per_partition"), ("threads", "2")], "leave `threads` out"),
            ("kafka-to-noop", &[("broker", "installed")], "set `fill`"),
            ("kafka-to-nop", &[], "`kafka-to-noop`"),
            ("generator-to-mongodb", &[("server", "somewhere")], "write a URI"),
            ("generator-to-mongodb", &[("warm_up", "2s")], "warm_up: "),
        ] {
            let message = format!("{:#}", job(pipeline, columns).unwrap_err());
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
