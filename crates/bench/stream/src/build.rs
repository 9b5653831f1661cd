//! Builds a pipeline from its file, and refuses every invalid value.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use plimsoll_measure::stream::Produced;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::position::FilePositions;
use plimsoll_pipeline::security::Security;
use plimsoll_pipeline::sink::{FileSink, Noop};
use plimsoll_pipeline::source::File;
use plimsoll_pipeline::transform::{Count, Decode, Encode, Filter, Map, Sample, Unmatched};
use plimsoll_pipeline::{
    Control, Parts, Pipeline, PositionStore, Settings, SinkFactory, Source, TransformFactory,
};
use plimsoll_report::stream::Labels;
use plimsoll_stores::document::form;
use plimsoll_stores::sink::keyed::PayloadId;

use super::conflicts;
use super::typed::{PipelineFile, PositionsSection, SinkSection, SourceSection, TransformSection};

/// A runnable pipeline and its description.
pub struct Built {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The control that ends it.
    pub control: Arc<Control>,
    /// The labels of its metrics.
    pub labels: Labels,
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The source, transforms and sink, as text.
    pub path: Vec<String>,
    /// The limit of events in flight.
    pub in_flight_events_max: usize,
    /// Takes the records that a broker acknowledged, for the ledger. `None` unless this pipeline produces the records of a topic.
    pub produced: Option<TakeProduced>,
}

/// Takes the acknowledged records since the last call: their ranges, and the number of those without an offset.
pub type TakeProduced = Box<dyn Fn() -> (Vec<Produced>, u64)>;

/// Builds the pipeline of a file whose relative paths start from `base`. Contacts the cluster of a Kafka
/// sink.
///
/// # Errors
/// An invalid value, and its remedy.
pub fn build(file: &PipelineFile, base: &Path) -> anyhow::Result<Built> {
    conflicts::check(file)?;
    let group = Group::of(file);
    // Transactions store the position of a generator as they store that of any other source.
    let resumes = file.positions.is_some() || matches!(file.sink, SinkSection::Transactional(_));
    let (sink, produced) = match ledgered(file).context("build `sink`")? {
        Some((sink, produced)) => (sink, Some(produced)),
        None => (sink(&file.sink, file, base, &group).context("build `sink`")?, None),
    };
    let parts = Parts {
        sources: sources(&file.source, resumes, base, &group).context("build `source`")?,
        transforms: transforms(file, base)?,
        sink,
        dead_letters: dead_letters(file, base, &group)?,
        positions: positions(file, base, &group)?,
    };
    Ok(Built { produced, ..assemble(file, file.source.kind(), parts, settings(file))? })
}

/// A sink with a ledger, if the file produces the records of a topic itself. Copied records need no ledger: an audit compares
/// them with their source.
#[cfg(feature = "kafka")]
fn ledgered(file: &PipelineFile) -> anyhow::Result<Option<(Box<dyn SinkFactory>, TakeProduced)>> {
    let (SourceSection::Generator(_), SinkSection::Kafka(typed)) = (&file.source, &file.sink) else {
        return Ok(None);
    };
    if typed.exactly_once.is_some() {
        return Ok(None);
    }
    let ledger = Arc::new(plimsoll_kafka::sink::Acknowledged::default());
    let sink = plimsoll_kafka::sink::Topic::build(typed)?.with_ledger(Arc::clone(&ledger));
    Ok(Some((
        Box::new(sink),
        Box::new(move || {
            let taken = ledger.take();
            (taken.ranges, taken.without_offset)
        }),
    )))
}

#[cfg(not(feature = "kafka"))]
#[expect(clippy::unnecessary_wraps, reason = "with Kafka it may fail")]
const fn ledgered(_: &PipelineFile) -> anyhow::Result<Option<(Box<dyn SinkFactory>, TakeProduced)>> {
    Ok(None)
}

/// Assembles a pipeline from its parts, if they can give its guarantee; `source` is the kind of its source.
pub(super) fn assemble(
    file: &PipelineFile,
    source: &str,
    parts: Parts,
    settings: Settings,
) -> anyhow::Result<Built> {
    let mut path = vec![source.to_owned()];
    path.extend(parts.transforms.iter().map(|transform| transform.name().to_owned()));
    path.push(file.sink.kind().to_owned());
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).context("build the pipeline")?;
    let labels = Labels { pipeline: file.name.clone(), source: source.into(), sink: file.sink.kind().into() };
    let (guarantee, in_flight_events_max) = (settings.guarantee, settings.limits.events_max);
    Ok(Built { pipeline, control, labels, guarantee, path, in_flight_events_max, produced: None })
}

/// The state that a Kafka source and a Kafka sink share, if the sink's transactions store the source's
/// offsets.
#[derive(Default)]
pub(super) struct Group {
    #[cfg(feature = "kafka")]
    pub(super) membership: Arc<plimsoll_kafka::Membership>,
    #[cfg(feature = "kafka")]
    in_transactions: bool,
}

impl Group {
    #[cfg(feature = "kafka")]
    fn of(file: &PipelineFile) -> Self {
        let in_transactions = matches!(&file.sink, SinkSection::Kafka(typed) if typed.exactly_once.is_some());
        Self { in_transactions, ..Self::default() }
    }

    #[cfg(not(feature = "kafka"))]
    const fn of(_file: &PipelineFile) -> Self {
        Self {}
    }
}

pub(super) fn settings(file: &PipelineFile) -> Settings {
    Settings {
        guarantee: file.guarantee.into(),
        limits: file.in_flight.into(),
        executor: file.threads.into(),
        retry: file.retry.into(),
        commit_every: Duration::from_nanos(file.commit_every.as_ns()),
        dead_letter_limit: file.dead_letter_limit.map(Into::into),
        seed: 1,
    }
}

#[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "only Kafka has groups"))]
fn sources(
    section: &SourceSection,
    resumes: bool,
    base: &Path,
    group: &Group,
) -> anyhow::Result<Vec<Box<dyn Source>>> {
    Ok(match section {
        SourceSection::Generator(made_up) => {
            let generators = made_up.build(resumes).map_err(|words| anyhow!("{words}"))?;
            generators.into_iter().map(|generator| Box::new(generator) as Box<dyn Source>).collect()
        }
        SourceSection::File(settings) => {
            let mut settings = settings.clone();
            settings.path = rooted(&settings.path, base);
            vec![Box::new(File::new(settings))]
        }
        #[cfg(feature = "kafka")]
        SourceSection::Kafka(typed) => {
            let source = plimsoll_kafka::Source::build(typed)?;
            let shared = group.in_transactions.then(|| Arc::clone(&group.membership));
            vec![match shared {
                Some(membership) => Box::new(source.with_membership(membership)),
                None => Box::new(source),
            }]
        }
        #[cfg(not(feature = "kafka"))]
        SourceSection::Kafka(missing) => match *missing {},
        SourceSection::ChangeStream(typed) => vec![Box::new(typed.build()?)],
        SourceSection::Scan(typed) => vec![Box::new(typed.build()?)],
    })
}

pub(super) fn transforms(file: &PipelineFile, base: &Path) -> anyhow::Result<Vec<Box<dyn TransformFactory>>> {
    let security = file.security.clone().map(|settings| {
        let security = Security::build(settings.rooted(base)).context("build `security`")?;
        Ok(Box::new(security) as Box<dyn TransformFactory>)
    });
    let others = file.transforms.iter().enumerate();
    let others = others.map(|(at, section)| {
        transform(section, file, base).with_context(|| format!("build `transforms.{at}`"))
    });
    security.into_iter().chain(others).collect()
}

/// The fate of events without a result: a copy deletes their documents, if its source has the deletes of documents too.
fn unmatched(file: &PipelineFile) -> Unmatched {
    match file.sink {
        SinkSection::Keyed(_) if conflicts::has_deletes(&file.source) => {
            Unmatched::Delete { names_document: form::has_id }
        }
        _ => Unmatched::Drop,
    }
}

/// The rule of a copy for the `_id` of a payload whose key has an `_id` too. The keys of a topic may name something else than
/// documents, such as a position in a change stream. So without a `map`, which may change the `_id`, its payloads keep theirs.
pub(super) fn payload_id(file: &PipelineFile) -> PayloadId {
    let has_map = file.transforms.iter().any(|transform| matches!(transform, TransformSection::Map(_)));
    let may_differ = matches!(file.source, SourceSection::Kafka(_)) && !has_map;
    if conflicts::has_deletes(&file.source) && !may_differ { PayloadId::OfKey } else { PayloadId::Any }
}

#[cfg_attr(not(feature = "embedding"), expect(unused_variables, reason = "only models are files"))]
fn transform(
    section: &TransformSection,
    file: &PipelineFile,
    base: &Path,
) -> anyhow::Result<Box<dyn TransformFactory>> {
    Ok(match section {
        TransformSection::Filter(settings) => {
            Box::new(Filter::build(settings.clone())?.with_unmatched(unmatched(file)))
        }
        TransformSection::Map(settings) => Box::new(Map::build(settings)?.with_unmatched(unmatched(file))),
        TransformSection::Sample(settings) => Box::new(Sample::build(*settings)?),
        TransformSection::Count(settings) => Box::new(Count::build(*settings)?),
        TransformSection::Encode(_) => Box::new(Encode),
        TransformSection::Decode(_) => Box::new(Decode),
        #[cfg(feature = "embedding")]
        TransformSection::Embed(section) => {
            Box::new(section.rooted(base).build("embed", plimsoll_run::server_provisioning::cache()?.root())?)
        }
        #[cfg(not(feature = "embedding"))]
        TransformSection::Embed(missing) => match *missing {},
    })
}

#[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "only Kafka has groups"))]
pub(super) fn sink(
    section: &SinkSection,
    file: &PipelineFile,
    base: &Path,
    group: &Group,
) -> anyhow::Result<Box<dyn SinkFactory>> {
    Ok(match section {
        SinkSection::Noop(_) => Box::new(Noop),
        SinkSection::File(settings) => {
            let mut settings = settings.clone();
            settings.path = rooted(&settings.path, base);
            Box::new(FileSink::new(settings))
        }
        #[cfg(feature = "kafka")]
        SinkSection::Kafka(typed) => match &typed.exactly_once {
            Some(once) => {
                let membership = Arc::clone(&group.membership);
                Box::new(plimsoll_kafka::exactly_once::Topic::build(typed, once, membership)?)
            }
            None => Box::new(plimsoll_kafka::sink::Topic::build(typed)?),
        },
        #[cfg(not(feature = "kafka"))]
        SinkSection::Kafka(missing) => match *missing {},
        SinkSection::Insert(typed) => Box::new(typed.build()?),
        SinkSection::Keyed(typed) => Box::new(typed.build(payload_id(file))?),
        SinkSection::Vector(typed) => Box::new(typed.build()?),
        SinkSection::Transactional(typed) => Box::new(typed.build(&file.name)?),
    })
}

fn dead_letters(
    file: &PipelineFile,
    base: &Path,
    group: &Group,
) -> anyhow::Result<Option<Box<dyn SinkFactory>>> {
    let Some(section) = &file.dead_letters else { return Ok(None) };
    sink(section, file, base, group).context("build `dead_letters`").map(Some)
}

/// The position store of the file, or that of a transactional sink.
fn positions(
    file: &PipelineFile,
    base: &Path,
    group: &Group,
) -> anyhow::Result<Option<Arc<dyn PositionStore>>> {
    let own = own_positions(file, group)?;
    match (&file.positions, own) {
        (Some(_), Some(_)) => bail!("the transactions of this sink store the positions: omit `positions`"),
        (None, own) => Ok(own),
        (Some(PositionsSection::File(path)), None) => {
            Ok(Some(Arc::new(FilePositions::open(rooted(path, base))?)))
        }
        (Some(PositionsSection::Collection(typed)), None) => Ok(Some(Arc::new(typed.build(&file.name)?))),
    }
}

#[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "only Kafka has groups"))]
fn own_positions(file: &PipelineFile, group: &Group) -> anyhow::Result<Option<Arc<dyn PositionStore>>> {
    Ok(match &file.sink {
        SinkSection::Transactional(typed) => Some(Arc::new(typed.positions(&file.name)?)),
        #[cfg(feature = "kafka")]
        SinkSection::Kafka(typed) if typed.exactly_once.is_some() => {
            let SourceSection::Kafka(source) = &file.source else {
                bail!(
                    "`exactly_once` stores the offsets of a Kafka group: the source must be a topic of the same cluster"
                )
            };
            if source.brokers != typed.brokers {
                bail!(
                    "`exactly_once` stores the offsets in the cluster of its sink: `brokers` must be the same on both sides"
                );
            }
            if source.isolation != plimsoll_kafka::scenario::Isolation::ReadCommitted {
                bail!(
                    "`exactly_once` needs `isolation: read_committed`: otherwise it copies aborted records, and reads ahead of a commit"
                );
            }
            Some(Arc::clone(&group.membership) as Arc<dyn PositionStore>)
        }
        _ => None,
    })
}

pub(super) fn rooted(path: &Path, base: &Path) -> PathBuf {
    base.join(path)
}
