//! Tests the contract of feeds: every design shows the same feeds.

use std::collections::{BTreeMap, BTreeSet};

use bson::Bson;
use mongodb::Database;
use plimsoll_service::Clock;
use plimsoll_service::{Budget, BudgetError, Reservation};
use plimsoll_telemetry::feeds::{Activity, Cursor, Design, Error, FeedQuery, Feeds, Posted, Settings};

use super::bench::database;

/// Small limits, so that tests reach them.
pub fn settings(design: Design) -> Settings {
    Settings { design, depth: 40, following_max: 8, pull_from: 3, cache_max: 6, ..Settings::default() }
}

pub async fn open(design: Design, name: &str) -> (Database, Feeds) {
    let database = database(&format!("feeds_{name}_{}", design.name())).await;
    let feeds = Feeds::open(&database, settings(design), Clock::start()).await.unwrap();
    (database, feeds)
}

pub fn activity(id: &str, user: &str, at_ms: i64) -> Activity {
    let (id, user, text) = (id.to_owned(), user.to_owned(), Some(format!("{user} at {at_ms}")));
    Activity { id, user, at_ms, kind: "post".into(), text, object: None }
}

/// The whole feed of a user, read in pages of `limit`.
pub async fn all(feeds: &Feeds, user: &str, limit: u32) -> Vec<Activity> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let feed = feeds
            .read(&FeedQuery { user: user.into(), cursor, limit }, &Reservation::unlimited())
            .await
            .unwrap();
        assert!(feed.activities.len() <= limit as usize);
        found.extend(feed.activities);
        // The cursor passes through its text, as in a client.
        cursor = feed.next.map(|next| Cursor::of(&next.text()).unwrap());
        if cursor.is_none() {
            return found;
        }
    }
}

pub async fn ids(feeds: &Feeds, user: &str) -> Vec<String> {
    all(feeds, user, 50).await.into_iter().map(|it| it.id).collect()
}

/// The expected feed, by definition.
#[derive(Default)]
struct Model {
    activities: BTreeMap<(i64, String), Activity>,
    follows: BTreeSet<(String, String)>,
}

impl Model {
    fn feed(&self, user: &str, depth: usize) -> Vec<Activity> {
        let sees =
            |author: &str| author == user || self.follows.contains(&(user.to_owned(), author.to_owned()));
        self.activities.values().rev().filter(|it| sees(&it.user)).take(depth).cloned().collect()
    }
}

/// A portable random generator (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

#[tokio::test]
async fn every_design_matches_the_definition_after_random_operations() {
    let seed = u64::from(std::process::id()) << 16 | 1;
    println!("seed {seed}");
    for design in Design::ALL {
        let (_, feeds) = open(design, "anything").await;
        let (mut random, mut model) = (Random(seed), Model::default());
        let user = |random: &mut Random| format!("u{}", random.below(6));
        for step in 0..250 {
            let (one, other) = (user(&mut random), user(&mut random));
            match random.below(10) {
                0..5 => {
                    // Late activities, equal times, and a new activity now and then.
                    let at_ms = 1_000 + i64::try_from(random.below(60)).unwrap();
                    let posted = activity(&format!("a{step}"), &one, at_ms);
                    assert_eq!(feeds.post(posted.clone()).await.unwrap(), Posted::New);
                    model.activities.insert((at_ms, posted.id.clone()), posted);
                }
                5..7 if one != other => {
                    feeds.follow(&one, std::slice::from_ref(&other)).await.unwrap();
                    model.follows.insert((one, other));
                }
                7 => {
                    feeds.unfollow(&one, &other).await.unwrap();
                    model.follows.remove(&(one, other));
                }
                _ => {
                    let limit = 1 + u32::try_from(random.below(9)).unwrap();
                    let found = all(&feeds, &one, limit).await;
                    assert_eq!(
                        found,
                        model.feed(&one, 40),
                        "seed {seed}, {design:?}, step {step}, {one} by {limit}"
                    );
                }
            }
        }
        for user in ["u0", "u1", "u2", "u3", "u4", "u5"] {
            assert_eq!(all(&feeds, user, 7).await, model.feed(user, 40), "seed {seed}, {design:?}, {user}");
        }
    }
}

#[tokio::test]
async fn a_retried_activity_counts_once_and_keeps_its_first_text() {
    for design in Design::ALL {
        let (_, feeds) = open(design, "once").await;
        feeds.follow("ann", &["bob".into()]).await.unwrap();
        let first = activity("1", "bob", 5);
        assert_eq!(feeds.post(first.clone()).await.unwrap(), Posted::New);
        assert_eq!(ids(&feeds, "ann").await, ["1"]);
        let again = Activity { text: Some("other words".into()), at_ms: 9, ..first.clone() };
        assert_eq!(feeds.post(again).await.unwrap(), Posted::Known(first.clone()));
        assert_eq!(all(&feeds, "ann", 50).await, [first], "{design:?}");
        assert!(matches!(feeds.post(activity("1", "cid", 5)).await, Err(Error::IdTaken)), "{design:?}");
    }
}

#[tokio::test]
async fn a_cursor_is_stable_under_new_posts() {
    for design in Design::ALL {
        let (_, feeds) = open(design, "cursor").await;
        for n in 0..20 {
            feeds.post(activity(&format!("{n:02}"), "ann", n)).await.unwrap();
        }
        let query = |cursor| FeedQuery { user: "ann".into(), cursor, limit: 5 };
        let first = feeds.read(&query(None), &Reservation::unlimited()).await.unwrap();
        for n in 20..30 {
            feeds.post(activity(&format!("{n:02}"), "ann", n)).await.unwrap();
        }
        let second = feeds.read(&query(first.next), &Reservation::unlimited()).await.unwrap();
        let found: Vec<&str> = second.activities.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(found, ["14", "13", "12", "11", "10"], "{design:?}");
    }
}

#[tokio::test]
async fn depth_and_follows_are_limited() {
    for design in Design::ALL {
        let (_, feeds) = open(design, "depth").await;
        for n in 0..50 {
            feeds.post(activity(&format!("{n:02}"), "bob", n)).await.unwrap();
        }
        feeds.follow("ann", &["bob".into()]).await.unwrap();
        let found = all(&feeds, "ann", 7).await;
        assert_eq!((found.len(), found[39].at_ms), (40, 10), "{design:?}");
        let eight: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
        assert!(matches!(feeds.follow("ann", &eight).await, Err(Error::TooMany { most: 8 })), "{design:?}");
        feeds.follow("ann", &eight[..7]).await.unwrap();
        feeds.follow("ann", &eight[..7]).await.unwrap();
        assert!(matches!(feeds.follow("ann", &eight[7..]).await, Err(Error::TooMany { .. })), "{design:?}");
        assert!(matches!(feeds.follow("ann", &["ann".into()]).await, Err(Error::SelfFollow)), "{design:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_posts_follows_and_reads_give_the_defined_feeds() {
    for design in Design::ALL {
        let (_, feeds) = open(design, "at_once").await;
        let tasks = (0..4).map(|task: u64| {
            let feeds = feeds.clone();
            tokio::spawn(async move {
                let mut random = Random(task + 1);
                let mut posted = Vec::new();
                for step in 0..40 {
                    let one = format!("u{}", random.below(4));
                    let other = format!("u{}", random.below(4));
                    match random.below(4) {
                        0 if one != other => feeds.follow(&one, &[other]).await.unwrap(),
                        1 => feeds.unfollow(&one, &other).await.unwrap(),
                        2 => drop(all(&feeds, &one, 5).await),
                        _ => {
                            let activity = activity(&format!("{task}-{step}"), &one, step);
                            feeds.post(activity.clone()).await.unwrap();
                            posted.push(activity);
                        }
                    }
                }
                posted
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut model = Model::default();
        for task in tasks {
            let posted = task.await.unwrap();
            model.activities.extend(posted.into_iter().map(|it| ((it.at_ms, it.id.clone()), it)));
        }
        let on_read = edges(design).await;
        model.follows = on_read;
        for user in ["u0", "u1", "u2", "u3"] {
            assert_eq!(all(&feeds, user, 7).await, model.feed(user, 40), "{design:?}, {user}");
        }
    }
}

/// The follower graph in the database of a test.
async fn edges(design: Design) -> BTreeSet<(String, String)> {
    use futures_util::TryStreamExt;
    let database = database(&format!("feeds_at_once_{}", design.name())).await;
    let cursor = database.collection::<bson::Document>("follows").find(bson::doc! {}).await.unwrap();
    let edges: Vec<bson::Document> = cursor.try_collect().await.unwrap();
    let name = |edge: &bson::Document, field| edge.get_str(field).unwrap().to_owned();
    edges.iter().map(|edge| (name(edge, "f"), name(edge, "a"))).collect()
}

#[tokio::test]
async fn an_unknown_user_leaves_no_data_in_the_database() {
    let (database, feeds) = open(Design::Hybrid, "nobody").await;
    for n in 0..5 {
        assert!(ids(&feeds, &format!("made-up-{n}")).await.is_empty());
    }
    let caches = database.collection::<bson::Document>("feed_caches");
    assert_eq!(caches.count_documents(bson::doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn an_abandoned_cache_is_created_again() {
    let (database, feeds) = open(Design::Hybrid, "unfinished").await;
    feeds.post(activity("1", "ann", 1)).await.unwrap();
    let caches = database.collection::<bson::Document>("feed_caches");
    let long_ago = bson::DateTime::from_millis(super::bench::now_ms() - 60_000);
    let unfinished =
        bson::doc! {"_id": "ann", "token": bson::oid::ObjectId::new(), "read": long_ago, "e": [], "pull": []};
    caches.insert_one(unfinished).await.unwrap();
    for _ in 0..3 {
        assert_eq!(ids(&feeds, "ann").await, ["1"]);
    }
    let cache = caches.find_one(bson::doc! {"_id": "ann"}).await.unwrap().unwrap();
    assert!(cache.get("token").is_none() && cache.get_array("e").unwrap().len() == 1, "{cache}");
}

#[tokio::test]
async fn caches_are_capped_and_authors_with_many_followers_are_pulled() {
    let (database, feeds) = open(Design::Hybrid, "capped").await;
    for follower in ["ann", "cid"] {
        feeds.follow(follower, &["bob".into()]).await.unwrap();
    }
    assert!(ids(&feeds, "ann").await.is_empty());
    for n in 0..20 {
        feeds.post(activity(&format!("{n:02}"), "bob", n)).await.unwrap();
    }
    let caches = database.collection::<bson::Document>("feed_caches");
    let cache = caches.find_one(bson::doc! {"_id": "ann"}).await.unwrap().unwrap();
    assert_eq!(cache.get_array("e").unwrap().len(), 6, "pushed and capped: {cache}");
    feeds.follow("dan", &["bob".into()]).await.unwrap();
    assert_eq!(ids(&feeds, "ann").await.len(), 20);
    feeds.post(activity("20", "bob", 20)).await.unwrap();
    let cache = caches.find_one(bson::doc! {"_id": "ann"}).await.unwrap().unwrap();
    assert_eq!(cache.get_array("pull").unwrap(), &[Bson::from("bob")], "{cache}");
    assert!(cache.get_array("e").unwrap().is_empty(), "pulled, not pushed: {cache}");
    assert_eq!(ids(&feeds, "ann").await[0], "20");
}

#[tokio::test]
async fn a_database_changes_between_compatible_designs() {
    let database = database("feeds_change").await;
    let open = |design| Feeds::open(&database, settings(design), Clock::start());
    let hybrid = open(Design::Hybrid).await.unwrap();
    hybrid.post(activity("1", "ann", 1)).await.unwrap();
    assert_eq!(ids(&hybrid, "ann").await, ["1"]);
    let on_read = open(Design::OnRead).await.unwrap();
    on_read.post(activity("2", "ann", 2)).await.unwrap();
    let hybrid = open(Design::Hybrid).await.unwrap();
    assert_eq!(ids(&hybrid, "ann").await, ["2", "1"], "the cache lacks an activity and is created again");
    assert!(matches!(open(Design::OnWrite).await, Err(Error::IncompatibleDesign { .. })));
    let wrong = Settings { depth: 0, ..settings(Design::OnRead) };
    assert!(matches!(Feeds::open(&database, wrong, Clock::start()).await, Err(Error::Setting(_))));
}

#[tokio::test]
async fn many_authors_need_bounded_memory_and_show_the_newest() {
    let database = database("feeds_parts").await;
    let settings = Settings { design: Design::OnRead, ..Settings::default() };
    let feeds = Feeds::open(&database, settings, Clock::start()).await.unwrap();
    let authors: Vec<String> = (0..550).map(|n| format!("a{n:03}")).collect();
    let posted = |n: usize| activity(&format!("{n:04}"), &authors[n % 550], i64::try_from(n).unwrap());
    let posted: Vec<Activity> = (0..1_100).map(posted).collect();
    feeds.fill(&[("ann".into(), authors.clone())], &posted).await.unwrap();
    let query = FeedQuery { user: "ann".into(), cursor: None, limit: 50 };
    let budget = Budget::new(1 << 20);
    let hold = budget.reservation();
    let found = feeds.read(&query, &hold).await.unwrap().activities;
    let expected: Vec<Activity> = posted.into_iter().rev().take(50).collect();
    assert_eq!(found, expected);
    // Six queries found 50 activities each.
    let each = budget.taken_bytes();
    assert!(each > 0 && each < 100_000, "{each} bytes for 50 activities");
    drop(hold);
    let (small, others) = (Budget::new(16 << 10), budget.reservation());
    let refused = feeds.read(&query, &small.reservation()).await;
    assert!(matches!(refused, Err(Error::Memory(BudgetError::TooLarge { .. }))), "{refused:?}");
    others.grow(1 << 20).unwrap();
    let refused = feeds.read(&query, &budget.reservation()).await;
    assert!(matches!(refused, Err(Error::Memory(BudgetError::Busy))), "{refused:?}");
}

#[tokio::test]
async fn a_cache_without_memory_is_created_at_the_next_read() {
    let (database, feeds) = open(Design::Hybrid, "memory").await;
    feeds.post(activity("1", "ann", 1)).await.unwrap();
    let budget = Budget::new(1 << 10);
    let others = budget.reservation();
    others.grow(1 << 10).unwrap();
    let query = FeedQuery { user: "ann".into(), cursor: None, limit: 5 };
    assert!(matches!(feeds.read(&query, &budget.reservation()).await, Err(Error::Memory(BudgetError::Busy))));
    let caches = database.collection::<bson::Document>("feed_caches");
    assert_eq!(caches.count_documents(bson::doc! {}).await.unwrap(), 0, "no unfinished cache remains");
    assert_eq!(ids(&feeds, "ann").await, ["1"]);
    assert_eq!(caches.count_documents(bson::doc! {}).await.unwrap(), 1);
}
