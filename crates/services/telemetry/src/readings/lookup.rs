//! Represents a `find` as a value, which the driver runs and `explain` takes.

use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{ReadPreference, SelectionCriteria};
use mongodb::{Collection, Cursor};

use super::Error;

/// The server's time limit for a query.
const QUERY_MAX: Duration = Duration::from_secs(30);

/// A query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) projection: Option<Document>,
    pub(crate) limit: Option<i64>,
    /// The number of documents in each reply. `None`: the server's default, 101 in the first reply, then as
    /// many as fit 16 MiB.
    pub(crate) batch: Option<u32>,
}

impl Lookup {
    pub(crate) fn new(filter: Document) -> Self {
        Lookup { filter, ..Lookup::default() }
    }

    pub(crate) fn sorted(self, sort: Document) -> Self {
        Lookup { sort: Some(sort), ..self }
    }

    pub(crate) fn limited(self, limit: usize) -> Self {
        Lookup { limit: i64::try_from(limit).ok(), ..self }
    }

    /// Sets a smaller batch, for large documents or early stops.
    pub(crate) fn in_batches_of(self, documents: u32) -> Self {
        Lookup { batch: Some(documents), ..self }
    }

    pub(crate) fn projected(self, projection: Document) -> Self {
        Lookup { projection: Some(projection), ..self }
    }

    /// Runs it with the collection's read preference.
    pub(crate) async fn run(
        self,
        from: &Collection<RawDocumentBuf>,
    ) -> Result<Cursor<RawDocumentBuf>, Error> {
        Ok(self.find(from).await?)
    }

    /// Runs it on the primary, to see the latest writes.
    pub(crate) async fn run_on_primary(
        self,
        from: &Collection<RawDocumentBuf>,
    ) -> mongodb::error::Result<Cursor<RawDocumentBuf>> {
        self.find(from).selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary)).await
    }

    fn find(self, from: &Collection<RawDocumentBuf>) -> mongodb::action::Find<'_, RawDocumentBuf> {
        let mut find = from.find(self.filter).max_time(QUERY_MAX);
        if let Some(sort) = self.sort {
            find = find.sort(sort);
        }
        if let Some(projection) = self.projection {
            find = find.projection(projection);
        }
        if let Some(batch) = self.batch {
            find = find.batch_size(batch);
        }
        match self.limit {
            Some(limit) => find.limit(limit),
            None => find,
        }
    }

    /// The command, for `explain`.
    pub(crate) fn command(&self, collection: &str) -> Document {
        let mut command = doc! {"find": collection, "filter": self.filter.clone()};
        command.extend(self.sort.clone().map(|sort| ("sort".to_owned(), sort.into())));
        command
            .extend(self.projection.clone().map(|projection| ("projection".to_owned(), projection.into())));
        command.extend(self.limit.map(|limit| ("limit".to_owned(), limit.into())));
        command.extend(self.batch.map(|batch| ("batchSize".to_owned(), i64::from(batch).into())));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_equals_the_query() {
        let lookup = Lookup::new(doc! {"a": 1}).sorted(doc! {"a": -1}).limited(3).projected(doc! {"a": 1});
        let expected =
            doc! {"find": "c", "filter": {"a": 1}, "sort": {"a": -1}, "projection": {"a": 1}, "limit": 3_i64};
        assert_eq!(lookup.command("c"), expected);
        assert_eq!(Lookup::new(doc! {}).command("c"), doc! {"find": "c", "filter": {}});
    }
}
