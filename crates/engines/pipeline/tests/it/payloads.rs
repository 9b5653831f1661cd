//! Tests that transforms neither revive a deleted value nor silently lose a field.

use plimsoll_pipeline::transform::{Encoding, Filter, FilterSettings, Map, MapSettings};
use plimsoll_pipeline::{Batch, Partition, Record, TransformFactory};

/// One tombstone, after a transform.
fn after(transform: &dyn TransformFactory) -> Batch {
    let mut batch = Batch::new(Partition::new("t", 0));
    batch.push(Record { key: Some(b"k"), ..Record::default() });
    transform.build(0).unwrap().apply(&mut batch).unwrap();
    batch
}

#[test]
fn a_map_passes_tombstones_unchanged() {
    for format in [Encoding::Json, Encoding::Bson] {
        let set = [("a".to_owned(), "1".to_owned())].into();
        for settings in [
            MapSettings { format, set, ..MapSettings::default() },
            MapSettings { format, expression: Some(".".into()), ..MapSettings::default() },
            MapSettings { format, project: vec!["a".into()], ..MapSettings::default() },
        ] {
            let batch = after(&Map::build(&settings).unwrap());
            let event = batch.events()[0];
            assert_eq!((batch.key(&event), batch.payload(&event)), (Some(&b"k"[..]), None), "{settings:?}");
        }
    }
}

#[test]
fn a_filter_sees_a_missing_payload_as_null() {
    for (condition, kept) in [(". != null", 0), (". == null or .a > 3", 1)] {
        let settings = FilterSettings { condition: condition.into(), ..FilterSettings::default() };
        assert_eq!(after(&Filter::build(settings).unwrap()).events().len(), kept, "{condition}");
    }
}

#[test]
fn a_name_collision_rejects_the_event_in_both_encodings() {
    let documents = [(Encoding::Json, br#"{"a": 1, "b": 2}"#.to_vec()), (Encoding::Bson, of_bson())];
    for (format, payload) in documents {
        let given = |rename: &[(&str, &str)]| {
            let rename = rename.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
            let map = Map::build(&MapSettings { format, rename, ..MapSettings::default() }).unwrap();
            let mut batch = Batch::new(Partition::new("t", 0));
            batch.push(Record { payload: Some(&payload), ..Record::default() });
            TransformFactory::build(&map, 0).unwrap().apply(&mut batch).unwrap();
            (batch.events().len(), batch.rejected().len())
        };
        assert_eq!(given(&[("a", "b")]), (0, 1), "{format:?}");
        assert_eq!(given(&[("a", "b"), ("b", "a")]), (1, 0), "{format:?}: the fields swap their names");
        assert_eq!(given(&[("a", "c"), ("x", "b")]), (1, 0), "{format:?}");
    }
}

/// `{a: 1, b: 2}`.
fn of_bson() -> Vec<u8> {
    b"\x13\0\0\0\x10a\0\x01\0\0\0\x10b\0\x02\0\0\0\0".to_vec()
}
