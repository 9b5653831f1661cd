//! Renders the state before and after a run in a few lines.

use plimsoll_measure::inspection::{Collection, Extent, Index, Inspection, Sample, Topic, Value};

use crate::layout::{Width, cut, wrap};
use crate::tables::server_in_words;
use crate::units::{bytes, counted, duration, exact, three_digits};

/// The indentation of lines.
const INDENT: &str = "            ";
const BEFORE: &str = "  before    ";
const AFTER: &str = "  after     ";
/// The maximum number of named fields and neighbours.
const FIELDS_MAX: usize = 12;
const NEIGHBOURS_MAX: usize = 5;
/// The maximum number of listed partitions.
const PARTITIONS_MAX: usize = 8;

/// The state before a run; the collection of the run comes first in the inspection.
pub fn before(inspection: &Inspection, width: Width) -> Vec<String> {
    if inspection.server.addresses.is_empty() && inspection.collections.is_empty() {
        return headed(BEFORE, inspection.topics.iter().map(topic), width);
    }
    let server = &inspection.server;
    let profile = server.profile.as_ref().map(|profile| format!(", {profile}")).unwrap_or_default();
    let version = server.version.as_ref().filter(|_| server.product.is_some());
    let version = version.map(|version| format!(", speaks {version}")).unwrap_or_default();
    let head = format!("{}{profile}{version}, at {}", server_in_words(server), server.addresses.join(", "));
    let collections = inspection.collections.split_first();
    let stands = collections.map(|(own, others)| std::iter::once(standing(own)).chain(neighbours(others)));
    let topics = inspection.topics.iter().map(topic);
    headed(BEFORE, std::iter::once(head).chain(stands.into_iter().flatten()).chain(topics), width)
}

/// Facts, the first of them after a heading.
fn headed(heading: &str, facts: impl Iterator<Item = String>, width: Width) -> Vec<String> {
    let lines =
        facts.enumerate().map(|(at, said)| wrap(&said, if at == 0 { heading } else { INDENT }, width));
    lines.flatten().collect()
}

/// The state of a topic.
fn topic(topic: &Topic) -> String {
    let name = &topic.name;
    if !topic.exists {
        return format!("topic {name}: does not exist yet");
    }
    let named = |extent: &Extent| format!("{}: {}–{}", extent.partition, extent.begin, extent.end);
    let ends: Vec<_> = topic.partitions.iter().take(PARTITIONS_MAX).map(named).collect();
    let more = topic.partitions.len().saturating_sub(PARTITIONS_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "topic {name}: {} in {} ({}{more})",
        counted(topic.offsets(), "offset"),
        counted(topic.partitions.len() as u64, "partition"),
        ends.join(", ")
    )
}

/// The message of a recreated topic.
pub fn made_anew(name: &str, offsets: u64) -> String {
    format!(
        "{INDENT}topic {name} had {} and was recreated by `existing: drop`: it is empty now",
        counted(offsets, "offset")
    )
}

/// The result of reading back the destination of a run.
pub fn read_back(read: u64, lost: u64, reason: Option<&str>) -> String {
    let found = match reason {
        None => "every event of the topic exists exactly once".to_owned(),
        Some(_) => format!("{} missing: the destination does not match the topic", exact(lost)),
    };
    format!("  read back {}: {found}", counted(read, "document"))
}

/// The message of a dropped collection.
pub fn cleared(namespace: &str, documents: u64) -> String {
    format!(
        "{INDENT}{namespace} held {} and was dropped, as `existing: drop` says: it is empty now",
        counted(documents, "document")
    )
}

/// The state after a run; the collection of the run comes first in the inspection.
pub fn after(inspection: &Inspection, width: Width) -> Vec<String> {
    let topics = inspection.topics.iter().map(topic);
    let Some((own, others)) = inspection.collections.split_first() else {
        return headed(AFTER, topics, width);
    };
    let facts = [Some(standing(own)), sizes(own), fields(own), times(own), neighbours(others)];
    let mut lines = headed(AFTER, facts.into_iter().flatten().chain(topics), width);
    lines.extend(own.samples.iter().map(|it| sample(it, width)));
    lines
}

/// The state of a collection: its documents and indexes.
fn standing(own: &Collection) -> String {
    if !own.exists {
        return format!("{}: does not exist yet", own.namespace);
    }
    let documents =
        own.documents.map_or_else(|| "documents not counted".to_owned(), |it| counted(it, "document"));
    let names = |indexes: &Vec<Index>| {
        let all: Vec<_> = indexes.iter().map(Index::in_words).collect();
        format!("{}: {}", if all.len() == 1 { "only index" } else { "indexes" }, all.join("; "))
    };
    let indexes = own.indexes.as_ref().map_or_else(|| "indexes unknown".to_owned(), names);
    format!("{}: {documents}, {indexes}", own.namespace)
}

fn neighbours(others: &[Collection]) -> Option<String> {
    let described = |other: &Collection| {
        let documents = other.documents.map_or_else(|| "not counted".to_owned(), exact);
        format!("{} ({documents})", other.namespace)
    };
    let named: Vec<_> = others.iter().take(NEIGHBOURS_MAX).map(described).collect();
    let more = others.len().saturating_sub(NEIGHBOURS_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("other collections: {}{more}", named.join(", ")))
}

fn sizes(own: &Collection) -> Option<String> {
    let size = &own.size;
    let facts = [
        size.data_bytes.map(|data| format!("{} of data", bytes(data))),
        size.storage_bytes.map(|storage| format!("{} on disk", bytes(storage))),
        size.compression.map(|ratio| format!("compressed {} times", three_digits(ratio))),
        size.index_bytes.map(|index| format!("{} of indexes", bytes(index))),
        size.document_bytes.map(|mean| format!("{} B a document on average", three_digits(mean))),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    (!facts.is_empty()).then(|| facts.join(", "))
}

fn fields(own: &Collection) -> Option<String> {
    let fields = &own.inventory.as_ref()?.fields;
    let described = |field: &plimsoll_measure::inspection::Field| {
        format!("{} {}", field.path, field.types.keys().cloned().collect::<Vec<_>>().join("|"))
    };
    let named: Vec<_> = fields.iter().take(FIELDS_MAX).map(described).collect();
    let more = fields.len().saturating_sub(FIELDS_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("fields: {}{more}", named.join(", ")))
}

/// The time range of the documents, by the first field with dates. An `_id` dates the write; another date may have any meaning,
/// such as the append to a topic.
fn times(own: &Collection) -> Option<String> {
    let times = own.times.first()?;
    let (first, last) = (&times.first, &times.last);
    let said = if times.path == "_id" { "written" } else { "dated" };
    Some(format!("{said} from {first} to {last} by {} ({})", times.path, duration(times.span_s)))
}

fn sample(sample: &Sample, width: Width) -> String {
    let text = match &sample.document {
        Value::Null => String::new(),
        document => document.to_string(),
    };
    cut(&format!("{INDENT}{text}"), width.0)
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::environment::ServerFacts;
    use plimsoll_measure::inspection::{Field, Inventory, Reported, Size, Times};

    use super::*;

    fn collection() -> Collection {
        let field = |path: &str, kind: &str| Field {
            path: path.into(),
            types: [(kind.to_owned(), 5)].into(),
            ..Field::default()
        };
        let said = Reported {
            documents: Some(95_487_000),
            data_bytes: Some(6_779_577_000),
            storage_bytes: Some(1_051_639_808),
            ..Reported::default()
        };
        Collection {
            namespace: "support_db.baseline".into(),
            exists: true,
            documents: Some(95_487_000),
            size: Size::of(&said),
            indexes: Some(vec![Index {
                name: "_id_".into(),
                keys: "{\"_id\":1}".into(),
                ..Index::default()
            }]),
            samples: vec![Sample { document: "x".repeat(200).into(), ..Sample::default() }],
            inventory: Some(Inventory {
                fields: vec![field("_id", "objectId"), field("key", "string")],
                ..Inventory::default()
            }),
            times: vec![Times {
                path: "_id".into(),
                first: "2026-03-22T16:36:59Z".into(),
                last: "2026-03-22T16:46:59Z".into(),
                span_s: 600.0,
                ..Times::default()
            }],
            ..Collection::default()
        }
    }

    fn joined(lines: &[String]) -> String {
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
        lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_state_before_names_the_server_the_collection_and_other_collections() {
        let server = ServerFacts {
            version: Some("7.0.28".into()),
            storage_engine: Some("wiredTiger".into()),
            addresses: vec!["h:1".into()],
            ..ServerFacts::default()
        };
        let other = Collection {
            namespace: "support_db.tickets".into(),
            documents: Some(7),
            ..Collection::default()
        };
        let collections = vec![Collection::missing("support_db.baseline"), other];
        let text = joined(&before(&Inspection { server, collections, ..Inspection::default() }, Width::PIPE));
        for part in [
            "before server 7.0.28, wiredTiger, at h:1",
            "support_db.baseline: does not exist yet",
            "other collections: support_db.tickets (7)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(cleared("d.c", 1).contains("held 1 document and was dropped"));
    }

    #[test]
    fn topics_are_shown_with_their_partitions_and_offsets() {
        let extent = |partition, end| Extent { partition, begin: 0, end };
        let topics = vec![
            Topic { name: "in".into(), exists: true, partitions: vec![extent(0, 1_500), extent(1, 500)] },
            Topic { name: "out".into(), ..Topic::default() },
        ];
        let seen = Inspection { topics, ..Inspection::default() };
        for lines in [before(&seen, Width::PIPE), after(&seen, Width::PIPE)] {
            let text = joined(&lines);
            assert!(text.contains("topic in: 2,000 offsets in 2 partitions (0: 0–1500, 1: 0–500)"), "{text}");
            assert!(text.contains("topic out: does not exist yet"), "{text}");
        }
        assert!(before(&seen, Width::PIPE)[0].starts_with("  before"), "{:?}", before(&seen, Width::PIPE));
        assert!(made_anew("in", 1).contains("topic in had 1 offset and was recreated"));
        assert!(read_back(5, 0, None).contains("5 documents: every event of the topic exists exactly once"));
        assert!(read_back(4, 1, Some("x")).contains("4 documents: 1 missing"));
    }

    #[test]
    fn the_state_after_shows_count_sizes_fields_times_and_documents() {
        let text = joined(&after(
            &Inspection { collections: vec![collection()], ..Inspection::default() },
            Width::PIPE,
        ));
        for part in [
            "95,487,000 documents, only index: _id_ {\"_id\":1}",
            "6.31 GiB of data, 1,003 MiB on disk, compressed 6.45 times, 71.0 B a document",
            "fields: _id objectId, key string",
            "written from 2026-03-22T16:36:59Z to 2026-03-22T16:46:59Z by _id (10 min 0 s)",
            "…",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut dated = collection();
        dated.times[0].path = "ts".into();
        let text =
            joined(&after(&Inspection { collections: vec![dated], ..Inspection::default() }, Width::PIPE));
        assert!(text.contains("dated from 2026-03-22T16:36:59Z to 2026-03-22T16:46:59Z by ts"), "{text}");
        assert!(after(&Inspection::default(), Width::PIPE).is_empty());
    }
}
