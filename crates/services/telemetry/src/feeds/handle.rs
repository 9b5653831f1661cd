//! Provides the interface of feeds: post, follow, unfollow, read.

use std::collections::HashMap;
use std::sync::Arc;

use mongodb::Database;

use super::activity::Activity;
use super::design::Delivery;
use super::error::Error;
use super::explain;
use super::graph::Graph;
use super::hybrid::authors::Authors;
use super::hybrid::cache::Caches;
use super::hybrid::{Hybrid, Parts};
use super::meta;
use super::on_read::OnRead;
use super::on_write::OnWrite;
use super::position::Cursor;
use super::settings::{Design, Settings};
use super::timeline::Timeline;
use crate::plan::Plan;
use plimsoll_service::Clock;
use plimsoll_service::Reservation;

/// The number of activities in one bulk write. A bulk write of edges has a tenth as many users.
const FILL_CHUNK: usize = 2_000;

/// The feeds. Clones share everything.
#[derive(Clone)]
pub struct Feeds {
    database: Database,
    timeline: Timeline,
    graph: Graph,
    spread: Arc<dyn Delivery>,
    settings: Settings,
}

/// The outcome of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The activity was stored.
    New,
    /// An activity with this id exists; the database is unchanged.
    Known(Activity),
}

/// A query for a page of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedQuery {
    /// The user.
    pub user: String,
    /// The start of the page; the newest activity if absent.
    pub cursor: Option<Cursor>,
    /// The maximum number of activities on the page.
    pub limit: u32,
}

/// A page of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The activities, newest first.
    pub activities: Vec<Activity>,
    /// The start of the next page, if there may be one.
    pub next: Option<Cursor>,
}

impl Feeds {
    /// Creates missing collections and indexes.
    ///
    /// # Errors
    /// [`Error`], also if the database holds feeds of an incompatible design.
    pub async fn open(database: &Database, settings: Settings, clock: Clock) -> Result<Self, Error> {
        if let Some(fault) = settings.fault() {
            return Err(Error::Setting(fault));
        }
        let timeline = Timeline::open(database).await?;
        let graph = Graph::open(database).await?;
        meta::settle(database, &settings, &timeline, &graph).await?;
        let on_read = OnRead::new(graph.clone(), timeline.clone(), settings.following_max);
        let spread: Arc<dyn Delivery> = match settings.design {
            Design::OnRead => Arc::new(on_read),
            Design::OnWrite => {
                Arc::new(OnWrite::open(database, graph.clone(), timeline.clone(), settings.depth).await?)
            }
            Design::Hybrid => {
                let caches = Caches::open(database, settings.cache_max, settings.cache_idle).await?;
                let authors = Authors::new(database);
                let parts =
                    Parts { caches, authors, graph: graph.clone(), timeline: timeline.clone(), on_read };
                Arc::new(Hybrid::new(parts, settings.pull_from, settings.cache_max, clock))
            }
        };
        Ok(Self { database: database.clone(), timeline, graph, spread, settings })
    }

    /// Stores an activity and delivers it to followers. Retries with the same id store it once.
    ///
    /// # Errors
    /// [`Error::IdTaken`] if another user's activity has this id; [`Error::Database`]: retry.
    pub async fn post(&self, activity: Activity) -> Result<Posted, Error> {
        let known = self.timeline.add(&activity).await?;
        // An earlier attempt may have failed before all deliveries.
        self.spread.spread(known.as_ref().unwrap_or(&activity)).await?;
        Ok(known.map_or(Posted::New, Posted::Known))
    }

    /// Makes a user follow these authors. The feed also shows their earlier activities.
    ///
    /// # Errors
    /// [`Error::SelfFollow`], [`Error::TooMany`], [`Error::Database`].
    pub async fn follow(&self, user: &str, authors: &[String]) -> Result<(), Error> {
        if authors.iter().any(|author| author == user) {
            return Err(Error::SelfFollow);
        }
        let most = self.settings.following_max;
        let mut all = self.graph.following(user, most.saturating_add(1)).await?;
        all.extend_from_slice(authors);
        all.sort_unstable();
        all.dedup();
        if all.len() > most as usize {
            return Err(Error::TooMany { most });
        }
        self.graph.add(user, authors).await?;
        for author in authors {
            self.spread.followed(user, author).await?;
        }
        Ok(())
    }

    /// Stores activities and edges in bulk, for a database that no service uses yet. Existing ones stay unchanged.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn fill(
        &self,
        follows: &[(String, Vec<String>)],
        activities: &[Activity],
    ) -> Result<(), Error> {
        for chunk in activities.chunks(FILL_CHUNK) {
            self.timeline.add_all(chunk).await?;
        }
        for chunk in follows.chunks(FILL_CHUNK / 10) {
            self.graph.add_all(chunk).await?;
        }
        let mut by_author: HashMap<&str, Vec<&Activity>> = HashMap::new();
        activities.iter().for_each(|it| by_author.entry(&it.user).or_default().push(it));
        for (user, authors) in follows {
            let seen = authors.iter().chain([user]).filter_map(|author| by_author.get(author.as_str()));
            let seen: Vec<&Activity> = seen.flatten().copied().collect();
            self.spread.filled(user, &seen).await?;
        }
        Ok(())
    }

    /// Makes a user unfollow an author. The author's activities leave the feed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn unfollow(&self, user: &str, author: &str) -> Result<(), Error> {
        // A user's own activities stay in the feed.
        if user == author {
            return Ok(());
        }
        self.graph.remove(user, author).await?;
        self.spread.unfollowed(user, author).await
    }

    /// A page of a user's feed, empty for an unknown user. `memory` reserves its memory, so keep it as long as the page.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Database`].
    pub async fn read(&self, query: &FeedQuery, memory: &Reservation) -> Result<Feed, Error> {
        let seen = query.cursor.as_ref().map_or(0, |cursor| cursor.seen);
        let limit = query.limit.min(self.settings.depth.saturating_sub(seen));
        if limit == 0 {
            return Ok(Feed { activities: Vec::new(), next: None });
        }
        let below = query.cursor.as_ref().map(|cursor| &cursor.after);
        let activities = self.spread.read(&query.user, below, limit, memory).await?;
        let shown = u32::try_from(activities.len()).unwrap_or(u32::MAX);
        let seen = seen.saturating_add(shown);
        let more = shown == limit && seen < self.settings.depth;
        let last = activities.last().filter(|_| more).map(Activity::position);
        Ok(Feed { activities, next: last.map(|after| Cursor { after, seen }) })
    }

    /// The server's query plan for each query of the design.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn explain(&self) -> Result<Vec<Plan>, Error> {
        explain::all(&self.database, self.settings.design).await
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
