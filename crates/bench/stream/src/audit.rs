//! Compares the destination of a pipeline with its topic.

mod collections;
mod envelopes;
mod topic;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use plimsoll_kafka::topic_scan::{self, Record};
use plimsoll_kafka::{Cluster, scenario as kafka};
use plimsoll_measure::stream::{Produced, checksum};
use plimsoll_stores::audit::{BrokerReport, Expected, Kept, PartitionReport, Report, Run};

use collections::Collections;
use topic::Topic;

use super::dir::read_produced;
use super::typed::{PipelineFile, SinkSection, SourceSection, TransformSection};

/// The time without a record after which the audit gives up.
const SILENCE: Duration = Duration::from_secs(60);
/// The largest number of ranges that the report lists for each partition.
const GAPS_MAX: usize = 5;

/// An audit: a topic, and the destination that should contain each of its records once.
pub struct Question {
    source: kafka::Source,
    destination: Destination,
    /// The records that the topic's producer had acknowledged.
    ledger: Vec<Produced>,
}

enum Destination {
    /// Collections, whose documents identify their records.
    Collections(Collections),
    /// Topics, whose records are identified by their content.
    Topics(Topic),
}

impl Question {
    /// Builds the audit of a pipeline's file.
    ///
    /// # Errors
    /// The destination cannot identify its records, or omits some on purpose.
    pub fn of(file: &PipelineFile) -> anyhow::Result<Self> {
        let SourceSection::Kafka(source) = &file.source else {
            bail!("only a pipeline from Kafka can be audited, because its topic can be read again")
        };
        for transform in &file.transforms {
            if removes_events(transform) {
                bail!("a transform of this pipeline removes events, so the expected events are unknown");
            }
        }
        let destination = match &file.sink {
            SinkSection::Kafka(sink) => Destination::Topics(Topic::of(file, sink)?),
            _ => Destination::Collections(Collections::of(file)?),
        };
        Ok(Self { source: source.clone(), destination, ledger: Vec::new() })
    }

    /// Compares the topic also with the ledgers in the directories of the runs that produced its records. Without them the audit
    /// expects the records that the topic has now.
    ///
    /// # Errors
    /// A ledger cannot be read, or none of them knows the topic.
    pub fn with_ledgers(mut self, runs: &[impl AsRef<Path>]) -> anyhow::Result<Self> {
        // A directory that is named twice would count its records twice.
        let known = |run: &Path| run.canonicalize().unwrap_or_else(|_| run.to_owned());
        let runs: BTreeSet<_> = runs.iter().map(|run| known(run.as_ref())).collect();
        for run in runs {
            self.ledger.extend(read_produced(&run)?);
        }
        let topic = &self.source.topic;
        if let Some(other) = self.ledger.iter().find(|range| range.topic != *topic) {
            bail!(
                "the ledger is that of the topic `{}`, and the pipeline reads `{topic}`: name a run that produced `{topic}`",
                other.topic
            );
        }
        Ok(self)
    }

    /// Warns of dead letters outside of the audit.
    pub fn caution(&self) -> Option<String> {
        let Destination::Collections(Collections { letters_outside: Some(kind), .. }) = &self.destination
        else {
            return None;
        };
        Some(format!(
            "the dead letters go to `{kind}`, which audit does not read: each counts as missing until it is replayed"
        ))
    }

    /// Reads the topic and the destination.
    ///
    /// # Errors
    /// One of them cannot be read to its end.
    pub fn answer(&self) -> anyhow::Result<Report> {
        let mut kept = Kept::new(self.ledger.clone());
        let report = match &self.destination {
            Destination::Collections(collections) => collections.answer(&self.source, &mut kept),
            Destination::Topics(topic) => topic.answer(&self.source, &mut kept),
        };
        Ok(Report { broker: kept.finish(), ..report? })
    }
}

/// Reads a source's topic: returns the expected records of each partition, and passes each record to `kept` and `see`.
fn read_topic(
    source: &kafka::Source,
    number: u32,
    kept: &mut Kept,
    see: &mut dyn FnMut(&Record<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Expected>> {
    let cluster = Cluster::build(&source.brokers, &source.properties)?;
    let mut partitions: BTreeMap<u32, PartitionRecords> = BTreeMap::new();
    let mut seen = Ok(());
    let extents = topic_scan::scan(&cluster, &source.topic, SILENCE, &mut |record| {
        let checksum = checksum(record.offset, record.payload.map(|payload| [payload]));
        partitions.entry(record.partition).or_default().see(record.offset, checksum);
        kept.see(record.partition, record.offset, checksum);
        if seen.is_ok() {
            seen = see(&record);
        }
    })?;
    seen?;
    let expected = extents.into_iter().map(|extent| {
        let records = partitions.remove(&extent.partition).unwrap_or_default();
        Expected {
            topic: source.topic.clone(),
            number,
            partition: extent.partition,
            offsets: extent.begin..extent.end,
            holes: records.holes(extent.begin, extent.end),
            checksum: Some(records.sum),
        }
    });
    Ok(expected.collect())
}

fn outside_audit(letters: &SinkSection) -> String {
    format!(
        "the dead letters go to `{}`, which audit cannot read: each would count as missing",
        letters.kind()
    )
}

/// The records of a partition.
#[derive(Default)]
struct PartitionRecords {
    /// The ranges of offsets, each as its first offset and the offset after its last.
    runs: Vec<(u64, u64)>,
    sum: u64,
}

impl PartitionRecords {
    fn see(&mut self, offset: u64, checksum: u64) {
        match self.runs.last_mut() {
            Some((_, end)) if *end == offset => *end += 1,
            _ => self.runs.push((offset, offset + 1)),
        }
        self.sum = self.sum.wrapping_add(checksum);
    }

    /// The offsets between `begin` and `end` without a record: transaction markers and compacted records.
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

fn removes_events(transform: &TransformSection) -> bool {
    match transform {
        TransformSection::Filter(_) | TransformSection::Sample(_) | TransformSection::Count(_) => true,
        TransformSection::Map(map) => map.expression.is_some() || !map.set.is_empty(),
        TransformSection::Encode(_) | TransformSection::Decode(_) => false,
        #[cfg(feature = "embedding")]
        TransformSection::Embed(_) => false,
    }
}

/// Formats the report of an audit.
pub fn words(report: &Report) -> String {
    let mut out = String::new();
    let foreign: BTreeSet<_> =
        [(report.foreign, "without a pipeline's id"), (report.unexpected, "without an event in this topic")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .collect();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} documents or records were read", report.documents);
    for (count, what) in foreign {
        let _ = writeln!(out, "  {count} {what}");
    }
    if !report.broker.is_empty() {
        let acknowledged: u64 = report.broker.iter().map(|one| one.acknowledged).sum();
        let _ = writeln!(out, "{acknowledged} records were acknowledged to their producer");
    }
    report.broker.iter().for_each(|one| put_broker(&mut out, one));
    report.partitions.iter().for_each(|one| put_partition(&mut out, one));
    out.push_str(conclusion(report));
    if !report.broker_holds() {
        out.push_str(BROKER_LOST);
    }
    out
}

const BROKER_LOST: &str = "the broker does not have every record that it acknowledged: a loss of the broker, unless its retention, an \
                           administrator or another topic of that name removed them; the pipeline could not move them\n";

fn conclusion(report: &Report) -> &'static str {
    if report.destination_holds() {
        "every event is stored once\n"
    } else {
        "the destination does not match the topic\n"
    }
}

/// Appends the lines of a partition's events.
fn put_partition(out: &mut String, one: &PartitionReport) {
    let PartitionReport { topic, partition, found, expected, missing, duplicates, strangers, .. } = one;
    let payloads = match one.checksum {
        Some(sums) if sums.expected == sums.found => ", payloads unchanged",
        Some(_) => ", payloads altered or missing",
        None => "",
    };
    let _ = writeln!(
        out,
        "  {topic}/{partition}: {found} of {expected} events; {missing} missing, {duplicates} duplicated, {strangers} unexpected{payloads}"
    );
    for gap in one.gaps.iter().take(GAPS_MAX) {
        let _ = writeln!(out, "    missing {} to {}", gap.first, gap.last);
    }
}

/// Appends the lines of a partition's acknowledged records.
fn put_broker(out: &mut String, one: &BrokerReport) {
    let BrokerReport { topic, partition, acknowledged, lost, replaced, .. } = one;
    let kept = acknowledged - lost;
    let ranges = replaced.len() as u64 + one.replaced_left_out;
    let _ = writeln!(
        out,
        "  {topic}/{partition}: the broker has {kept} of {acknowledged} acknowledged records; {lost} lost, {ranges} ranges with other records"
    );
    let mut put = |what: &str, runs: &[Run]| {
        for run in runs.iter().take(GAPS_MAX) {
            let _ = writeln!(out, "    {what} {} to {}", run.first, run.last);
        }
    };
    put("lost by the broker", &one.gaps);
    put("other records at", replaced);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(rest: &str) -> anyhow::Result<Question> {
        let text = format!("source: {{kafka: {{brokers: 'b:1', topic: t, group: g}}}}\n{rest}");
        Question::of(&serde_saphyr::from_str(&text).unwrap())
    }

    #[test]
    fn vectors_by_source_and_envelopes_in_a_topic_can_be_audited() {
        let vector = |by: &str| {
            question(&format!(
                "sink: {{vector: {{uri: 'mongodb://a', collection: d.c, by: {by}, form: full}}}}\n"
            ))
        };
        let asked = vector("source").unwrap();
        let Destination::Collections(collections) = asked.destination else {
            panic!("the destination is a collection")
        };
        assert!(collections.summed, "a document of the full form contains the unchanged payload");
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
    fn a_directory_that_is_named_twice_counts_once_and_the_audit_says_how_many_records_it_names() {
        let out = tempfile::tempdir().unwrap();
        let line = r#"{"topic":"t","partition":0,"first":0,"last":4,"checksum":0}"#;
        std::fs::write(out.path().join("acknowledged.ndjson"), format!("{line}\n")).unwrap();
        let asked = question("sink: {kafka: {brokers: 'b:1', topic: u}}\n").unwrap();
        let asked = asked.with_ledgers(&[out.path().to_owned(), out.path().join(".")]).unwrap();
        assert_eq!(asked.ledger.len(), 1);
        let report = Report { broker: Kept::new(asked.ledger).finish(), ..Report::default() };
        assert!(words(&report).contains("\n5 records were acknowledged"), "{}", words(&report));
    }

    #[test]
    fn offsets_without_a_record_are_holes() {
        let mut records = PartitionRecords::default();
        [3, 4, 7, 8, 9].into_iter().for_each(|offset| records.see(offset, 0));
        assert_eq!(records.holes(2, 11), [2..3, 5..7, 10..11]);
        assert_eq!(PartitionRecords::default().holes(0, 0), []);
    }
}
