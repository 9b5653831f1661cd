//! Decides which Kafka topics a pipeline test creates and fills, from its file and its row.

use std::str::FromStr;

use anyhow::{bail, ensure};
use plimsoll_mongo::scenario::Existing;
use serde_json::{Value, json};

use super::fill::{Each, Fill};
use super::typed::Row;
use plimsoll_stream::PipelineFile;

/// The default partitions of a created topic; a recreated topic keeps its own.
pub const PARTITIONS: u32 = 4;
/// The maximum number of partitions: a generator has a thread for each.
const PARTITIONS_MAX: u32 = 64;

/// The suffix of the names of a warm-up's groups, topics and writers.
pub const WARM_UP: &str = "-warm-up";

/// The brokers of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broker {
    /// The installed broker, started for the run.
    Installed,
    /// Running brokers at `host:port`.
    At(String),
}

impl FromStr for Broker {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "installed" => Ok(Self::Installed),
            _ if text.contains(':') => Ok(Self::At(text.to_owned())),
            _ => bail!("broker {text}: write installed, or host:port such as localhost:9092"),
        }
    }
}

/// The topics of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    /// Their brokers.
    pub broker: Broker,
    /// The topic that it reads.
    pub read: Option<String>,
    /// The group that reads it.
    pub group: Option<String>,
    /// The topics that it writes.
    pub written: Vec<String>,
    /// The fill of the topic that it reads.
    pub fill: Option<Fill>,
    /// The partitions of created topics, if the row gives them.
    pub partitions: Option<u32>,
    /// The rule for a topic that is not empty; `append` changes no topic.
    pub rule: Existing,
    /// The client's properties, from the pipeline's file.
    pub properties: Value,
}

impl Topics {
    /// The topics of a pipeline's file, if it has any.
    ///
    /// # Errors
    /// When a column is invalid. The error names the first.
    pub fn of(file: &mut PipelineFile, row: &Row) -> anyhow::Result<Option<Self>> {
        let named = file.brokers().first().map(|brokers| (*brokers).clone());
        let Some(named) = named else {
            ensure!(row.fill.is_none(), "fill: this pipeline reads no topic: leave it out");
            ensure!(row.partitions.is_none(), "partitions: this pipeline has no topics: leave it out");
            return Ok(None);
        };
        let broker = row.broker.as_ref().map_or(Ok(Broker::At(named)), |text| text.parse())?;
        let read = file.topic_read().map(str::to_owned);
        let group = file.group().map(str::to_owned);
        check(row, &broker, read.as_deref())?;
        let rule = match (&row.broker, row.existing) {
            (None, _) => Existing::Append,
            (Some(_), existing) => existing.map_or(Existing::Refuse, Into::into),
        };
        let written = file.topics_written().into_iter().map(str::to_owned).collect();
        let partitions = row.partitions;
        let properties = properties(file);
        Ok(Some(Self { broker, read, group, written, fill: row.fill, partitions, rule, properties }))
    }

    /// Whether the brokers are external: they stay after the run.
    pub fn are_external(&self) -> bool {
        self.broker != Broker::Installed
    }

    /// All topics, with the read topic first.
    pub fn all(&self) -> Vec<&str> {
        self.read.iter().chain(&self.written).map(String::as_str).collect()
    }

    /// The topics that are created before a run: the written topics, and the read topic if it is filled.
    pub fn created(&self) -> Vec<&str> {
        if self.rule == Existing::Append {
            return Vec::new();
        }
        let filled = self.read.iter().filter(|_| self.fill.is_some());
        filled.chain(&self.written).map(String::as_str).collect()
    }

    /// The groups that must start at the beginning of a recreated topic on running brokers: those of the run and of its
    /// warm-up. They may have committed offsets of an earlier topic of that name.
    pub fn reset_groups(&self) -> Vec<String> {
        let again = self.are_external() && self.fill.is_some() && self.rule != Existing::Append;
        let groups = self.group.iter().filter(|_| again);
        groups.flat_map(|group| [group.clone(), format!("{group}{WARM_UP}")]).collect()
    }

    /// The file of a pipeline that fills the read topic, for its brokers and its number of partitions.
    pub fn filling(&self, brokers: &str, partitions: usize) -> Option<String> {
        let (topic, fill) = (self.read.as_ref()?, self.fill?);
        let mut generator = json!({"partitions": partitions, "events": fill.events});
        match fill.each {
            Each::Bytes(bytes) => generator["payload"] = json!(bytes.to_string()),
            Each::Words(words) => generator["words"] = json!(words),
        }
        let mut sink = json!({"brokers": brokers, "topic": topic, "placing": "same"});
        if !self.properties.is_null() {
            sink["properties"] = self.properties.clone();
        }
        let file = json!({
            "name": "fill", "guarantee": "at-most-once", "source": {"generator": generator}, "sink": {"kafka": sink},
        });
        // JSON is YAML.
        Some(format!("{file:#}\n"))
    }
}

fn check(row: &Row, broker: &Broker, read: Option<&str>) -> anyhow::Result<()> {
    let partitions = row.partitions.unwrap_or(PARTITIONS);
    ensure!(
        (1..=PARTITIONS_MAX).contains(&partitions),
        "partitions {partitions}: give a number from 1 to {PARTITIONS_MAX}"
    );
    ensure!(row.fill.is_none() || read.is_some(), "fill: this pipeline reads no topic: leave it out");
    ensure!(
        row.fill.is_none() || row.broker.is_some(),
        "fill: set `broker`: a topic is filled only on brokers that the row names"
    );
    ensure!(
        row.fill.is_some() || read.is_none() || *broker != Broker::Installed,
        "broker installed: this pipeline reads a topic, which would be empty: set `fill`"
    );
    Ok(())
}

/// The properties of the first Kafka section.
#[cfg(feature = "kafka")]
fn properties(file: &PipelineFile) -> Value {
    use plimsoll_stream::{SinkSection, SourceSection};
    let properties = match (&file.source, &file.sink) {
        (SourceSection::Kafka(source), _) => &source.properties,
        (_, SinkSection::Kafka(sink)) => &sink.properties,
        _ => return Value::Null,
    };
    serde_json::to_value(properties).unwrap_or_default()
}

#[cfg(not(feature = "kafka"))]
const fn properties(_: &PipelineFile) -> Value {
    Value::Null
}

#[cfg(test)]
#[cfg(feature = "kafka")]
mod tests {
    use super::*;

    const COPY: &str = "source: {kafka: {brokers: 'h:1', topic: in, group: g, properties: {linger.ms: 5}}}\n\
                        sink: {kafka: {brokers: 'h:1', topic: out}}\n";
    const GENERATED: &str = "guarantee: at-most-once\nsource: {generator: {}}\nsink: {noop: {}}\n";

    fn topics(text: &str, columns: &[(&str, &str)]) -> anyhow::Result<Option<Topics>> {
        let mut row = Row::default();
        columns.iter().for_each(|(column, text)| row.put(column, text).unwrap());
        Topics::of(&mut serde_saphyr::from_str(text).unwrap(), &row)
    }

    #[test]
    fn a_row_without_a_broker_changes_no_topic() {
        let topics = topics(COPY, &[]).unwrap().unwrap();
        assert_eq!((topics.broker.clone(), topics.rule), (Broker::At("h:1".into()), Existing::Append));
        assert_eq!((topics.all(), topics.created()), (vec!["in", "out"], vec![]));
    }

    #[test]
    fn a_filled_topic_is_created_and_a_topic_that_is_only_read_is_not() {
        let at = topics(COPY, &[("broker", "b:2")]).unwrap().unwrap();
        assert_eq!((at.created(), at.rule, at.are_external()), (vec!["out"], Existing::Refuse, true));
        assert!(at.reset_groups().is_empty(), "the group's offsets of a foreign topic stay");
        let filled = [("broker", "installed"), ("fill", "7 of 64B"), ("existing", "drop")];
        let filled = topics(COPY, &filled).unwrap().unwrap();
        assert_eq!(
            (filled.created(), filled.rule, filled.are_external()),
            (vec!["in", "out"], Existing::Drop, false)
        );
        assert!(filled.reset_groups().is_empty(), "new brokers hold no committed offsets");
        let external = topics(COPY, &[("broker", "b:2"), ("fill", "7 of 64B")]).unwrap().unwrap();
        assert_eq!(external.reset_groups(), ["g", "g-warm-up"]);
        let file: Value = serde_json::from_str(&filled.filling("b:2", 3).unwrap()).unwrap();
        assert_eq!(file["source"]["generator"], json!({"partitions": 3, "events": 7, "payload": "64B"}));
        assert_eq!(file["sink"]["kafka"]["properties"], json!({"linger.ms": "5"}));
        let words = topics(COPY, &[("broker", "b:2"), ("fill", "7 of 14 words")]).unwrap().unwrap();
        let file: Value = serde_json::from_str(&words.filling("b:2", 1).unwrap()).unwrap();
        assert_eq!(file["source"]["generator"]["words"], 14);
        assert!(
            topics(GENERATED, &[("broker", "installed")]).unwrap().is_none(),
            "a pipeline without topics needs no broker"
        );
    }

    #[test]
    fn invalid_columns_are_refused_with_the_remedy() {
        for (text, columns, part) in [
            (GENERATED, &[("fill", "7 of 64B")][..], "reads no topic"),
            (GENERATED, &[("partitions", "4")], "has no topics"),
            (COPY, &[("fill", "7 of 64B")], "set `broker`"),
            (COPY, &[("broker", "installed")], "which would be empty: set `fill`"),
            (COPY, &[("broker", "somewhere")], "write installed, or host:port"),
            (COPY, &[("partitions", "65")], "from 1 to 64"),
            (COPY, &[("partitions", "0")], "from 1 to 64"),
        ] {
            let message = format!("{:#}", topics(text, columns).unwrap_err());
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
