//! The destination of a pipeline held against its topic.

mod envelopes;
mod topic;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_kafka::survey::{Seen as Record, survey};
use plimsoll_kafka::{Cluster, scenario as kafka};
use plimsoll_stores::audit::{Expected, Identified, Part, Report, checksum, scan};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::namespace::Namespace;
use plimsoll_stores::scenario::{Insert, Named, Transactional, Vector};
use plimsoll_stores::sink::vector::By;
use plimsoll_stores::topics::Topics;

use topic::Topic;

use super::typed::{PipelineFile, SinkSection, SourceSection, TransformSection};

/// How long a topic may be silent before the audit gives up.
const SILENCE: Duration = Duration::from_secs(60);
/// Runs of offsets that are shown, of each partition.
const SHOWN: usize = 5;

/// What is asked: a topic, and where each of its records should be once.
pub struct Question {
    source: kafka::Source,
    destination: Destination,
}

enum Destination {
    /// Collections, whose documents say which records they are.
    Collections(Collections),
    /// Topics, whose records are known by what they say.
    Topics(Topic),
}

struct Collections {
    uri: String,
    parts: Vec<Part>,
    topics: Topics,
    /// Whether they hold payloads as they were in the topic.
    summed: bool,
    /// The kind of sink of dead letters, if they are in no collection.
    letters_elsewhere: Option<&'static str>,
}

impl Question {
    /// What a pipeline's file asks.
    ///
    /// # Errors
    /// When its destination cannot say which records it holds, or leaves some out on purpose.
    pub fn of(file: &PipelineFile) -> anyhow::Result<Self> {
        let SourceSection::Kafka(source) = &file.source else {
            bail!("only a pipeline from Kafka can be audited: its topic can be read again")
        };
        for transform in &file.transforms {
            if leaves_out(transform) {
                bail!(
                    "a transform of this pipeline leaves events out, so nobody can say which ones should be there"
                );
            }
        }
        let destination = match &file.sink {
            SinkSection::Kafka(sink) => Destination::Topics(Topic::of(file, sink)?),
            _ => Destination::Collections(Collections::of(file)?),
        };
        Ok(Self { source: source.clone(), destination })
    }

    /// What must be known before the answer is read.
    pub fn caution(&self) -> Option<String> {
        let Destination::Collections(Collections { letters_elsewhere: Some(kind), .. }) = &self.destination
        else {
            return None;
        };
        Some(format!(
            "the dead letters go to `{kind}`, where audit does not look: each counts as missing until it is replayed"
        ))
    }

    /// Reads the topic and the destination.
    ///
    /// # Errors
    /// When one of them cannot be read to its end.
    pub fn answer(&self) -> anyhow::Result<Report> {
        match &self.destination {
            Destination::Collections(collections) => collections.answer(&self.source),
            Destination::Topics(topic) => topic.answer(&self.source),
        }
    }
}

impl Collections {
    fn of(file: &PipelineFile) -> anyhow::Result<Self> {
        let (uri, namespace, mut parts, topics) = match &file.sink {
            SinkSection::Insert(insert) => of_insert(insert)?,
            SinkSection::Transactional(transactional) => of_transactional(transactional)?,
            SinkSection::Vector(vector) => of_vector(vector)?,
            other => bail!(
                "a destination `{}` does not say which events it holds: audit inserts, transactions, vectors and topics",
                other.kind()
            ),
        };
        if let Some(SinkSection::Insert(letters)) = &file.dead_letters {
            let (letters_uri, _, more, _) = of_insert(letters).context("read `dead_letters`")?;
            if letters_uri != uri {
                bail!("the dead letters are in another deployment than the events: audit needs both in one");
            }
            parts.extend(more);
        }
        let elsewhere =
            file.dead_letters.as_ref().filter(|letters| !matches!(letters, SinkSection::Insert(_)));
        let letters_elsewhere = elsewhere.map(SinkSection::kind);
        let summed = file.transforms.iter().all(keeps_payload)
            && parts.iter().all(|part| matches!(part.form, Form::Bson | Form::Full))
            // A vector stands among the fields of a payload that is the document.
            && !matches!(&file.sink, SinkSection::Vector(vector) if vector.form != Form::Full);
        Ok(Self { uri, parts, topics: Topics::of(&namespace, topics), summed, letters_elsewhere })
    }

    fn answer(&self, source: &kafka::Source) -> anyhow::Result<Report> {
        let number = self.topics.wished(&source.topic);
        let mut expected = learn(source, number, &mut |_| Ok(()))?;
        if !self.summed {
            expected.iter_mut().for_each(|partition| partition.checksum = None);
        }
        Ok(scan(&self.uri, expected, &self.parts)?)
    }
}

/// Reads a source's topic: what is expected of it, and each record for `see`.
fn learn(
    source: &kafka::Source,
    number: u32,
    see: &mut dyn FnMut(&Record<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Expected>> {
    let cluster = Cluster::build(&source.brokers, &source.properties)?;
    let mut partitions: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut told = Ok(());
    let extents = survey(&cluster, &source.topic, SILENCE, &mut |record| {
        partitions.entry(record.partition).or_default().see(record.offset, record.payload);
        if told.is_ok() {
            told = see(&record);
        }
    })?;
    told?;
    let expected = extents.into_iter().map(|extent| {
        let seen = partitions.remove(&extent.partition).unwrap_or_default();
        Expected {
            topic: source.topic.clone(),
            number,
            partition: extent.partition,
            offsets: extent.begin..extent.end,
            holes: seen.holes(extent.begin, extent.end),
            checksum: Some(seen.sum),
        }
    });
    Ok(expected.collect())
}

fn elsewhere(letters: &SinkSection) -> String {
    format!(
        "the dead letters go to `{}`, where audit cannot look for them: each would count as missing",
        letters.kind()
    )
}

/// The records of a partition that are there.
#[derive(Default)]
struct Seen {
    /// The runs of offsets, each as its first and the one behind its last.
    runs: Vec<(u64, u64)>,
    sum: u64,
}

impl Seen {
    fn see(&mut self, offset: u64, payload: Option<&[u8]>) {
        match self.runs.last_mut() {
            Some((_, end)) if *end == offset => *end += 1,
            _ => self.runs.push((offset, offset + 1)),
        }
        self.sum = self.sum.wrapping_add(checksum(offset, payload.map(|payload| [payload])));
    }

    /// The offsets between `begin` and `end` that no record has: marks of transactions, and what compaction took.
    fn holes(&self, begin: u64, end: u64) -> Vec<std::ops::Range<u64>> {
        let mut holes = Vec::new();
        let mut next = begin;
        for (first, behind) in &self.runs {
            if *first > next {
                holes.push(next..*first);
            }
            next = *behind;
        }
        if next < end {
            holes.push(next..end);
        }
        holes
    }
}

fn leaves_out(transform: &TransformSection) -> bool {
    match transform {
        TransformSection::Filter(_) | TransformSection::Sample(_) | TransformSection::Count(_) => true,
        TransformSection::Map(map) => map.expression.is_some() || !map.set.is_empty(),
        TransformSection::Encode(_) | TransformSection::Decode(_) => false,
        #[cfg(feature = "embedding")]
        TransformSection::Embed(_) => false,
    }
}

/// Whether the payload of an event is what it was when this is done.
fn keeps_payload(transform: &TransformSection) -> bool {
    match transform {
        TransformSection::Filter(_) | TransformSection::Sample(_) => true,
        TransformSection::Count(_) | TransformSection::Map(_) => false,
        TransformSection::Encode(_) | TransformSection::Decode(_) => false,
        #[cfg(feature = "embedding")]
        TransformSection::Embed(_) => true,
    }
}

type Found = (String, Namespace, Vec<Part>, BTreeMap<String, u32>);

fn of_insert(insert: &Insert) -> anyhow::Result<Found> {
    let namespace: Namespace = insert.collection.parse().context("read `collection`")?;
    let identified = match (&insert.identity, &insert.source_field) {
        (Named::Source, _) => Identified::ById,
        (_, Some(field)) => Identified::ByField(field.clone()),
        (_, None) => bail!(
            "documents with ids of their own do not say which events they are: give the sink a `source_field`"
        ),
    };
    let part = Part { namespace: namespace.clone(), identified, form: insert.form };
    Ok((insert.uri.clone(), namespace, vec![part], insert.topics.clone()))
}

fn of_vector(vector: &Vector) -> anyhow::Result<Found> {
    if vector.by != By::Source {
        bail!(
            "documents of `by: key` hold the newest event of a key, so nobody can say which ones should be there: audit vectors \
             that are kept `by: source`"
        );
    }
    let namespace: Namespace = vector.collection.parse().context("read `collection`")?;
    let part = Part { namespace: namespace.clone(), identified: Identified::ById, form: vector.form };
    Ok((vector.uri.clone(), namespace, vec![part], vector.topics.clone()))
}

fn of_transactional(sink: &Transactional) -> anyhow::Result<Found> {
    let namespace: Namespace = sink.collection.parse().context("read `collection`")?;
    let letters = match &sink.dead_letters {
        Some(name) => name.parse().context("read `dead_letters`")?,
        None => namespace.beside(&format!("{}_dead_letters", namespace.collection)),
    };
    let data = Part { namespace: namespace.clone(), identified: Identified::ById, form: sink.form };
    let letters = Part { namespace: letters, identified: Identified::ById, form: Form::Full };
    Ok((sink.uri.clone(), namespace, vec![data, letters], sink.topics.clone()))
}

/// An audit as text.
pub fn words(report: &Report) -> String {
    let mut out = String::new();
    let foreign: BTreeSet<_> =
        [(report.foreign, "not named by any pipeline"), (report.unexpected, "of no event of this topic")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .collect();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} documents or records were read", report.documents);
    for (count, what) in foreign {
        let _ = writeln!(out, "  {count} {what}");
    }
    for one in &report.partitions {
        let _ = writeln!(
            out,
            "  {}/{}: {} of {} events; {} missing, {} doubled, {} strange{}",
            one.topic,
            one.partition,
            one.found,
            one.expected,
            one.missing,
            one.duplicates,
            one.strangers,
            match one.checksum {
                Some(sums) if sums.expected == sums.found => ", payloads as they were",
                Some(_) => ", payloads altered or missing",
                None => "",
            }
        );
        for gap in one.gaps.iter().take(SHOWN) {
            let _ = writeln!(out, "    missing {} to {}", gap.first, gap.last);
        }
    }
    out.push_str(if report.holds() {
        "everything is there, once\n"
    } else {
        "the destination does not hold what the topic has\n"
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(rest: &str) -> anyhow::Result<Question> {
        let text = format!("source: {{kafka: {{brokers: 'b:1', topic: t, group: g}}}}\n{rest}");
        Question::of(&serde_saphyr::from_str(&text).unwrap())
    }

    #[test]
    fn vectors_by_source_and_envelopes_in_a_topic_can_be_asked_for() {
        let vector = |by: &str| {
            question(&format!(
                "sink: {{vector: {{uri: 'mongodb://a', collection: d.c, by: {by}, form: full}}}}\n"
            ))
        };
        let asked = vector("source").unwrap();
        let Destination::Collections(collections) = asked.destination else { panic!("it is a collection") };
        assert!(collections.summed, "a document of the full form has the payload as it was");
        let refused = vector("key").err().unwrap().to_string();
        assert!(refused.contains("`by: source`"), "{refused}");
        let topic = |transforms: &str| {
            question(&format!("transforms: {transforms}\nsink: {{kafka: {{brokers: 'b:1', topic: u}}}}\n"))
        };
        topic("[encode: {}]").unwrap();
        let refused = topic("[map: {project: [a]}]").err().unwrap().to_string();
        assert!(refused.contains("`encode` and `decode` at most"), "{refused}");
    }

    #[test]
    fn offsets_that_no_record_has_are_holes() {
        let mut seen = Seen::default();
        [3, 4, 7, 8, 9].into_iter().for_each(|offset| seen.see(offset, None));
        assert_eq!(seen.holes(2, 11), [2..3, 5..7, 10..11]);
        assert_eq!(Seen::default().holes(0, 0), []);
    }
}
