//! Resolves the concerns of each operation: its own, else the scenario's, else the URI's.

use plimsoll_deployment::concern::Concerns;
use plimsoll_wire as wire;

use super::{Command, Error, Setup};
use crate::scenario::{Client, Operation, ReadPreference, Section, W};

/// The version of a document that a read must return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// The last version that was acknowledged before the read, or a later one.
    #[default]
    Latest,
    /// Any version that was ever sent, or no document: a copy of the documents may lag.
    MayBeStale,
}

/// The guaranteed lifetime of a version that a read shows and that no write acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// No guarantee: the version may be rolled back.
    #[default]
    Unproven,
    /// As long as the server runs: it may forget the version when it restarts.
    UntilReconnect,
    /// Forever: a majority of a replica set has the version.
    Permanent,
    /// Forever, and every later read of the same kind shows it: the read is linearizable.
    Ordered,
}

impl Validity {
    /// Whether a majority has the version.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Permanent | Self::Ordered)
    }
}

/// Whether the server keeps several copies of the documents, one of which may lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// A standalone server.
    One,
    /// A replica set or a sharded cluster.
    Several,
}

impl Setup {
    /// Adopts the concerns of the URI for operations that set none, and decides which reads may be stale.
    pub fn inherit(&mut self, uri: &Concerns, copies: Copies) {
        for (command, concerns) in self.commands.iter().zip(&mut self.concerns) {
            *concerns = applicable(command, std::mem::take(concerns).or(uri));
        }
        let majority = |write: &Option<wire::WriteConcern>| {
            write.as_ref().is_some_and(|write| write.w == wire::W::Majority)
        };
        let mut writes = self.commands.iter().zip(&self.concerns).filter(|(command, _)| command.writes());
        let all_majority = writes.all(|(_, concerns)| majority(&concerns.write));
        let fresh = |concerns: &Concerns| freshness(concerns, all_majority, copies);
        self.freshness = self.concerns.iter().map(fresh).collect();
        let client = self.client;
        self.validity = self.concerns.iter().map(|concerns| validity(concerns, copies, client)).collect();
    }

    /// The validity of the versions that reads of an operation show.
    pub fn validity(&self, operation: usize) -> Validity {
        self.validity.get(operation).copied().unwrap_or_default()
    }

    /// The version that reads of an operation must return.
    pub fn freshness(&self, operation: usize) -> Freshness {
        self.freshness.get(operation).copied().unwrap_or_default()
    }

    /// The different read preferences that may select another member than the primary.
    pub fn read_preferences(&self) -> Vec<&wire::ReadPreference> {
        let mut all: Vec<&wire::ReadPreference> = Vec::new();
        let elsewhere = self.concerns.iter().filter(|concerns| concerns.reads_elsewhere());
        for preference in elsewhere.filter_map(|concerns| concerns.preference.as_ref()) {
            if !all.contains(&preference) {
                all.push(preference);
            }
        }
        all
    }

    /// The different write concerns of writing operations, each with the names of its operations, in the
    /// order of the plan.
    pub fn write_concerns(&self) -> Vec<(Option<&wire::WriteConcern>, Vec<&str>)> {
        let mut all: Vec<(Option<&wire::WriteConcern>, Vec<&str>)> = Vec::new();
        let named = self.commands.iter().zip(&self.concerns).zip(&self.names);
        for ((_, concerns), name) in named.filter(|((command, _), _)| command.writes()) {
            let write = concerns.write.as_ref();
            match all.iter_mut().find(|(known, _)| *known == write) {
                Some((_, names)) => names.push(name),
                None => all.push((write, vec![name])),
            }
        }
        all
    }
}

/// The concerns that the scenario sets for all operations.
pub(super) fn of_section(section: &Section) -> Result<Concerns, Error> {
    let write = section.write_concern.to_wire().map_err(Error::WriteConcern)?;
    let preference = section.read_preference.as_ref().map(ReadPreference::to_wire).transpose();
    let preference = preference.map_err(|problem| Error::ReadPreference(String::new(), problem))?;
    Ok(Concerns { write, read: section.read_concern.clone(), preference })
}

/// The concerns of an operation: its own, else the scenario's.
pub(super) fn of_operation(
    name: &str,
    operation: &Operation,
    command: &Command,
    scenario: &Concerns,
) -> Result<Concerns, Error> {
    let write = match operation.write_concern() {
        Some(typed) if typed.w == Some(W::Number(0)) => {
            return Err(Error::OperationUnacknowledged(name.to_owned()));
        }
        Some(_) if scenario.write.as_ref().is_some_and(|write| !write.is_acknowledged()) => {
            return Err(Error::MixedAcknowledgement(name.to_owned()));
        }
        Some(typed) => {
            typed.to_wire().map_err(|problem| Error::OperationWriteConcern(name.to_owned(), problem))?
        }
        None => None,
    };
    let preference = operation.read_preference().map(ReadPreference::to_wire).transpose();
    let preference = preference.map_err(|problem| Error::ReadPreference(format!("{name}."), problem))?;
    let own = Concerns { write, read: operation.read_concern().cloned(), preference };
    Ok(applicable(command, own.or(scenario)))
}

/// The concerns that a command can carry. Transactions, and reads that a write follows, go to the primary.
fn applicable(command: &Command, all: Concerns) -> Concerns {
    let is_transaction = matches!(command, Command::Transaction { .. });
    let reads_too = matches!(command, Command::ReadModifyWrite { .. } | Command::ListAppend { .. });
    let reads = command.only_reads() || is_transaction || reads_too;
    Concerns {
        write: all.write.filter(|_| command.writes() || is_transaction),
        read: all.read.filter(|_| reads),
        preference: all.preference.filter(|_| command.only_reads()),
    }
}

/// Decides whether reads may be stale. A secondary lags. A read at majority lags behind writes that fewer
/// members acknowledged. A read at `available` may even return documents that were moved to another shard.
fn freshness(concerns: &Concerns, all_majority: bool, copies: Copies) -> Freshness {
    let committed = match concerns.read.as_deref() {
        Some("majority" | "snapshot") => !all_majority,
        Some("available") => true,
        _ => false,
    };
    let may_be_stale = copies == Copies::Several && (concerns.reads_elsewhere() || committed);
    if may_be_stale { Freshness::MayBeStale } else { Freshness::Latest }
}

/// Decides how long a version that a read shows is valid. Only a version read at majority is never rolled
/// back. A read from a primary shows writes that a new primary may lack. A standalone server forgets an
/// unacknowledged write only when it restarts, which only our own client notices.
fn validity(concerns: &Concerns, copies: Copies, client: Client) -> Validity {
    match (copies, concerns.read.as_deref()) {
        (Copies::Several, Some("linearizable")) => Validity::Ordered,
        (Copies::Several, Some("majority" | "snapshot")) => Validity::Permanent,
        (Copies::One, _) if client == Client::Lean => Validity::UntilReconnect,
        _ => Validity::Unproven,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::{ReadMode, WriteConcern};

    use super::*;
    use crate::testing::setup;

    const SECTION: &str = r#"{"collection": "d.c", "document": {"a": 1}, "write_concern": {"w": 1},
        "read_concern": "local", "read_preference": "nearest"}"#;

    fn written(w: wire::W) -> Option<WriteConcern> {
        Some(WriteConcern { w, j: None, timeout_ms: None })
    }

    #[test]
    fn the_operation_wins_over_the_scenario_and_the_scenario_over_the_uri() {
        let operations = [
            ("own", r#"{"insert": {"write_concern": {"w": "majority"}}}"#),
            ("insert", r#"{"insert": {}}"#),
            ("find", r#"{"find": {"read_concern": "majority", "read_preference": {"mode": "secondary"}}}"#),
            ("count", r#"{"count": {}}"#),
        ];
        let mut setup = setup(SECTION, &operations).unwrap();
        let uri = Concerns { write: written(wire::W::Number(3)), ..Concerns::default() };
        setup.inherit(&uri, Copies::One);
        let write = |index: usize| setup.concerns[index].write.clone();
        assert_eq!((write(0), write(1)), (written(wire::W::Majority), written(wire::W::Number(1))));
        let read =
            |index: usize| (setup.concerns[index].read.as_deref(), setup.concerns[index].preference.clone());
        assert_eq!(read(2), (Some("majority"), Some(wire::ReadPreference::of(ReadMode::Secondary))));
        assert_eq!(read(3), (Some("local"), Some(wire::ReadPreference::of(ReadMode::Nearest))));
        assert_eq!((write(2), read(0)), (None, (None, None)), "each has only the concerns that it can carry");
        assert_eq!(setup.read_preferences().len(), 2);
    }

    #[test]
    fn the_uri_is_the_default_of_all_operations() {
        let operations = [
            ("insert", r#"{"insert": {}}"#),
            ("find", r#"{"find": {}}"#),
            ("transfer", r#"{"transaction": {"operations": [{"find": {}}]}}"#),
        ];
        let mut setup = setup(r#"{"collection": "d.c", "document": {"a": 1}}"#, &operations).unwrap();
        let preference = Some(wire::ReadPreference::of(ReadMode::Secondary));
        let uri = Concerns { write: written(wire::W::Majority), read: Some("majority".into()), preference };
        setup.inherit(&uri, Copies::Several);
        assert_eq!(setup.concerns[0], Concerns { read: None, preference: None, ..uri.clone() });
        assert_eq!(setup.concerns[1], Concerns { write: None, ..uri.clone() });
        assert_eq!(setup.concerns[2], Concerns { preference: None, ..uri });
        assert_eq!(
            [0, 1, 2].map(|it| setup.freshness(it)),
            [Freshness::Latest, Freshness::MayBeStale, Freshness::Latest]
        );
    }

    #[test]
    fn only_reads_of_what_a_majority_has_are_valid_forever() {
        let at = |level: &str| Concerns { read: Some(level.into()), ..Concerns::default() };
        for (level, expected) in [
            ("majority", Validity::Permanent),
            ("snapshot", Validity::Permanent),
            ("linearizable", Validity::Ordered),
        ] {
            assert!(expected.is_permanent());
            for client in [Client::Lean, Client::Driver] {
                assert_eq!(validity(&at(level), Copies::Several, client), expected);
            }
            assert_eq!(validity(&at(level), Copies::One, Client::Lean), Validity::UntilReconnect);
        }
        for concerns in [Concerns::default(), at("local"), at("available")] {
            assert_eq!(validity(&concerns, Copies::Several, Client::Lean), Validity::Unproven);
            assert_eq!(validity(&concerns, Copies::One, Client::Lean), Validity::UntilReconnect);
            assert_eq!(validity(&concerns, Copies::One, Client::Driver), Validity::Unproven);
        }
    }

    #[test]
    fn only_reads_of_a_lagging_copy_may_be_stale() {
        let elsewhere =
            Concerns { preference: Some(wire::ReadPreference::of(ReadMode::Nearest)), ..Concerns::default() };
        let at = |level: &str| Concerns { read: Some(level.into()), ..Concerns::default() };
        for (concerns, all_majority, copies, expected) in [
            (&elsewhere, true, Copies::Several, Freshness::MayBeStale),
            (&elsewhere, false, Copies::One, Freshness::Latest),
            (&at("majority"), false, Copies::Several, Freshness::MayBeStale),
            (&at("snapshot"), false, Copies::Several, Freshness::MayBeStale),
            (&at("majority"), true, Copies::Several, Freshness::Latest),
            (&at("majority"), false, Copies::One, Freshness::Latest),
            (&at("available"), true, Copies::Several, Freshness::MayBeStale),
            (&at("linearizable"), false, Copies::Several, Freshness::Latest),
            (&Concerns::default(), false, Copies::Several, Freshness::Latest),
        ] {
            assert_eq!(freshness(concerns, all_majority, copies), expected, "{concerns:?} {copies:?}");
        }
    }

    #[test]
    fn writes_are_listed_by_their_concern() {
        let operations = [
            ("insert", r#"{"insert": {"write_concern": {"w": "majority"}}}"#),
            ("update", r#"{"update": {"update": {"$set": {"a": 2}}}}"#),
            ("find", r#"{"find": {}}"#),
            ("delete", r#"{"delete": {}}"#),
        ];
        let setup = setup(SECTION, &operations).unwrap();
        let (majority, one) = (written(wire::W::Majority), written(wire::W::Number(1)));
        let expected = vec![(majority.as_ref(), vec!["insert"]), (one.as_ref(), vec!["update", "delete"])];
        assert_eq!(setup.write_concerns(), expected);
    }

    #[test]
    fn a_concern_that_no_server_accepts_is_refused_with_its_place() {
        let plain = r#"{"collection": "d.c", "document": {"a": 1}}"#;
        let silent = r#"{"collection": "d.c", "document": {"a": 1}, "write_concern": {"w": 0}}"#;
        for (section, operation, part) in [
            (
                plain,
                r#"{"insert": {"write_concern": {"w": 0}}}"#,
                "op.write_concern: w: 0 asks for no answer",
            ),
            (
                plain,
                r#"{"insert": {"write_concern": {"w": 99}}}"#,
                "op.write_concern: w: a replica set has at most",
            ),
            (
                silent,
                r#"{"insert": {"write_concern": {"w": 1}}}"#,
                "op.write_concern: the scenario's write_concern",
            ),
            (
                plain,
                r#"{"find": {"read_preference": {"mode": "primary", "tag_sets": [{}]}}}"#,
                "op.read_preference: the primary has no conditions",
            ),
        ] {
            let message = setup(section, &[("op", operation)]).unwrap_err().to_string();
            assert!(message.contains(part), "{operation}: {message}");
        }
        let section =
            r#"{"collection": "d.c", "read_preference": {"mode": "nearest", "max_staleness": "1s"}}"#;
        let message = setup(section, &[("op", r#"{"find": {"filter": {}}}"#)]).unwrap_err().to_string();
        assert_eq!(message, "read_preference: max_staleness: give whole seconds, at least 90s");
    }
}
