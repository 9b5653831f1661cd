//! Implements fan-out on write: copies an activity into the feed of every follower; a read queries one range.
//!
//! A post costs one insert for each follower. Following copies the author's newest activities, unfollowing deletes them. Each
//! step writes first and reads the edges afterwards, so the feeds match the edges after concurrent follows and unfollows.

use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Database, IndexModel};

use super::activity::Activity;
use super::design::{BoxFuture, Delivery};
use super::error::Error;
use super::graph::Graph;
use super::position::Position;
use super::query::{Delete, Find, insert_new};
use super::timeline::{Timeline, found};
use plimsoll_service::Reservation;

const COLLECTION: &str = "feed_entries";
/// The largest number of followers in one step.
pub(super) const CHUNK: u32 = 1_000;

/// Fan-out on write.
#[derive(Clone, Debug)]
pub struct OnWrite {
    database: Database,
    graph: Graph,
    timeline: Timeline,
    depth: u32,
}

impl OnWrite {
    pub(super) async fn open(
        database: &Database,
        graph: Graph,
        timeline: Timeline,
        depth: u32,
    ) -> Result<Self, Error> {
        let unique = IndexOptions::builder().unique(true).build();
        let indexes = [
            IndexModel::builder().keys(doc! {"u": 1, "t": -1, "i": -1}).options(unique).build(),
            IndexModel::builder().keys(doc! {"u": 1, "a": 1}).build(),
        ];
        database.collection::<Document>(COLLECTION).create_indexes(indexes).await?;
        Ok(Self { database: database.clone(), graph, timeline, depth })
    }

    async fn copy(&self, activity: &Activity, users: &[String]) -> Result<(), Error> {
        let entries = users.iter().map(|user| entry(user, activity)).collect();
        Ok(insert_new(&self.database, COLLECTION, entries).await?)
    }

    /// Copies the newest activities of an author for a user.
    async fn fill(&self, user: &str, author: &str) -> Result<(), Error> {
        // These activities are not part of an answer; the depth bounds the copies of each author.
        let memory = Reservation::unlimited();
        let activities = self.timeline.page(&[author.to_owned()], None, self.depth, &memory).await?;
        for chunk in activities.chunks(CHUNK as usize) {
            let entries = chunk.iter().map(|activity| entry(user, activity)).collect();
            insert_new(&self.database, COLLECTION, entries).await?;
        }
        Ok(())
    }

    /// Removes an author from these feeds, then refills those whose users followed meanwhile.
    async fn forget(&self, users: &[String], author: &str) -> Result<(), Error> {
        forget(users, author).run(&self.database).await?;
        for user in self.graph.still(author, users).await? {
            self.fill(&user, author).await?;
        }
        Ok(())
    }

    async fn copy_to_followers(&self, activity: &Activity) -> Result<(), Error> {
        let (author, mut last) = (&activity.user, String::new());
        loop {
            let users = self.graph.page(author, &last, CHUNK).await?;
            let Some(name) = users.last() else { return Ok(()) };
            last.clone_from(name);
            self.copy(activity, &users).await?;
            let still = self.graph.still(author, &users).await?;
            let gone: Vec<String> = users.into_iter().filter(|user| !still.contains(user)).collect();
            if !gone.is_empty() {
                self.forget(&gone, author).await?;
            }
        }
    }
}

impl Delivery for OnWrite {
    fn spread<'a>(&'a self, activity: &'a Activity) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.copy(activity, std::slice::from_ref(&activity.user)).await?;
            self.copy_to_followers(activity).await
        })
    }

    fn filled<'a>(&'a self, user: &'a str, activities: &'a [&'a Activity]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for chunk in activities.chunks(CHUNK as usize) {
                let entries = chunk.iter().map(|activity| entry(user, activity)).collect();
                insert_new(&self.database, COLLECTION, entries).await?;
            }
            Ok(())
        })
    }

    fn followed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.fill(user, author).await?;
            let users = [user.to_owned()];
            if self.graph.still(author, &users).await?.is_empty() {
                self.forget(&users, author).await?;
            }
            Ok(())
        })
    }

    fn unfollowed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.forget(&[user.to_owned()], author).await })
    }

    fn read<'a>(
        &'a self,
        user: &'a str,
        below: Option<&'a Position>,
        limit: u32,
        memory: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>> {
        Box::pin(async move { found(&page(user, below, limit), &self.database, "i", memory).await })
    }
}

fn entry(user: &str, activity: &Activity) -> Document {
    let mut entry = doc! {"u": user};
    entry.extend(activity.document("i"));
    entry
}

pub(super) fn page(user: &str, below: Option<&Position>, limit: u32) -> Find {
    let mut filter = doc! {"u": user};
    if let Some(below) = below {
        filter.extend(below.below("i"));
    }
    let projection = doc! {"_id": 0, "u": 0};
    Find { limit, projection, sort: doc! {"t": -1, "i": -1}, ..Find::new(COLLECTION, filter) }
}

pub(super) fn forget(users: &[String], author: &str) -> Delete {
    Delete { collection: COLLECTION, filter: doc! {"u": {"$in": users}, "a": author} }
}
