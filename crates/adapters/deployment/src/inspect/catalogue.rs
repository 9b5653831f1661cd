//! Lists the collections, selects some for the inspection, and reads their options.

use std::collections::BTreeMap;

use bson::{RawDocument, doc};
use plimsoll_measure::inspection::{Capped, Kind, Options, TimeSeries};
use plimsoll_wire::Error as WireError;

use super::query::{Answer, CursorLimits, End, Found, Inspector};
use super::{COLLECTIONS_MAX, Error, Wanted};
use crate::namespace::Namespace;
use crate::read::{count, document, flag, seconds, text};

/// The database that is inspected by default.
const OWN: &str = "plimsoll";
/// The server's system databases.
const SERVERS_OWN: [&str; 3] = ["admin", "config", "local"];
/// The prefix of the server's system collections.
const SYSTEM: &str = "system.";
/// The largest number of listed collections in a database.
const LISTED: CursorLimits = CursorLimits { documents: 10_000, bytes: 32 << 20 };

/// A collection in a database's catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) options: Options,
}

/// The collections of a database, and the reason why the list ends.
#[derive(Clone, Debug)]
struct Catalogue {
    entries: Vec<Entry>,
    end: End,
}

impl Catalogue {
    /// The entry of one collection; `None` if it does not exist. If an incomplete list lacks a collection,
    /// the collection may exist, with unknown options.
    fn entry(&self, name: &str) -> Option<Entry> {
        let listed = self.entries.iter().find(|entry| entry.name == name).cloned();
        listed.or_else(|| (self.end != End::Complete).then(|| Entry::unknown(name)))
    }
}

impl Entry {
    /// A collection whose options are unknown.
    fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Collections to inspect, and notes about omitted collections.
type Chosen = (Vec<(Namespace, Entry)>, Vec<String>);

/// Selects the collections to inspect in the existing databases.
pub(super) async fn choose(
    asker: &mut Inspector<'_>,
    wanted: &Wanted,
    names: &Option<Vec<String>>,
) -> Result<Chosen, Error> {
    let mut choosing = Choosing::default();
    for db in databases(wanted, names.as_deref())? {
        choosing.whole(asker, &db).await?;
    }
    for namespace in &wanted.collections {
        choosing.one(asker, namespace).await?;
    }
    Ok(choosing.finish())
}

/// The databases whose collections are all inspected. Every requested database must exist.
fn databases(wanted: &Wanted, names: Option<&[String]>) -> Result<Vec<String>, Error> {
    let known = names.unwrap_or_default();
    let is_unknown = |name: &&String| names.is_some() && !known.contains(name);
    let mut named = wanted.databases.iter().chain(wanted.collections.iter().map(|one| &one.db));
    if let Some(name) = named.find(is_unknown) {
        return Err(Error::UnknownDatabase { name: name.clone(), known: known.to_vec() });
    }
    if !wanted.databases.is_empty() || !wanted.collections.is_empty() {
        return Ok(wanted.databases.clone());
    }
    if known.iter().any(|name| name == OWN) {
        return Ok(vec![OWN.to_owned()]);
    }
    Ok(known.iter().filter(|name| !SERVERS_OWN.contains(&name.as_str())).cloned().collect())
}

#[derive(Debug, Default)]
struct Choosing {
    /// The catalogue of each database.
    catalogues: BTreeMap<String, Answer<Catalogue>>,
    chosen: Vec<(Namespace, Entry)>,
    notes: Vec<String>,
}

impl Choosing {
    async fn catalogue(
        &mut self,
        asker: &mut Inspector<'_>,
        db: &str,
    ) -> Result<Answer<Catalogue>, WireError> {
        if let Some(known) = self.catalogues.get(db) {
            return Ok(known.clone());
        }
        let listed = list(asker, db).await?;
        self.notes.extend(match &listed {
            Ok(catalogue) => catalogue.end.note(&format!("the list of the collections of {db}")),
            Err(refusal) => {
                Some(format!("the collections of {db} could not be listed: {}", refusal.reason()))
            }
        });
        self.catalogues.insert(db.to_owned(), listed.clone());
        Ok(listed)
    }

    /// Adds all collections of a database except the system's.
    async fn whole(&mut self, asker: &mut Inspector<'_>, db: &str) -> Result<(), WireError> {
        let entries = self.catalogue(asker, db).await?.map(|catalogue| catalogue.entries).unwrap_or_default();
        for entry in entries.into_iter().filter(|entry| !entry.name.starts_with(SYSTEM)) {
            self.add(Namespace { db: db.to_owned(), collection: entry.name.clone() }, entry);
        }
        Ok(())
    }

    /// Adds one collection. If the server does not list collections, the collection may exist, with unknown
    /// options.
    async fn one(&mut self, asker: &mut Inspector<'_>, namespace: &Namespace) -> Result<(), Error> {
        let Ok(catalogue) = self.catalogue(asker, &namespace.db).await? else {
            self.add(namespace.clone(), Entry::default());
            return Ok(());
        };
        let Some(entry) = catalogue.entry(&namespace.collection) else {
            let known = catalogue.entries.iter().map(|entry| format!("{}.{}", namespace.db, entry.name));
            return Err(Error::UnknownCollection { namespace: namespace.clone(), known: known.collect() });
        };
        self.add(namespace.clone(), entry);
        Ok(())
    }

    fn add(&mut self, namespace: Namespace, entry: Entry) {
        if !self.chosen.iter().any(|(known, _)| *known == namespace) {
            self.chosen.push((namespace, entry));
        }
    }

    fn finish(mut self) -> Chosen {
        let left = self.chosen.len().saturating_sub(COLLECTIONS_MAX);
        if left > 0 {
            self.notes.push(format!(
                "{left} more collections were skipped: name them, at most {COLLECTIONS_MAX} at a time"
            ));
        }
        self.chosen.truncate(COLLECTIONS_MAX);
        (self.chosen, self.notes)
    }
}

/// The entry of one collection; `None` if the collection does not exist. If the server does not list
/// collections, the entry has unknown options.
pub(super) async fn find(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
) -> Result<Option<Entry>, WireError> {
    let name = namespace.collection.as_str();
    let listed = listing(asker, &namespace.db, doc! {"listCollections": 1, "filter": {"name": name}}).await?;
    Ok(match listed {
        Ok(catalogue) => catalogue.entry(name),
        Err(_) => Some(Entry::unknown(name)),
    })
}

/// Every collection of a database, by name. A user may have the right to see names but not options.
async fn list(asker: &mut Inspector<'_>, db: &str) -> Result<Answer<Catalogue>, WireError> {
    let listed = match listing(asker, db, doc! {"listCollections": 1}).await? {
        Ok(listed) => Ok(listed),
        Err(_) => {
            let names = doc! {"listCollections": 1, "nameOnly": true, "authorizedCollections": true};
            listing(asker, db, names).await?
        }
    };
    Ok(listed.map(|mut catalogue| {
        catalogue.entries.sort_by(|one, other| one.name.cmp(&other.name));
        catalogue
    }))
}

async fn listing(
    asker: &mut Inspector<'_>,
    db: &str,
    body: bson::Document,
) -> Result<Answer<Catalogue>, WireError> {
    let answer = asker.ask(db, body).await?;
    let found = asker.rest(db, answer, LISTED).await?;
    let entries = |found: &Found| found.documents.iter().filter_map(|listed| entry(listed)).collect();
    Ok(found.map(|found| Catalogue { entries: entries(&found), end: found.end }))
}

fn entry(listed: &RawDocument) -> Option<Entry> {
    let kind = match listed.get_str("type").unwrap_or_default() {
        "view" => Kind::View,
        "timeseries" => Kind::TimeSeries,
        _ => Kind::Collection,
    };
    let options = document(listed, "options").map(options).unwrap_or_default();
    Some(Entry { name: text(listed, "name")?, kind, options })
}

fn options(said: &RawDocument) -> Options {
    let capped = Capped { bytes_max: count(said, "size"), documents_max: count(said, "max") };
    Options {
        capped: flag(said, "capped").then_some(capped),
        time_series: document(said, "timeseries").map(time_series),
        validator: document(said, "validator").is_some_and(|validator| !validator.is_empty()),
        // A time series has `true` here; a collection has the definition of its index.
        clustered: document(said, "clusteredIndex").is_some() || flag(said, "clusteredIndex"),
        expire_after_s: seconds(said, "expireAfterSeconds"),
        view_on: text(said, "viewOn"),
    }
}

fn time_series(said: &RawDocument) -> TimeSeries {
    TimeSeries {
        time_field: text(said, "timeField").unwrap_or_default(),
        meta_field: text(said, "metaField"),
        granularity: text(said, "granularity"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn without_a_request_our_database_is_inspected_or_all_except_system_databases() {
        let chosen = |known: &[&str]| databases(&Wanted::default(), Some(&names(known))).unwrap();
        assert_eq!(chosen(&["admin", "a", "plimsoll"]), ["plimsoll"]);
        assert_eq!(chosen(&["admin", "a", "b", "config", "local"]), ["a", "b"]);
        assert!(databases(&Wanted::default(), None).unwrap().is_empty());
    }

    #[test]
    fn a_missing_database_is_reported() {
        let wanted = Wanted { databases: names(&["a", "x"]), ..Wanted::default() };
        let error = databases(&wanted, Some(&names(&["a"]))).unwrap_err();
        assert!(error.to_string().contains("database x does not exist"), "{error}");
        // If the server does not list its databases, the requested names are used.
        assert_eq!(databases(&wanted, None).unwrap(), ["a", "x"]);
        let one = Namespace { db: "b".into(), collection: "c".into() };
        let wanted = Wanted { collections: vec![one], ..Wanted::default() };
        assert!(databases(&wanted, Some(&names(&["a", "b"]))).unwrap().is_empty());
        assert!(
            databases(&wanted, Some(&names(&["a"])))
                .unwrap_err()
                .to_string()
                .contains("database b does not exist")
        );
    }

    #[test]
    fn the_options_are_read_from_the_catalogue() {
        let read = |options: bson::RawDocumentBuf| {
            entry(&rawdoc! {"name": "c", "options": options}).unwrap().options
        };
        let capped = read(rawdoc! {"capped": true, "size": 4096, "max": 10_i64}).capped.unwrap();
        assert_eq!((capped.bytes_max, capped.documents_max), (Some(4096), Some(10)));
        let series = read(
            rawdoc! {"timeseries": {"timeField": "t", "granularity": "seconds"}, "expireAfterSeconds": 60},
        );
        assert_eq!(
            (series.time_series.unwrap().time_field.as_str(), series.expire_after_s),
            ("t", Some(60.0))
        );
        assert!(
            read(rawdoc! {"validator": {"a": 1}}).validator && !read(rawdoc! {"validator": {}}).validator
        );
        assert!(read(rawdoc! {"clusteredIndex": {"key": {"_id": 1}}}).clustered);
        assert_eq!(read(rawdoc! {}), Options::default());
        let view = entry(&rawdoc! {"name": "v", "type": "view", "options": {"viewOn": "c"}}).unwrap();
        assert_eq!((view.kind, view.options.view_on.as_deref()), (Kind::View, Some("c")));
    }
}
