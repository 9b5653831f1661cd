//! Compares the destination of a pipeline with its topic.

mod collections;
mod envelopes;
mod topic;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::bail;
use plimsoll_kafka::topic_scan::{self, Record};
use plimsoll_kafka::{Cluster, scenario as kafka};
use plimsoll_stores::audit::{Expected, Report, checksum};

use collections::Collections;
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

/// Reads a source's topic: what is expected of it, and each record for `see`.
fn learn(
    source: &kafka::Source,
    number: u32,
    see: &mut dyn FnMut(&Record<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Expected>> {
    let cluster = Cluster::build(&source.brokers, &source.properties)?;
    let mut partitions: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut told = Ok(());
    let extents = topic_scan::scan(&cluster, &source.topic, SILENCE, &mut |record| {
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
