//! Lists the databases and their sizes.

use bson::{RawDocument, doc};
use plimsoll_measure::inspection::{Database, Reported, Size};
use plimsoll_wire::Error as WireError;

use super::query::Inspector;
use crate::read::{count, text};

/// The largest number of databases whose size is queried.
const DATABASES_MAX: usize = 100;

/// The names of all databases that this user may see; `None` if the server does not list them.
pub(super) async fn names(asker: &mut Inspector<'_>) -> Result<Option<Vec<String>>, WireError> {
    let reply = asker.ask("admin", doc! {"listDatabases": 1, "nameOnly": true}).await?;
    Ok(reply.ok().and_then(|reply| {
        let list = reply.get_array("databases").ok()?;
        let databases = list.into_iter().map_while(Result::ok);
        Some(databases.filter_map(|database| text(database.as_document()?, "name")).collect())
    }))
}

/// The size of each database, and a note if some were left out.
pub(super) async fn sizes(
    asker: &mut Inspector<'_>,
    names: &Option<Vec<String>>,
) -> Result<(Vec<Database>, Option<String>), WireError> {
    let Some(names) = names else {
        return Ok((Vec::new(), Some("the server does not list its databases for this user".into())));
    };
    let mut databases = Vec::new();
    for name in names.iter().take(DATABASES_MAX) {
        let stats = asker.ask(name, doc! {"dbStats": 1}).await?;
        let unknown = Database { name: name.clone(), ..Database::default() };
        databases.push(stats.map_or(unknown, |stats| database(name, &stats)));
    }
    let left = names.len().saturating_sub(DATABASES_MAX);
    let note = format!("only {DATABASES_MAX} databases are listed; {left} are omitted");
    Ok((databases, (left > 0).then_some(note)))
}

fn database(name: &str, stats: &RawDocument) -> Database {
    let said = Reported {
        documents: count(stats, "objects"),
        data_bytes: count(stats, "dataSize"),
        storage_bytes: count(stats, "storageSize"),
        index_bytes: count(stats, "indexSize"),
        free_bytes: None,
    };
    let size = Size::of(&said);
    Database {
        name: name.to_owned(),
        collections: count(stats, "collections"),
        documents: said.documents,
        data_bytes: size.data_bytes,
        storage_bytes: size.storage_bytes,
        index_bytes: size.index_bytes,
    }
}
