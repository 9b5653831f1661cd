//! Builds a pipeline that replays the dead letters of another: with the same transforms and sink, and the same dead-letter sink
//! for repeated failures.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::replay::{DeadLetterFile, RepeatRecorder, RepeatedLetters};
use plimsoll_pipeline::sink::Form as FileForm;
use plimsoll_pipeline::{Parts, SinkFactory};
use plimsoll_stores::scenario::Insert;
use plimsoll_stores::sink::vector::By;

use super::build::{Built, Group, assemble, rooted, settings, sink, transforms};
use super::typed::{PipelineFile, SinkSection};

/// The kind of the source in metrics and messages.
const KIND: &str = "dead_letters";

/// Builds the pipeline that replays at most `limit` dead letters of a file's pipeline.
///
/// # Errors
/// An invalid value, and its remedy.
pub fn build(file: &PipelineFile, base: &Path, limit: Option<u64>) -> anyhow::Result<Built> {
    if let Some(reason) = rolls_back(&file.sink) {
        bail!(reason);
    }
    let limit = limit.unwrap_or(u64::MAX);
    let parts = match (&file.sink, &file.dead_letters) {
        (SinkSection::Transactional(typed), _) => {
            let letters = typed.letters()?;
            from_collection(file, base, &SinkSection::Insert(typed.replay_sink()), &letters, limit)
        }
        #[cfg(feature = "kafka")]
        (SinkSection::Kafka(typed), _) if typed.exactly_once.is_some() => {
            kafka::in_transactions(file, base, typed, limit)
        }
        (_, Some(SinkSection::Insert(letters))) => from_collection(file, base, &file.sink, letters, limit),
        (_, Some(SinkSection::File(letters))) => {
            ensure!(
                letters.form == FileForm::Whole,
                "dead letters as {} do not identify their events: use `form: whole` for future letters",
                match letters.form {
                    FileForm::Raw => "`form: raw`",
                    _ => "`form: lines`",
                }
            );
            from_file(file, base, &rooted(&letters.path, base), limit)
        }
        #[cfg(feature = "kafka")]
        (_, Some(SinkSection::Kafka(letters))) => kafka::from_topic(file, base, letters, limit),
        (_, Some(other)) => bail!("dead letters in `{}` cannot be read again", other.kind()),
        (_, None) => bail!("this pipeline keeps no dead letters: it stops at a rejected event"),
    };
    let parts = parts.context("replay the dead letters")?;
    let mut settings = settings(file);
    // A letter is removed only when its event is written, even if the pipeline itself guarantees less.
    settings.guarantee = settings.guarantee.max(Guarantee::AtLeastOnce);
    assemble(file, KIND, parts, settings)
}

/// The reason why a replay into a sink would replace newer documents by older ones; `None` if it would not.
pub(super) fn rolls_back(sink: &SinkSection) -> Option<&'static str> {
    match sink {
        SinkSection::Keyed(_) => Some(
            "a dead letter may be older than the document in the copy of `keyed`, so its replay would bring an earlier or a deleted \
             document back: build the copy anew, with a `scan` of the source collection into an empty collection while this pipeline is \
             stopped",
        ),
        SinkSection::Vector(typed) if typed.by == By::Payload => Some(
            "a dead letter may be older than the document that `vector` with `by: payload` has stored, so its replay would bring an earlier \
             version back: run a `scan` of the source collection into this sink, in a pipeline with another `name`",
        ),
        _ => None,
    }
}

/// The file's transforms, sink and dead-letter sink, without a source and without positions.
fn same(file: &PipelineFile, base: &Path) -> anyhow::Result<Parts> {
    let group = Group::default();
    let letters = file.dead_letters.as_ref();
    Ok(Parts {
        sources: Vec::new(),
        transforms: transforms(file, base)?,
        sink: sink(&file.sink, file, base, &group).context("build `sink`")?,
        dead_letters: letters.map(|section| sink(section, file, base, &group)).transpose()?,
        positions: None,
    })
}

fn from_file(file: &PipelineFile, base: &Path, path: &Path, limit: u64) -> anyhow::Result<Parts> {
    ensure!(path.is_file(), "no dead letters exist in {}", path.display());
    let mut own = path.as_os_str().to_owned();
    own.push(".replayed");
    let positions = FilePositions::open(own)?;
    let letters = DeadLetterFile::new(path.to_owned(), limit);
    Ok(Parts { sources: vec![Box::new(letters)], positions: Some(Arc::new(positions)), ..same(file, base)? })
}

fn from_collection(
    file: &PipelineFile,
    base: &Path,
    target: &SinkSection,
    letters: &Insert,
    limit: u64,
) -> anyhow::Result<Parts> {
    if let SinkSection::Insert(target) = target {
        let apart = (&target.uri, &target.collection) != (&letters.uri, &letters.collection);
        ensure!(apart, "events and dead letters share {}: they cannot be distinguished", target.collection);
    }
    let repeated = Arc::new(RepeatedLetters::default());
    let source = letters.written(limit, &repeated)?;
    let written: Box<dyn SinkFactory> = Box::new(letters.build()?);
    let dead_letters: Box<dyn SinkFactory> =
        if letters.names_anew() { written } else { Box::new(RepeatRecorder { letters: written, repeated }) };
    Ok(Parts {
        sources: vec![Box::new(source)],
        transforms: transforms(file, base)?,
        sink: sink(target, file, base, &Group::default()).context("build `sink`")?,
        dead_letters: Some(dead_letters),
        positions: None,
    })
}

/// Replays letters from topics.
#[cfg(feature = "kafka")]
mod kafka {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use anyhow::Context;
    use plimsoll_kafka::{Cluster, Letters, exactly_once, scenario};
    use plimsoll_pipeline::Parts;

    use super::{Group, PipelineFile, same, transforms};

    /// The letters of a topic in the sink's cluster. A group with the pipeline's name stores the replayed
    /// offsets.
    fn letters(
        file: &PipelineFile,
        typed: &scenario::Sink,
        topic: &str,
        limit: u64,
    ) -> anyhow::Result<Letters> {
        let cluster = Cluster::build(&typed.brokers, &typed.properties)?;
        let connect_limit = Duration::from_nanos(typed.connect_limit.as_ns());
        let group = format!("plimsoll-replay-{}", file.name);
        Ok(Letters::new(cluster, topic, &group, connect_limit, limit))
    }

    pub(super) fn from_topic(
        file: &PipelineFile,
        base: &Path,
        typed: &scenario::Sink,
        limit: u64,
    ) -> anyhow::Result<Parts> {
        let letters = letters(file, typed, &typed.topic, limit)?;
        Ok(Parts { sources: vec![Box::new(letters)], ..same(file, base)? })
    }

    /// The transactions store the replayed offsets. Their writer has its own name, because the pipeline may
    /// run at the same time.
    pub(super) fn in_transactions(
        file: &PipelineFile,
        base: &Path,
        typed: &scenario::Sink,
        limit: u64,
    ) -> anyhow::Result<Parts> {
        let once = typed.exactly_once.clone().context("`exactly_once` is missing")?;
        let topic = once.dead_letters.clone();
        let topic = topic.context("this pipeline keeps no dead letters: it stops at a rejected event")?;
        let membership = Arc::clone(&Group::default().membership);
        let letters = letters(file, typed, &topic, limit)?.with_membership(Arc::clone(&membership));
        let once =
            scenario::ExactlyOnce { transactional_id: format!("{}-replay", once.transactional_id), ..once };
        let sink =
            exactly_once::Topic::build(typed, &once, Arc::clone(&membership)).context("build `sink`")?;
        Ok(Parts {
            sources: vec![Box::new(letters)],
            transforms: transforms(file, base)?,
            sink: Box::new(sink),
            dead_letters: None,
            positions: Some(membership),
        })
    }
}
