//! Tests lists, counts and facets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use futures_util::TryStreamExt;
use plimsoll_catalogue::Refusal;
use plimsoll_catalogue::access::{Caller, Roles, Rules, User};
use plimsoll_catalogue::query::{Dialect, facets, filter, full};
use plimsoll_catalogue::storage::{Error, Store};
use serde_json::{Value, json};

use crate::samples::{NOW_MS, any, catalogue, create, stored};
use crate::server;

/// The datasets of a catalogue: every second one is published.
const DATASETS: usize = 60;

async fn filled(name: &str) -> Store {
    let store = catalogue(name).await;
    for number in 0..DATASETS {
        create(&store, &format!("p/{number:02}"), number).await;
    }
    store
}

fn user(groups: &[&str]) -> Caller {
    let groups = groups.iter().map(|&group| group.into()).collect();
    Caller::User(User { username: "ann".into(), email: "ann@x.org".into(), groups, ..User::default() })
}

fn access(caller: &Caller) -> Document {
    Rules::new(Roles { admin_groups: vec!["admin".into()], ..Roles::default() }).read_filter(caller)
}

/// Callers of each kind, on a store that reads plain pages and on one that reads them by ranges of dates.
fn everyone(store: &Store) -> Vec<(Caller, Store)> {
    let by_ranges = store.clone().with_plain_max(Duration::ZERO);
    let callers = [Caller::Anonymous, user(&["g1", "h2"]), user(&["admin"])];
    let twice = |caller: Caller| [(caller.clone(), store.clone()), (caller, by_ranges.clone())];
    callers.into_iter().flat_map(twice).collect()
}

fn pids(documents: &[Document]) -> Vec<String> {
    documents.iter().map(|document| document.get_str("_id").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_list_pages_by_skip_and_by_cursor_alike() {
    let store = filled("paged").await;
    for (caller, store) in everyone(&store) {
        for order in ["createdAt", "creationTime"] {
            let access = access(&caller);
            let page = |skip: usize| {
                json!({"limits": {"limit": 7, "skip": skip, "sort": {order: "desc"}}}).to_string()
            };
            let (mut skipped, mut followed, mut after) = (Vec::new(), Vec::new(), None);
            loop {
                let find = filter::translate(Some(&page(skipped.len())), Dialect::V4).unwrap();
                let listing = store.list(&access, &find, None, &|| NOW_MS, &any).await.unwrap();
                skipped.extend(pids(&listing.documents));
                let find = filter::translate(Some(&page(0)), Dialect::V4).unwrap();
                let followed_page =
                    store.list(&access, &find, after.as_ref(), &|| NOW_MS, &any).await.unwrap();
                followed.extend(pids(&followed_page.documents));
                after = followed_page.next;
                if listing.documents.len() < 7 {
                    break;
                }
            }
            assert_eq!(skipped, followed);
            let mut once = skipped.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), skipped.len());
            assert!(skipped.len() >= DATASETS / 2, "{}", skipped.len());
        }
    }
}

#[tokio::test]
async fn a_cursor_reaches_the_datasets_without_a_date() {
    let store = filled("dateless").await;
    for number in 0..20 {
        let mut dataset = stored(&format!("q/{number:02}"), 2 * number);
        dataset.remove("createdAt");
        store.create(&dataset).await.unwrap();
    }
    for (caller, store) in everyone(&store) {
        let access = access(&caller);
        let find = full::translate(None, Some(r#"{"limit": 7}"#)).unwrap().followed(None).unwrap();
        let (mut followed, mut after) = (Vec::new(), None);
        loop {
            let listing = store.list(&access, &find, after.as_ref(), &|| NOW_MS, &any).await.unwrap();
            followed.extend(pids(&listing.documents));
            after = listing.next;
            if after.is_none() {
                break;
            }
        }
        let mut once = followed.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), followed.len(), "{caller:?}");
        let count = store.count(&access, &doc! {}, None, &|| NOW_MS).await.unwrap();
        assert_eq!((once.len() as u64, &once[once.len() - 1]), (count, &"q/19".to_owned()), "{caller:?}");
    }
}

#[tokio::test]
async fn a_list_of_the_newest_follows_every_change() {
    let store = filled("newest").await.with_plain_max(Duration::ZERO);
    let datasets = server::database(server::shared(), "newest").await.collection::<Document>("Dataset");
    let mut state = (0..DATASETS).collect::<Vec<_>>();
    for round in 0..20 {
        match round % 4 {
            // Many at once: the last page's range does not fill the next page.
            1 => {
                for number in state.split_off(state.len() - 12) {
                    let key = doc! {"_id": format!("p/{number:02}")};
                    assert_eq!(datasets.delete_one(key).await.unwrap().deleted_count, 1);
                }
            }
            3 => {
                for number in state.len()..DATASETS {
                    create(&store, &format!("p/{number:02}"), number).await;
                    state.push(number);
                }
            }
            _ => {}
        }
        for caller in [Caller::Anonymous, user(&["g1", "h2"]), user(&["admin"])] {
            let access = access(&caller);
            for order in ["createdAt", "creationTime"] {
                let text =
                    json!({"limits": {"limit": 7, "skip": round % 3, "sort": {order: "desc"}}}).to_string();
                let find = filter::translate(Some(&text), Dialect::V4).unwrap();
                let listing = store.list(&access, &find, None, &|| NOW_MS, &any).await.unwrap();
                let read = datasets.find(doc! {"$and": [access.clone()]});
                let read = read.sort(doc! {order: -1, "_id": -1}).skip(round % 3).limit(7).await.unwrap();
                let expected: Vec<Document> = read.try_collect().await.unwrap();
                assert_eq!(pids(&listing.documents), pids(&expected), "round {round}, {caller:?}, {order}");
            }
        }
    }
}

#[tokio::test]
async fn a_list_ends_when_the_answer_has_no_room() {
    let store = filled("roomless").await;
    let taken = AtomicUsize::new(0);
    let room = |bytes: usize| match taken.fetch_add(bytes, Ordering::Relaxed) {
        0..10_000 => Ok(()),
        _ => Err(Refusal::Busy),
    };
    let find = full::translate(None, Some(r#"{"limit": 1000}"#)).unwrap();
    let refused = store.list(&doc! {}, &find, None, &|| NOW_MS, &room).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Busy)), "{refused}");
    assert!(taken.into_inner() < 15_000, "it stops at the first document without room");
}

#[tokio::test]
async fn a_page_that_is_read_twice_takes_its_room_once() {
    let store = filled("twice").await.with_plain_max(Duration::ZERO);
    let datasets = server::database(server::shared(), "twice").await.collection::<Document>("Dataset");
    let find = full::translate(None, Some(r#"{"skip": 0, "limit": 20, "order": "createdAt:desc"}"#)).unwrap();
    let read = async |most: usize| {
        let taken = AtomicUsize::new(0);
        let room = |bytes: usize| {
            let all = taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if all <= most { Ok(()) } else { Err(Refusal::Busy) }
        };
        let listing = store.list(&doc! {}, &find, None, &|| NOW_MS, &room).await.unwrap();
        (pids(&listing.documents), taken.load(Ordering::Relaxed))
    };
    let (first, bytes) = read(usize::MAX).await;
    datasets.delete_one(doc! {"_id": &first[0]}).await.unwrap();
    // The range of the last page has one document too few, so a longer one is read.
    let (second, _) = read(bytes * 3 / 2).await;
    assert_eq!((second.len(), &second[..19]), (20, &first[1..]));
}

#[tokio::test]
async fn a_caller_lists_and_counts_only_its_datasets_whatever_it_asks_for() {
    let store = filled("scoped").await;
    let fields = json!({
        "mode": {"$or": [{"isPublished": false}, {"ownerGroup": {"$exists": true}}]},
        "userGroups": ["admin", "g0", "g1", "g2", "g3"],
    });
    let find = full::translate(Some(&fields.to_string()), Some(r#"{"limit": 1000}"#)).unwrap();
    for (caller, expected) in
        [(Caller::Anonymous, 30), (user(&[]), 30), (user(&["g1"]), 45), (user(&["admin"]), 60)]
    {
        let access = access(&caller);
        let listing = store.list(&access, &find, None, &|| NOW_MS, &any).await.unwrap();
        assert_eq!(listing.documents.len(), expected, "{caller:?}");
        assert_eq!(store.count(&access, &find.filter, None, &|| NOW_MS).await.unwrap(), expected as u64);
    }
}

#[tokio::test]
async fn conditions_find_the_same_datasets_as_a_walk_over_all() {
    let store = filled("found").await;
    let access = access(&user(&["admin"]));
    let check = async |fields: Value, expected: fn(usize) -> bool| {
        let find =
            full::translate(Some(&fields.to_string()), Some(r#"{"limit": 1000, "order": "pid"}"#)).unwrap();
        let found = pids(&store.list(&access, &find, None, &|| NOW_MS, &any).await.unwrap().documents);
        let walked: Vec<_> =
            (0..DATASETS).filter(|&it| expected(it)).map(|it| format!("p/{it:02}")).collect();
        assert_eq!(found, walked, "{fields}");
    };
    check(json!({"type": ["derived"]}), |it| it % 3 == 0).await;
    check(json!({"keywords": ["k1"]}), |it| it % 3 == 1).await;
    check(json!({"text": "SCAN 5"}), |it| it % 10 == 5 || it / 10 == 5).await;
    check(json!({"creationTime": {"begin": "2024-01-01", "end": "2024-01-01"}}), |it| it % 28 == 0).await;
    check(json!({"mode": {"pid": {"inq": ["p/03", "p/99"]}}}), |it| it == 3).await;
    let range = json!([{"lhs": "field 1", "relation": "RANGE", "rhs": [1, 3], "unit": "cm"}]);
    check(json!({"scientific": range}), |it| (10..=30).contains(&it)).await;
    let odd = json!({"mode": {"scientificMetadata.only%2Eodd": 1}});
    check(odd, |it| it % 2 == 1).await;
}

#[tokio::test]
async fn a_count_stops_at_its_cap_and_a_quick_one_is_exact() {
    let store = filled("counted").await;
    let admin = access(&user(&["admin"]));
    let count = async |cap| store.count(&admin, &doc! {}, cap, &|| NOW_MS).await.unwrap();
    assert_eq!((count(Some(10)).await, count(None).await), (10, 60));
    create(&store, "p/new", 1).await;
    assert_eq!(count(None).await, 61);
}

#[tokio::test]
async fn facets_of_an_admin_are_those_of_all_datasets() {
    let store = filled("facets_of_all").await;
    let names = r#"["type","ownerGroup","creationTime","isPublished","keywords","description"]"#;
    let of_all = facets::translate(None, Some(names)).unwrap();
    let found = store.facets(&doc! {}, &of_all, &|| NOW_MS, &any).await.unwrap();
    let every = doc! {"_id": {"$exists": true}};
    assert_eq!(found, store.facets(&every, &of_all, &|| NOW_MS, &any).await.unwrap());
    assert_eq!(found[0]["type"], json!([{"_id": "raw", "count": 40}, {"_id": "derived", "count": 20}]));
    assert_eq!(found[0]["creationTime"].as_array().unwrap().len(), 28);
}

#[tokio::test]
async fn facets_count_the_values_under_all_other_conditions() {
    let store = filled("facets").await;
    let fields = json!({"type": ["derived"]}).to_string();
    let facets = facets::translate(Some(&fields), Some(r#"["type", "keywords", "creationTime"]"#)).unwrap();
    let body = store.facets(&access(&Caller::Anonymous), &facets, &|| 0, &any).await.unwrap();
    assert_eq!(body[0]["all"], json!([{"totalSets": 10}]));
    assert_eq!(body[0]["type"], json!([{"_id": "raw", "count": 20}, {"_id": "derived", "count": 10}]));
    assert_eq!(body[0]["keywords"], json!([{"_id": "k0", "count": 10}, {"_id": "k", "count": 10}]));
    assert_eq!(body[0]["creationTime"][0]["_id"], json!({"year": 2024, "month": 1, "day": 27}));
    let nothing = facets::translate(Some(r#"{"owner": "nobody"}"#), None).unwrap();
    assert_eq!(store.facets(&doc! {}, &nothing, &|| 0, &any).await.unwrap(), json!([{"all": []}]));
}
