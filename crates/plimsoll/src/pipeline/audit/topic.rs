//! A topic as a destination: its records are known by what they say.

use anyhow::bail;
use plimsoll_kafka::survey::survey;
use plimsoll_kafka::{Cluster, scenario as kafka};
use plimsoll_stores::audit::{Found, Known, Learner, Likeness, Payload, Reconcile, Report};
use plimsoll_stores::document::identity::Identity;

use super::{Record, SILENCE, elsewhere, learn};
use crate::pipeline::typed::{PipelineFile, SinkSection};

/// The number of the topic in the fold, which knows one topic only.
const NUMBER: u32 = 0;

/// A topic that should hold the records of another.
pub(super) struct Topic {
    cluster: Cluster,
    topic: String,
    letters: Option<String>,
    /// Whether each record is in the partition with the number of its own.
    placed: bool,
}

impl Topic {
    pub(super) fn of(file: &PipelineFile, sink: &kafka::Sink) -> anyhow::Result<Self> {
        if !file.transforms.is_empty() {
            bail!(
                "records in a topic are known by what they say, and a transform changes that: audit a pipeline without transforms"
            );
        }
        Ok(Self {
            cluster: Cluster::build(&sink.brokers, &sink.properties)?,
            topic: sink.topic.clone(),
            letters: letters(file, sink)?,
            placed: sink.placing == kafka::Placing::Same,
        })
    }

    pub(super) fn answer(&self, source: &kafka::Source) -> anyhow::Result<Report> {
        let mut learner = Learner::default();
        let expected = learn(source, NUMBER, &mut |record| {
            Ok(learner.learn(likeness(record), record.partition, record.offset)?)
        })?;
        let (mut known, mut fold) = (learner.known(), Reconcile::new(expected)?);
        survey(&self.cluster, &self.topic, SILENCE, &mut |record| {
            find(&record, self.placed.then_some(record.partition), &mut known, &mut fold);
        })?;
        if let Some(letters) = &self.letters {
            survey(&self.cluster, letters, SILENCE, &mut |record| {
                find(&record, None, &mut known, &mut fold)
            })?;
        }
        Ok(fold.finish())
    }
}

/// The topic of the dead letters, which hold the original bytes.
fn letters(file: &PipelineFile, sink: &kafka::Sink) -> anyhow::Result<Option<String>> {
    let own = sink.exactly_once.as_ref().and_then(|once| once.dead_letters.clone());
    match &file.dead_letters {
        None => Ok(own),
        Some(SinkSection::Kafka(letters)) if letters.brokers == sink.brokers => {
            Ok(Some(letters.topic.clone()))
        }
        Some(SinkSection::Kafka(_)) => {
            bail!("the dead letters are in another cluster than the records: audit needs both in one")
        }
        Some(other) => bail!(elsewhere(other)),
    }
}

fn likeness(record: &Record<'_>) -> Likeness {
    Likeness::of(record.key, record.payload)
}

fn find(record: &Record<'_>, within: Option<u32>, known: &mut Known, fold: &mut Reconcile) {
    let Some((partition, offset)) = known.find(likeness(record), within) else {
        return fold.see(Found::Unexpected);
    };
    let identity = Identity { topic: NUMBER, partition, offset };
    let pieces = [record.payload.unwrap_or_default()];
    let payload = if record.payload.is_some() { Payload::Pieces(&pieces) } else { Payload::Null };
    fold.see(Found::Event { identity, payload });
}
