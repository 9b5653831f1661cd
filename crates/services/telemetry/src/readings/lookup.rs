//! A query of one collection, in one form for the driver and for `explain`.

use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{ReadPreference, SelectionCriteria};
use mongodb::{Collection, Cursor};

use super::Error;

/// How long the server may work on a query before it gives up.
const QUERY_MAX: Duration = Duration::from_secs(30);

/// What to find.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) projection: Option<Document>,
    pub(crate) limit: Option<i64>,
    /// Documents that the server sends at once; its default is 101 and then as many as fit 16 MiB.
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

    /// For documents that are large or may not all be wanted.
    pub(crate) fn in_batches_of(self, documents: u32) -> Self {
        Lookup { batch: Some(documents), ..self }
    }

    pub(crate) fn projected(self, projection: Document) -> Self {
        Lookup { projection: Some(projection), ..self }
    }

    /// Asks the server, as the collection's read preference says.
    pub(crate) async fn run(
        self,
        from: &Collection<RawDocumentBuf>,
    ) -> Result<Cursor<RawDocumentBuf>, Error> {
        Ok(self.find(from).await?)
    }

    /// Asks the primary, whatever the read preference: what was just written must be seen.
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

    /// The same as a command.
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
    fn the_command_says_what_the_lookup_says() {
        let lookup = Lookup::new(doc! {"a": 1}).sorted(doc! {"a": -1}).limited(3).projected(doc! {"a": 1});
        let expected =
            doc! {"find": "c", "filter": {"a": 1}, "sort": {"a": -1}, "projection": {"a": 1}, "limit": 3_i64};
        assert_eq!(lookup.command("c"), expected);
        assert_eq!(Lookup::new(doc! {}).command("c"), doc! {"find": "c", "filter": {}});
    }
}
