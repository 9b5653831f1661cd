//! Audits collections as a destination: documents carry their source position.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use plimsoll_deployment::Namespace;
use plimsoll_kafka::scenario as kafka;
use plimsoll_stores::audit::{Identified, Kept, Part, Report, scan};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::{IdKind, Insert, Transactional, Vector};
use plimsoll_stores::sink::vector::By;
use plimsoll_stores::topics::Topics;

use super::read_topic;
use crate::typed::{PipelineFile, SinkSection, TransformSection};

pub(super) struct Collections {
    uri: String,
    parts: Vec<Part>,
    topics: Topics,
    /// Whether the documents contain unchanged payloads, so that the audit compares checksums.
    pub(super) summed: bool,
    /// The kind of the dead-letter sink, unless it is a collection.
    pub(super) letters_outside: Option<&'static str>,
}

impl Collections {
    pub(super) fn of(file: &PipelineFile) -> anyhow::Result<Self> {
        let (uri, namespace, mut parts, topics) = match &file.sink {
            SinkSection::Insert(insert) => of_insert(insert)?,
            SinkSection::Transactional(transactional) => of_transactional(transactional)?,
            SinkSection::Vector(vector) => of_vector(vector)?,
            other => bail!(
                "a destination `{}` does not identify its events: audit inserts, transactions, vectors and topics",
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
        let outside_audit =
            file.dead_letters.as_ref().filter(|letters| !matches!(letters, SinkSection::Insert(_)));
        let letters_outside = outside_audit.map(SinkSection::kind);
        let summed = file.transforms.iter().all(keeps_payload)
            && parts.iter().all(|part| matches!(part.form, Form::Bson | Form::Full))
            // Only the full form stores the payload apart from the vector.
            && !matches!(&file.sink, SinkSection::Vector(vector) if vector.form != Form::Full);
        Ok(Self { uri, parts, topics: Topics::of(&namespace, topics), summed, letters_outside })
    }

    pub(super) fn answer(&self, source: &kafka::Source, kept: &mut Kept) -> anyhow::Result<Report> {
        let number = self.topics.default_number(&source.topic);
        let mut expected = read_topic(source, number, kept, &mut |_| Ok(()))?;
        if !self.summed {
            expected.iter_mut().for_each(|partition| partition.checksum = None);
        }
        Ok(scan(&self.uri, expected, &self.parts)?)
    }
}

/// Whether a transform keeps an event's payload.
fn keeps_payload(transform: &TransformSection) -> bool {
    match transform {
        TransformSection::Filter(_) | TransformSection::Sample(_) => true,
        TransformSection::Count(_) | TransformSection::Map(_) => false,
        TransformSection::Encode(_) | TransformSection::Decode(_) => false,
        #[cfg(feature = "embedding")]
        TransformSection::Embed(_) => true,
    }
}

type DestinationParts = (String, Namespace, Vec<Part>, BTreeMap<String, u32>);

fn of_insert(insert: &Insert) -> anyhow::Result<DestinationParts> {
    let namespace: Namespace = insert.collection.parse().context("read `collection`")?;
    let identified = match (&insert.identity, &insert.source_field) {
        (IdKind::Source, _) => Identified::ById,
        (_, Some(field)) => Identified::ByField(field.clone()),
        (_, None) => {
            bail!("documents with other ids do not identify their events: give the sink a `source_field`")
        }
    };
    let part = Part { namespace: namespace.clone(), identified, form: insert.form };
    Ok((insert.uri.clone(), namespace, vec![part], insert.topics.clone()))
}

fn of_vector(vector: &Vector) -> anyhow::Result<DestinationParts> {
    if vector.by != By::Source {
        bail!(
            "documents of `by: key` contain only the newest event of a key, so the expected events are unknown: audit vectors \
             that are kept `by: source`"
        );
    }
    let namespace: Namespace = vector.collection.parse().context("read `collection`")?;
    let part = Part { namespace: namespace.clone(), identified: Identified::ById, form: vector.form };
    Ok((vector.uri.clone(), namespace, vec![part], vector.topics.clone()))
}

fn of_transactional(sink: &Transactional) -> anyhow::Result<DestinationParts> {
    let namespace: Namespace = sink.collection.parse().context("read `collection`")?;
    let letters = match &sink.dead_letters {
        Some(name) => name.parse().context("read `dead_letters`")?,
        None => namespace.sibling(&format!("{}_dead_letters", namespace.collection)),
    };
    let data = Part { namespace: namespace.clone(), identified: Identified::ById, form: sink.form };
    let letters = Part { namespace: letters, identified: Identified::ById, form: Form::Full };
    Ok((sink.uri.clone(), namespace, vec![data, letters], sink.topics.clone()))
}
