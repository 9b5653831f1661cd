//! Renders an inspection of a deployment, and the changes of a collection, for a terminal.

mod changes;
mod tables;

use plimsoll_measure::inspection::{
    Collection, Difference, Forbidden, Inspection, Presence, difference as compare,
};
use plimsoll_measure::run::Run;

use crate::layout::{Document, Screen, Width, bullets, titled};
use crate::prose::plain;
use crate::tables::{Table, Tone, server, server_in_words};
use crate::units::latency;

/// An inspection for `screen`, with a line feed at its end. Only documents and long names are cut.
pub fn summary(inspection: &Inspection, screen: Screen) -> String {
    let mut document = Document::new(screen);
    let facts = [
        inspection.taken.clone(),
        server_in_words(&inspection.server),
        format!("ping {}", latency(inspection.round_trip_ns)),
    ];
    document.title(&format!("Inspection of {}", inspection.server.addresses.join(", ")), &facts);
    verdict(inspection, &mut document);
    let run = Run { server: inspection.server.clone(), ..Run::default() };
    document.table(&server(&run));
    document.table(&tables::databases(inspection));
    if inspection.collections.len() > 1 {
        document.table(&tables::overview(inspection));
    }
    inspection.collections.iter().for_each(|it| collection(it, screen, &mut document));
    if inspection.collections.is_empty() {
        document.section(["No collection to inspect.".to_owned()]);
    }
    document.section(notes(&inspection.notes, screen.width));
    document.finish()
}

/// The changes of a collection by a run; nothing without an inspection before and after.
pub(crate) fn changed(run: &Run) -> Option<Table> {
    let (before, after) = run.collection_before.as_ref().zip(run.collection_after.as_ref())?;
    Some(changes::sizes(&compare(before, after)))
}

/// The changes of a collection by a run, except changes of its size, in sentences.
pub(crate) fn changes_in_words(run: &Run) -> Vec<String> {
    let both = run.collection_before.as_ref().zip(run.collection_after.as_ref());
    both.map(|(before, after)| changes::sentences(&compare(before, after))).unwrap_or_default()
}

/// The changes of a collection for `screen`, with a line feed at its end.
pub fn difference(difference: &Difference, screen: Screen) -> String {
    let mut document = Document::new(screen);
    document.table(&changes::sizes(difference));
    document.section(notes(&changes::sentences(difference), screen.width));
    document.finish()
}

/// Whether forbidden fields exist; nothing if no field is forbidden.
fn verdict(inspection: &Inspection, document: &mut Document) {
    let collections = inspection.collections.iter();
    let all: Vec<(&Collection, &Forbidden)> =
        collections.flat_map(|each| each.forbidden.iter().map(move |field| (each, field))).collect();
    if all.is_empty() {
        return;
    }
    let found = all.iter().filter(|(_, field)| field.presence == Presence::Found);
    let found: Vec<_> = found.map(|(collection, field)| tables::found_in_words(collection, field)).collect();
    let unchecked = all.iter().any(|(_, field)| field.presence == Presence::NotChecked);
    let verdict = match (found.is_empty(), unchecked) {
        (false, _) => ("FORBIDDEN FIELDS FOUND", Tone::Bad),
        (true, true) => ("FORBIDDEN FIELDS NOT CHECKED", Tone::Doubtful),
        (true, false) => ("NO FORBIDDEN FIELDS", Tone::Good),
    };
    document.verdict(verdict, &found);
}

fn collection(collection: &Collection, screen: Screen, document: &mut Document) {
    let facts = titled(&tables::facts(collection), screen);
    document.section(facts.into_iter().chain(notes(&collection.notes, screen.width)));
    document.table(&tables::indexes(collection));
    document.table(&tables::fields(collection));
    document.table(&tables::times(collection));
    document.table(&tables::forbidden(collection));
    document.table(&tables::samples(collection));
}

fn notes(notes: &[String], width: Width) -> Vec<String> {
    bullets(&notes.iter().map(|note| plain(note)).collect::<Vec<_>>(), width)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::environment::ServerFacts;
    use plimsoll_measure::inspection::{
        Capped, Choice, Counting, Database, Field, Index, Inventory, Options, Reported, Sample,
        SamplePosition, Size, Source, Spread, Times, difference as changes_between,
    };

    use super::*;
    use crate::layout::tests::assert_fits;

    fn collection() -> Collection {
        let said = Reported {
            documents: Some(95_487_000),
            data_bytes: Some(6_779_577_000),
            storage_bytes: Some(1_051_639_808),
            free_bytes: Some(4096),
            index_bytes: Some(3_000_000),
        };
        Collection {
            namespace: "plimsoll.vip".into(),
            exists: true,
            options: Options {
                capped: Some(Capped { bytes_max: Some(1 << 40), documents_max: None }),
                ..Options::default()
            },
            documents: said.documents,
            counting: Counting::Estimated,
            size: Size::of(&said),
            indexes: Some(vec![Index {
                name: "_id_".into(),
                keys: r#"{"_id":1}"#.into(),
                bytes: Some(3_000_000),
                ..Index::default()
            }]),
            samples: vec![Sample {
                place: SamplePosition::First,
                bytes: 17_000,
                document: format!("a text that is longer than a line {}", "x".repeat(100)).into(),
                left_out: 1,
            }],
            inventory: Some(inventory()),
            times: vec![Times {
                path: "_id".into(),
                first: "2026-03-22T15:36:00Z".into(),
                last: "2026-03-22T15:46:00Z".into(),
                span_s: 600.0,
                source: Source::Index,
            }],
            forbidden: vec![Forbidden {
                pattern: "*.password".into(),
                presence: Presence::Found,
                sampled: 3,
                paths: vec!["users[].password".into()],
                examples: vec![7.into()],
                ..Forbidden::default()
            }],
            notes: vec!["its documents were not counted: it takes longer than the time limit".into()],
            ..Collection::default()
        }
    }

    fn inventory() -> Inventory {
        let field = |path: &str, documents, types: &[(&str, u64)]| Field {
            path: path.into(),
            documents,
            share: documents as f64 / 1000.0,
            values: documents,
            types: types.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<BTreeMap<_, _>>(),
            bytes: Spread { min: 4, mean: 4.5, max: 8 },
        };
        Inventory {
            documents: 1000,
            choice: Choice::Random,
            document_bytes: Spread { min: 60, mean: 71.0, max: 80 },
            fields: vec![
                field("_id", 1000, &[("objectId", 1000)]),
                field("n", 998, &[("int", 900), ("long", 98)]),
            ],
            cut: false,
        }
    }

    fn inspection() -> Inspection {
        let database = Database {
            name: "plimsoll".into(),
            collections: Some(1),
            documents: Some(95_487_000),
            ..Database::default()
        };
        Inspection {
            taken: "2026-03-22T15:47:00Z".into(),
            server: ServerFacts {
                addresses: vec!["h:27017".into()],
                version: Some("7.0.28".into()),
                storage_engine: Some("wiredTiger".into()),
                topology: Some("standalone".into()),
                ..ServerFacts::default()
            },
            round_trip_ns: 210_000,
            databases: vec![database],
            collections: vec![collection()],
            ..Inspection::default()
        }
    }

    #[track_caller]
    fn check(found: &str, text: &str) {
        assert_eq!(found, text.trim_start_matches('\n'), "found:\n{found}");
    }

    #[test]
    fn an_inspection_is_shown() {
        check(&summary(&inspection(), Screen::PIPE), include_str!("fixtures/inspection.txt"));
    }

    #[test]
    fn lines_fit_the_screen_and_names_cannot_control_the_terminal() {
        let mut wide = inspection();
        let long = format!("\u{1b}[2J\u{9b}31m{}", "name".repeat(64));
        let one = &mut wide.collections[0];
        one.namespace = long.clone();
        one.times[0].path = long.clone();
        one.forbidden[0].paths = vec![long.clone()];
        one.notes = vec![long.clone()];
        let fields = one.inventory.as_mut().map(|inventory| &mut inventory.fields);
        fields.into_iter().flatten().for_each(|field| field.path = long.clone());
        one.indexes.iter_mut().flatten().for_each(|index| index.name = long.clone());
        wide.databases[0].name = long;
        wide.collections.push(wide.collections[0].clone());
        let changes = changes_between(&wide.collections[0], &wide.collections[0]);
        assert_fits(|screen| summary(&wide, screen) + &difference(&changes, screen));
        assert_fits(|screen| summary(&inspection(), screen));
        for text in [summary(&wide, Screen::PIPE), difference(&changes, Screen::PIPE)] {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
    }

    #[test]
    fn an_empty_deployment_has_no_collection_to_inspect() {
        let text = summary(&Inspection { collections: Vec::new(), ..inspection() }, Screen::PIPE);
        assert!(text.ends_with("No collection to inspect.\n"), "{text}");
    }

    #[test]
    fn an_unchecked_field_is_not_reported_as_absent() {
        let with = |presence| {
            let mut inspection = inspection();
            inspection.collections[0].forbidden[0] = Forbidden { presence, ..Forbidden::default() };
            summary(&inspection, Screen::PIPE)
        };
        assert!(with(Presence::NotChecked).contains("FORBIDDEN FIELDS NOT CHECKED"));
        assert!(with(Presence::AbsentInInventory).contains("NO FORBIDDEN FIELDS\n"));
        assert!(with(Presence::AbsentInInventory).contains("not in the sample"));
    }

    #[test]
    fn a_difference_is_shown() {
        let before = Collection::missing("plimsoll.vip");
        let text = difference(&changes_between(&before, &collection()), Screen::PIPE);
        check(&text, include_str!("fixtures/difference.txt"));
    }
}
