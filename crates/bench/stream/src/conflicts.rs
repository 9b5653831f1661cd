//! Refuses sections that are valid alone and lose events together.

use anyhow::{Context, bail};
use plimsoll_pipeline::transform::MapSettings;
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::{ChangeStream, IdKind, Insert, Payload};

use super::typed::{PipelineFile, SinkSection, SourceSection, TransformSection};

/// Refuses the first combination of sections that loses events under every guarantee.
///
/// # Errors
/// The combination, and the right alternative.
pub(super) fn check(file: &PipelineFile) -> anyhow::Result<()> {
    check_sink(file).context("build `sink`")?;
    check_transforms(file)?;
    check_letters(file).context("build `dead_letters`")
}

fn check_sink(file: &PipelineFile) -> anyhow::Result<()> {
    match (&file.source, &file.sink) {
        (SourceSection::ChangeStream(source), SinkSection::Insert(sink)) => check_insert(source, sink),
        (source, SinkSection::Keyed(sink)) => {
            if read_by(source) == Some((&sink.uri, &sink.collection)) {
                bail!(
                    "`keyed` writes to `{}`, which the source reads, so an earlier document would replace a newer one: name another \
                     collection",
                    sink.collection
                );
            }
            match source {
                SourceSection::ChangeStream(source) => check_watch(source),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Refuses a sink that would take the later changes of a document for repetitions of the first, and drop deletes.
fn check_insert(source: &ChangeStream, sink: &Insert) -> anyhow::Result<()> {
    if source.payload == Payload::Document && sink.identity == IdKind::Payload {
        bail!(
            "`insert` with `identity: payload` writes a document once, so updates and deletes of a change stream would be \
             lost: use the sink `keyed`, which replaces and deletes documents, or store every change with `payload: event` and \
             `identity: source`"
        );
    }
    Ok(())
}

/// Refuses changes of several collections: their documents may have the same `_id`.
fn check_watch(source: &ChangeStream) -> anyhow::Result<()> {
    let is_one = source.watch.as_ref().is_some_and(|watch| watch.contains('.'));
    if source.payload == Payload::Document && !is_one {
        bail!(
            "`keyed` copies one collection, but {}, so documents with the same `_id` would replace and delete each other: watch one \
             collection (`watch: database.collection`) in a pipeline for each",
            match &source.watch {
                Some(db) => format!("`watch: {db}` has the changes of a whole database"),
                None => "a change stream without `watch` has the changes of the whole deployment".to_owned(),
            }
        );
    }
    Ok(())
}

/// Refuses transforms that hide changes from a copy, or whose results are no documents of a copy.
fn check_transforms(file: &PipelineFile) -> anyhow::Result<()> {
    if !matches!(file.sink, SinkSection::Keyed(_)) {
        return Ok(());
    }
    for (at, transform) in file.transforms.iter().enumerate() {
        match transform {
            TransformSection::Sample(_) if has_deletes(&file.source) => bail!(
                "build `transforms.{at}`: `sample` drops changes and deletes of documents, so the copy of `keyed` would become wrong: \
                 choose documents with `filter`, or use the sink `insert`"
            ),
            TransformSection::Count(_) => bail!(
                "build `transforms.{at}`: the results of `count` are no documents with an `_id`, so `keyed` cannot copy them: use the sink \
                 `insert`"
            ),
            TransformSection::Map(map) if changes_id(map) && names_ids_before(file, at) => bail!(
                "build `transforms.{at}`: `map` changes `_id`, but deletes name the `_id` before it, so the copy of `keyed` would become \
                 wrong: keep `_id`{}",
                if is_stream(&file.source) { "" } else { ", or filter after this `map`" }
            ),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a map gives documents another `_id`. An expression may do so too: then the sink refuses the documents whose key has an
/// `_id`.
fn changes_id(map: &MapSettings) -> bool {
    let names = map.set.keys().chain(map.rename.keys()).chain(map.rename.values());
    names.into_iter().any(|name| name == "_id")
}

/// Whether deletes name the `_id` that documents have before a map: those of a change stream, and those for documents that an earlier
/// transform or the map itself leaves without a result.
fn names_ids_before(file: &PipelineFile, at: usize) -> bool {
    let drops = |transform: &TransformSection| match transform {
        TransformSection::Filter(_) => true,
        TransformSection::Map(map) => map.expression.is_some(),
        _ => false,
    };
    has_deletes(&file.source) && (is_stream(&file.source) || file.transforms[..=at].iter().any(drops))
}

const fn is_stream(source: &SourceSection) -> bool {
    matches!(source, SourceSection::ChangeStream(_))
}

/// Whether a source has later changes and deletes of documents. Other sources read each document once.
pub(super) fn has_deletes(source: &SourceSection) -> bool {
    match source {
        SourceSection::ChangeStream(source) => source.payload == Payload::Document,
        SourceSection::Kafka(_) => true,
        _ => false,
    }
}

/// Refuses sinks in which one dead letter replaces another, or which keep less than the event.
fn check_letters(file: &PipelineFile) -> anyhow::Result<()> {
    let Some(letters) = &file.dead_letters else { return Ok(()) };
    match letters {
        // A pipeline without a real sink is a measurement, and may also discard dead letters.
        SinkSection::Noop(_) if !matches!(file.sink, SinkSection::Noop(_)) => {
            bail!(
                "`noop` keeps nothing, so rejected events would be lost: name a file, a collection or a topic"
            )
        }
        SinkSection::Keyed(_) => bail!(
            "`keyed` keeps one event of each `_id`, so dead letters would replace and delete each other: use `insert` with `form: full`, a \
             file with `form: whole`, or a topic"
        ),
        SinkSection::Vector(_) => bail!(
            "`vector` stores events with a vector, and no dead letter has one: use `insert` with `form: full`, a file with `form: whole`, or a \
             topic"
        ),
        SinkSection::Insert(letters) => check_inserted_letters(file, letters),
        _ => Ok(()),
    }
}

fn check_inserted_letters(file: &PipelineFile, letters: &Insert) -> anyhow::Result<()> {
    if letters.form == Form::Metadata {
        bail!(
            "`form: metadata` keeps only the length of a payload, so rejected events would be lost: use `form: full`"
        );
    }
    // A scan reads each document once, under a new number at every start.
    if letters.identity == IdKind::Payload && !matches!(file.source, SourceSection::Scan(_)) {
        bail!(
            "`identity: payload` keeps one event of each `_id`, so the other dead letters of a document would be lost: omit `identity`, \
             and use `form: full`"
        );
    }
    let place = Some((letters.uri.as_str(), letters.collection.as_str()));
    if [written_by(&file.sink), read_by(&file.source)].contains(&place) {
        bail!(
            "`{}` also has the events of the pipeline, from which dead letters cannot be distinguished: name another collection",
            letters.collection
        );
    }
    Ok(())
}

/// The URI and the collection that a source reads.
fn read_by(source: &SourceSection) -> Option<(&str, &str)> {
    match source {
        SourceSection::ChangeStream(source) => Some((&source.uri, source.watch.as_deref()?)),
        SourceSection::Scan(source) => Some((&source.uri, &source.collection)),
        _ => None,
    }
}

/// The URI and the collection that a sink writes.
fn written_by(sink: &SinkSection) -> Option<(&str, &str)> {
    match sink {
        SinkSection::Insert(sink) => Some((&sink.uri, &sink.collection)),
        SinkSection::Keyed(sink) => Some((&sink.uri, &sink.collection)),
        SinkSection::Vector(sink) => Some((&sink.uri, &sink.collection)),
        _ => None,
    }
}
