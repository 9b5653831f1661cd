//! Stores the edges of the follower graph, one document each: `{f: follower, a: author}`.

use std::collections::HashSet;

use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Database, IndexModel};

use super::error::Error;
use super::query::{Delete, Find, insert_new};

const COLLECTION: &str = "follows";

/// The follower graph.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    database: Database,
}

impl Graph {
    pub(super) async fn open(database: &Database) -> Result<Self, Error> {
        let unique = IndexOptions::builder().unique(true).build();
        let indexes = [
            IndexModel::builder().keys(doc! {"f": 1, "a": 1}).options(unique).build(),
            IndexModel::builder().keys(doc! {"a": 1, "f": 1}).build(),
        ];
        database.collection::<Document>(COLLECTION).create_indexes(indexes).await?;
        Ok(Self { database: database.clone() })
    }

    /// Adds missing edges.
    pub(super) async fn add(&self, user: &str, authors: &[String]) -> Result<(), Error> {
        self.add_all(&[(user.to_owned(), authors.to_vec())]).await
    }

    /// Adds missing edges of several users in bulk.
    pub(super) async fn add_all(&self, follows: &[(String, Vec<String>)]) -> Result<(), Error> {
        let of = |(user, authors): &(String, Vec<String>)| {
            authors.iter().map(|author| doc! {"f": user, "a": author}).collect::<Vec<_>>()
        };
        Ok(insert_new(&self.database, COLLECTION, follows.iter().flat_map(of).collect()).await?)
    }

    pub(super) async fn remove(&self, user: &str, author: &str) -> Result<(), Error> {
        edge(user, author).run(&self.database).await?;
        Ok(())
    }

    /// The authors that a user follows, sorted by name, at most `limit`.
    pub(super) async fn following(&self, user: &str, limit: u32) -> Result<Vec<String>, Error> {
        Ok(names(following(user, limit).all(&self.database).await?, "a"))
    }

    /// The followers of an author among `users`.
    pub(super) async fn still(&self, author: &str, users: &[String]) -> Result<HashSet<String>, Error> {
        Ok(names(still(author, users).all(&self.database).await?, "f").into_iter().collect())
    }

    /// Whether an author has `count` followers or more.
    pub(super) async fn has(&self, author: &str, count: u32) -> Result<bool, Error> {
        let found = after(author, "", count).all(&self.database).await?;
        Ok(found.len() >= count as usize)
    }

    /// Whether the graph is empty.
    pub(super) async fn is_empty(&self) -> Result<bool, Error> {
        Ok(any().first(&self.database).await?.is_none())
    }

    /// The next `limit` followers of an author after the name `last`, sorted by name. No cursor stays open between pages.
    pub(super) async fn page(&self, author: &str, last: &str, limit: u32) -> Result<Vec<String>, Error> {
        Ok(names(after(author, last, limit).all(&self.database).await?, "f"))
    }
}

fn names(documents: Vec<Document>, field: &str) -> Vec<String> {
    documents.iter().filter_map(|document| document.get_str(field).ok()).map(str::to_owned).collect()
}

/// Finds any document: the server reads only one.
pub(super) fn any() -> Find {
    Find { limit: 1, ..Find::new(COLLECTION, Document::new()) }
}

pub(super) fn edge(user: &str, author: &str) -> Delete {
    Delete { collection: COLLECTION, filter: doc! {"f": user, "a": author} }
}

pub(super) fn following(user: &str, limit: u32) -> Find {
    let projection = doc! {"_id": 0, "a": 1};
    Find { projection, limit, sort: doc! {"a": 1}, ..Find::new(COLLECTION, doc! {"f": user}) }
}

pub(super) fn after(author: &str, last: &str, limit: u32) -> Find {
    let projection = doc! {"_id": 0, "f": 1};
    let filter = doc! {"a": author, "f": {"$gt": last}};
    Find { projection, limit, sort: doc! {"f": 1}, ..Find::new(COLLECTION, filter) }
}

pub(super) fn still(author: &str, users: &[String]) -> Find {
    let filter = doc! {"a": author, "f": {"$in": users}};
    Find { projection: doc! {"_id": 0, "f": 1}, ..Find::new(COLLECTION, filter) }
}
