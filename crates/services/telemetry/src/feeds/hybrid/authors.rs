//! Who has too many followers to push to.
//!
//! An author passes from *pushed* over *both* to *pulled* and never back. While it is both, it is still pushed, and caches
//! that are made list it as pulled; once the caches that do not list it are gone, it is pushed no more. So at no moment an
//! activity is seen by nobody.

use std::collections::HashSet;

use mongodb::Database;
use mongodb::bson::{Document, doc};

use crate::feeds::error::Error;
use crate::feeds::query::{Find, Update, is_known};

const COLLECTION: &str = "feed_authors";
const BOTH: &str = "both";
const PULLED: &str = "pulled";

/// How an author's activities come to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They are pushed.
    Pushed,
    /// They are pushed, and readers are getting used to pulling them.
    Both,
    /// They are pulled.
    Pulled,
}

/// The authors who are not simply pushed.
#[derive(Clone, Debug)]
pub struct Authors {
    database: Database,
}

impl Authors {
    /// Those in `database`.
    pub fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// The way of an author.
    pub async fn way(&self, author: &str) -> Result<Way, Error> {
        let found = of(&[author.to_owned()]).first(&self.database).await?;
        Ok(match found.as_ref().and_then(|found| found.get_str("s").ok()) {
            None => Way::Pushed,
            Some(PULLED) => Way::Pulled,
            Some(_) => Way::Both,
        })
    }

    /// Those of `authors` that a reader pulls.
    pub async fn pulled(&self, authors: &[String]) -> Result<HashSet<String>, Error> {
        let found = of(authors).all(&self.database).await?;
        let name = |document: &Document| document.get_str("_id").map(str::to_owned).ok();
        Ok(found.iter().filter_map(name).collect())
    }

    /// Sets out to pull an author.
    pub async fn begin(&self, author: &str) -> Result<(), Error> {
        let both = doc! {"_id": author, "s": BOTH};
        match self.database.collection::<Document>(COLLECTION).insert_one(both).await {
            Err(error) if !is_known(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// From now on an author is pulled only.
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
