//! Tracks the authors whose followers are too many for push.
//!
//! An author moves from *pushed* via *both* to *pulled* and never back. In *both*, activities are still pushed, and new caches
//! list the author as pulled. Pushing ends after all caches without that entry are deleted. So every activity is visible at any
//! time.

use std::collections::HashSet;

use mongodb::Database;
use mongodb::bson::{Document, doc};

use crate::feeds::error::Error;
use crate::feeds::query::{Find, Update, is_known};

const COLLECTION: &str = "feed_authors";
const BOTH: &str = "both";
const PULLED: &str = "pulled";

/// The delivery of an author's activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Activities are pushed.
    Pushed,
    /// Activities are pushed, while new caches already pull them.
    Both,
    /// Activities are pulled.
    Pulled,
}

/// The authors in transition or pulled.
#[derive(Clone, Debug)]
pub struct Authors {
    database: Database,
}

impl Authors {
    /// The authors stored in `database`.
    pub fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// The delivery of an author's activities.
    pub async fn way(&self, author: &str) -> Result<Way, Error> {
        let found = of(&[author.to_owned()]).first(&self.database).await?;
        Ok(match found.as_ref().and_then(|found| found.get_str("s").ok()) {
            None => Way::Pushed,
            Some(PULLED) => Way::Pulled,
            Some(_) => Way::Both,
        })
    }

    /// Those of `authors` that a new cache pulls: the ones in *both* or *pulled*.
    pub async fn pulled(&self, authors: &[String]) -> Result<HashSet<String>, Error> {
        let found = of(authors).all(&self.database).await?;
        let name = |document: &Document| document.get_str("_id").map(str::to_owned).ok();
        Ok(found.iter().filter_map(name).collect())
    }

    /// Moves an author to *both*.
    pub async fn begin(&self, author: &str) -> Result<(), Error> {
        let both = doc! {"_id": author, "s": BOTH};
        match self.database.collection::<Document>(COLLECTION).insert_one(both).await {
            Err(error) if !is_known(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Moves an author to *pulled*.
    pub async fn finish(&self, author: &str) -> Result<(), Error> {
        finish(author).run(&self.database).await?;
        Ok(())
    }
}

pub(in crate::feeds) fn of(authors: &[String]) -> Find {
    Find::new(COLLECTION, doc! {"_id": {"$in": authors}})
}

pub(in crate::feeds) fn finish(author: &str) -> Update {
    Update {
        collection: COLLECTION,
        filter: doc! {"_id": author, "s": BOTH},
        update: doc! {"$set": {"s": PULLED}},
    }
}
