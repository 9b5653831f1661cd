//! Implements the hybrid design: pushes activities into capped caches of active readers, and pulls those of authors with too
//! many followers.
//!
//! A cache is one document. The first read creates it, following or unfollowing deletes it, and it expires
//! when idle. A follower who never reads costs only a name in the filter of each push. Pages below a cache
//! are read as in fan-out on read.

use mongodb::bson::oid::ObjectId;

use super::activity::Activity;
use super::design::{BoxFuture, Delivery};
use super::error::Error;
use super::graph::Graph;
use super::on_read::OnRead;
use super::on_write::CHUNK;
use super::position::Position;
use super::timeline::{Timeline, newest_first, taken};
use authors::{Authors, Way};
use cache::{Cache, Caches, Found};
use plimsoll_service::Clock;
use plimsoll_service::Reservation;

pub(super) mod authors;
pub(super) mod cache;

/// The hybrid design.
#[derive(Clone, Debug)]
pub struct Hybrid {
    caches: Caches,
    authors: Authors,
    graph: Graph,
    timeline: Timeline,
    on_read: OnRead,
    pull_from: u32,
    cache_max: u32,
    clock: Clock,
}

/// The parts of the design.
pub(super) struct Parts {
    pub(super) caches: Caches,
    pub(super) authors: Authors,
    pub(super) graph: Graph,
    pub(super) timeline: Timeline,
    pub(super) on_read: OnRead,
}

impl Hybrid {
    pub(super) fn new(parts: Parts, pull_from: u32, cache_max: u32, clock: Clock) -> Self {
        let Parts { caches, authors, graph, timeline, on_read } = parts;
        Self { caches, authors, graph, timeline, on_read, pull_from, cache_max, clock }
    }

    async fn push_to_followers(&self, activity: &Activity) -> Result<(), Error> {
        let (author, mut last) = (&activity.user, String::new());
        loop {
            let users = self.graph.page(author, &last, CHUNK).await?;
            let Some(name) = users.last() else { return Ok(()) };
            last.clone_from(name);
            self.caches.push(&users, activity).await?;
            // A follower who unfollowed during the push may have a new cache with the activity.
            let still = self.graph.still(author, &users).await?;
            let gone: Vec<String> = users.into_iter().filter(|user| !still.contains(user)).collect();
            if !gone.is_empty() {
                self.caches.forget(&gone).await?;
            }
        }
    }

    /// Switches an author to pull if there are enough followers.
    async fn promote(&self, author: &str) -> Result<(), Error> {
        if self.authors.way(author).await? == Way::Pulled || !self.graph.has(author, self.pull_from).await? {
            return Ok(());
        }
        self.authors.begin(author).await?;
        self.caches.forget(&[author.to_owned()]).await?;
        let mut last = String::new();
        loop {
            let users = self.graph.page(author, &last, CHUNK).await?;
            let Some(name) = users.last() else { break };
            last.clone_from(name);
            self.caches.forget(&users).await?;
        }
        self.authors.finish(author).await
    }

    /// The page from a cache, if the cache reaches that far down.
    async fn cached(
        &self,
        cache: Cache,
        below: Option<&Position>,
        limit: u32,
        memory: &Reservation,
    ) -> Result<Option<Vec<Activity>>, Error> {
        let floor = cache.floor();
        let Cache { newest: mut page, pulled, .. } = cache;
        memory.grow(page.iter().map(taken).sum())?;
        if !pulled.is_empty() {
            page.extend(self.timeline.page(&pulled, below, limit, memory).await?);
            newest_first(&mut page);
        }
        page.retain(|it| {
            let position = it.position();
            below.is_none_or(|below| position < *below)
                && floor.as_ref().is_none_or(|floor| position >= *floor)
        });
        let reaches = floor.is_none() || page.len() >= limit as usize;
        page.truncate(limit as usize);
        Ok(reaches.then_some(page))
    }

    /// Creates a cache and returns the first page.
    async fn make(&self, user: &str, limit: u32, memory: &Reservation) -> Result<Vec<Activity>, Error> {
        let Some(token) = self.caches.begin(user, self.clock.now_ms()).await? else {
            return self.on_read.read(user, None, limit, memory).await;
        };
        let made = self.fill(user, token, limit, memory).await;
        if made.is_err() {
            // Other readers must not wait for an unfinished cache. The first error is returned, also if this call fails.
            self.caches.give_up(user, token).await.unwrap_or_default();
        }
        made
    }

    /// Fills a begun cache.
    async fn fill(
        &self,
        user: &str,
        token: ObjectId,
        limit: u32,
        memory: &Reservation,
    ) -> Result<Vec<Activity>, Error> {
        let seen = self.on_read.seen_by(user).await?;
        let pulled = self.authors.pulled(&seen).await?;
        let alone = seen.len() <= 1;
        let (pulled_names, pushed): (Vec<String>, Vec<String>) =
            seen.into_iter().partition(|author| pulled.contains(author));
        let mut page = self.timeline.page(&pushed, None, self.cache_max.max(limit), memory).await?;
        let kept = &page[..page.len().min(self.cache_max as usize)];
        if kept.is_empty() && alone {
            // The user is unknown: invented names must not fill the database.
            self.caches.give_up(user, token).await?;
        } else {
            self.caches.finish(user, token, kept, &pulled).await?;
        }
        if !pulled_names.is_empty() {
            page.extend(self.timeline.page(&pulled_names, None, limit, memory).await?);
            newest_first(&mut page);
        }
        page.truncate(limit as usize);
        Ok(page)
    }
}

impl Delivery for Hybrid {
    fn spread<'a>(&'a self, activity: &'a Activity) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.authors.way(&activity.user).await? == Way::Pulled {
                return Ok(());
            }
            self.caches.push(std::slice::from_ref(&activity.user), activity).await?;
            self.push_to_followers(activity).await
        })
    }

    fn followed<'a>(&'a self, user: &'a str, author: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.caches.forget(&[user.to_owned()]).await?;
            self.promote(author).await
        })
    }

    fn unfollowed<'a>(&'a self, user: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.caches.forget(&[user.to_owned()]).await })
    }

    fn read<'a>(
        &'a self,
        user: &'a str,
        below: Option<&'a Position>,
        limit: u32,
        memory: &'a Reservation,
    ) -> BoxFuture<'a, Vec<Activity>> {
        Box::pin(async move {
            match self.caches.find(user, self.clock.now_ms()).await? {
                Found::Nothing if below.is_none() => return self.make(user, limit, memory).await,
                Found::Cache(cache) => {
                    if let Some(page) = self.cached(cache, below, limit, memory).await? {
                        return Ok(page);
                    }
                }
                Found::Nothing | Found::Making => (),
            }
            self.on_read.read(user, below, limit, memory).await
        })
    }
}
