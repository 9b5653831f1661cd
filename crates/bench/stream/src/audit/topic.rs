//! Audits a topic as a destination: records are identified by their content.

use anyhow::bail;
use plimsoll_kafka::topic_scan;
use plimsoll_kafka::{Cluster, scenario as kafka};
use plimsoll_stores::audit::{
    ContentHash, ContentIndex, ContentIndexBuilder, Found, Kept, Payload, Reconcile, Report,
};
use plimsoll_stores::document::identity::Identity;

use super::envelopes::{Envelopes, open};
use super::{Record, SILENCE, outside_audit, read_topic};
use crate::typed::{PipelineFile, SinkSection};

/// The index of the source topic in the comparison, which has no other topic.
const NUMBER: u32 = 0;

/// A topic that should contain the records of another.
pub(super) struct Topic {
    cluster: Cluster,
    topic: String,
    letters: Option<String>,
    /// Whether each record keeps its partition number.
    placed: bool,
    /// The envelopes of both topics.
    envelopes: Envelopes,
}

impl Topic {
    pub(super) fn of(file: &PipelineFile, sink: &kafka::Sink) -> anyhow::Result<Self> {
        Ok(Self {
            envelopes: Envelopes::of(&file.transforms)?,
            cluster: Cluster::build(&sink.brokers, &sink.properties)?,
            topic: sink.topic.clone(),
            letters: letters(file, sink)?,
            placed: sink.placing == kafka::Placing::Same,
        })
    }

    pub(super) fn answer(&self, source: &kafka::Source, kept: &mut Kept) -> anyhow::Result<Report> {
        let mut learner = ContentIndexBuilder::default();
        let mut expected = read_topic(source, NUMBER, kept, &mut |record| {
            Ok(learner.add(self.as_read(record, ContentHash::of), record.partition, record.offset)?)
        })?;
        if self.envelopes.source > 0 {
            // The checksums include the envelopes; the found records do not.
            expected.iter_mut().for_each(|partition| partition.checksum = None);
        }
        let (mut known, mut fold) = (learner.build(), Reconcile::new(expected)?);
        topic_scan::scan(&self.cluster, &self.topic, SILENCE, &mut |record| {
            let within = self.placed.then_some(record.partition);
            let found = open(&record, self.envelopes.found, |key, payload| {
                find((key, payload), within, &mut known, &mut fold);
            });
            if found.is_none() {
                fold.see(Found::Unexpected);
            }
        })?;
        if let Some(letters) = &self.letters {
            topic_scan::scan(&self.cluster, letters, SILENCE, &mut |record| {
                self.as_read(&record, |key, payload| find((key, payload), None, &mut known, &mut fold));
            })?;
        }
        Ok(fold.finish())
    }

    /// Passes on the content of a source record or of a dead letter, which has the original bytes. A record
    /// that lacks its envelope becomes a dead letter unchanged.
    fn as_read<T>(&self, record: &Record<'_>, mut tell: impl FnMut(Option<&[u8]>, Option<&[u8]>) -> T) -> T {
        open(record, self.envelopes.source, &mut tell).unwrap_or_else(|| tell(record.key, record.payload))
    }
}

/// The topic of the dead letters, which contain the original bytes.
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
        Some(other) => bail!(outside_audit(other)),
    }
}

/// The key and the payload of a record.
type Content<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn find((key, payload): Content<'_>, within: Option<u32>, known: &mut ContentIndex, fold: &mut Reconcile) {
    let Some((partition, offset)) = known.find(ContentHash::of(key, payload), within) else {
        return fold.see(Found::Unexpected);
    };
    let identity = Identity { topic: NUMBER, partition, offset };
    let pieces = [payload.unwrap_or_default()];
    let payload = if payload.is_some() { Payload::Pieces(&pieces) } else { Payload::Null };
    fold.see(Found::Event { identity, payload });
}
