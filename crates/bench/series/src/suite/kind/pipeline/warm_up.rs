//! Builds the warm-up of a pipeline: a short run under other names, which leaves no data.

use anyhow::{bail, ensure};
use plimsoll_measure::duration::Span;

use crate::suite::kind::{WarmUp, arguments};
use crate::suite::topics::WARM_UP as APART;
use crate::suite::typed::Row;
use plimsoll_stream::{PipelineFile, SinkSection, SourceSection};

/// The warm-up of a row.
///
/// # Errors
/// When the row cannot have a warm-up. The error names the reason.
pub fn build(
    name: &str,
    sets: &[String],
    file: &PipelineFile,
    row: &Row,
    time: Span,
) -> anyhow::Result<WarmUp> {
    ensure!(
        file.positions.is_none() && file.dead_letters.is_none(),
        "warm_up: this pipeline keeps positions or dead letters, and a warm-up would write there too: \
         leave it out, or give it 0s"
    );
    let mut sets = sets.to_vec();
    sets.push(format!("name={}{APART}", file.name));
    sets.extend(source(file)?);
    let Sink { more, collection, topics } = sink(file, row)?;
    sets.extend(more);
    let mut words = arguments(&["pipeline", "run", name], &sets);
    words.extend(["--for".to_owned(), time.to_string()]);
    Ok(WarmUp { arguments: words, collection, topics })
}

fn source(file: &PipelineFile) -> anyhow::Result<Option<String>> {
    match &file.source {
        SourceSection::Generator(_) => Ok(None),
        #[cfg(feature = "kafka")]
        SourceSection::Kafka(kafka) => Ok(Some(format!("source.kafka.group={}{APART}", kafka.group))),
        other => bail!("warm_up: not supported for source `{}`: leave it out, or give it 0s", other.kind()),
    }
}

/// The destination of a warm-up.
#[derive(Default)]
struct Sink {
    more: Vec<String>,
    collection: Option<&'static str>,
    topics: Vec<String>,
}

fn sink(file: &PipelineFile, row: &Row) -> anyhow::Result<Sink> {
    let stored = |collection| {
        let known = row.server.is_some();
        ensure!(known, "warm_up: it writes only to the row's `server`: set `server`, or give it 0s");
        Ok(Sink { collection: Some(collection), ..Sink::default() })
    };
    match &file.sink {
        SinkSection::Noop(_) => Ok(Sink::default()),
        SinkSection::Insert(_) => stored("sink.insert.collection"),
        SinkSection::Keyed(_) => stored("sink.keyed.collection"),
        SinkSection::Vector(_) => stored("sink.vector.collection"),
        SinkSection::Transactional(_) => stored("sink.transactional.collection"),
        #[cfg(feature = "kafka")]
        SinkSection::Kafka(kafka) => {
            ensure!(
                row.broker.is_some(),
                "warm_up: it writes only to the row's `broker`: set `broker`, or give it 0s"
            );
            Ok(written(kafka))
        }
        #[cfg(not(feature = "kafka"))]
        SinkSection::Kafka(_) => bail!(plimsoll_stream::missing::NO_KAFKA),
        other @ SinkSection::File(_) => {
            bail!("warm_up: not supported for sink `{}`: leave it out, or give it 0s", other.kind())
        }
    }
}

#[cfg(feature = "kafka")]
fn written(kafka: &plimsoll_kafka::scenario::Sink) -> Sink {
    let apart = |name: &str| format!("{name}{APART}");
    let mut sink = Sink { topics: vec![apart(&kafka.topic)], ..Sink::default() };
    sink.more.push(format!("sink.kafka.topic={}", apart(&kafka.topic)));
    if let Some(once) = &kafka.exactly_once {
        let id = apart(&once.transactional_id);
        sink.more.push(format!("sink.kafka.exactly_once.transactional_id={id}"));
        if let Some(letters) = &once.dead_letters {
            sink.more.push(format!("sink.kafka.exactly_once.dead_letters={}", apart(letters)));
            sink.topics.push(apart(letters));
        }
    }
    sink
}
