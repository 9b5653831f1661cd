//! Records the design in the database, so that a service detects incomplete copies of another design.

use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::error::Error;
use super::graph::Graph;
use super::hybrid::cache::Caches;
use super::query::Find;
use super::settings::{Design, Settings};
use super::timeline::Timeline;

const COLLECTION: &str = "feed_design";
const KEY: &str = "design";

/// Prepares the database for the design in the settings.
pub(super) async fn settle(
    database: &Database,
    settings: &Settings,
    timeline: &Timeline,
    graph: &Graph,
) -> Result<(), Error> {
    let design = settings.design.name();
    let (depth, cache) = (i64::from(settings.depth), i64::from(settings.cache_max));
    let known = known().first(database).await?;
    let was = known.as_ref().and_then(|known| known.get_str("design").ok());
    let number = |name| known.as_ref().and_then(|known| known.get_i64(name).ok());
    if settings.design == Design::OnWrite {
        let deeper = number("depth").is_some_and(|kept| kept < depth);
        let empty = timeline.is_empty().await? && graph.is_empty().await?;
        if (was != Some(design) || deeper) && !empty {
            let was = was.map_or("on_read", |was| if deeper { "on_write with a smaller depth" } else { was });
            return Err(Error::IncompatibleDesign { was: was.into() });
        }
    }
    // Caches of another size or an earlier design may lack activities.
    if was != Some(design) || number("cache") != Some(cache) {
        Caches::clear(database).await?;
    }
    let collection = database.collection::<Document>(COLLECTION);
    collection.update_one(key(), note(design, depth, cache)).upsert(true).await?;
    Ok(())
}

fn key() -> Document {
    doc! {"_id": KEY}
}

pub(super) fn known() -> Find {
    Find::new(COLLECTION, key())
}

fn note(design: &str, depth: i64, cache: i64) -> Document {
    doc! {"$set": {"design": design, "depth": depth, "cache": cache}}
}

/// The command that records a design, for `explain`.
pub(super) fn note_command() -> Document {
    let update = doc! {"q": key(), "u": note("on_read", 1, 1), "upsert": true};
    doc! {"update": COLLECTION, "updates": [update]}
}
