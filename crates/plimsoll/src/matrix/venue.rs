//! Where the runs of a matrix are made: decided for all of them before anything is started.

use anyhow::bail;

use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Subject;

/// Where the runs of a matrix are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Venue {
    /// On one database, each in a collection of its own.
    Database,
    /// Against a service that is there: it keeps what each run leaves.
    Service,
    /// Each on a server and a service of its own, started for it and filled.
    Anew,
    /// Each on a service of its own, on a server that stays, in a database of its own.
    Databases,
}

impl Venue {
    /// Where the runs of one cell are made.
    pub const fn of(subject: &Subject) -> Self {
        match subject {
            Subject::Database(_) => Self::Database,
            Subject::Service(_) => Self::Service,
            Subject::Staged(_, Choice::Uri(_)) => Self::Databases,
            Subject::Staged(..) => Self::Anew,
        }
    }

    /// Where the runs of all cells are made.
    ///
    /// # Errors
    /// When cells differ in it: they would not begin alike.
    pub fn of_all<'a>(subjects: impl IntoIterator<Item = &'a Subject>) -> anyhow::Result<Self> {
        let mut venues = subjects.into_iter().map(Self::of);
        let first = venues.next().unwrap_or(Self::Database);
        match venues.find(|other| *other != first) {
            Some(other) => bail!(
                "matrix: some cells go to {}, others to {}: runs that do not begin alike cannot stand side by side; make two \
                 matrices of them",
                first.words(),
                other.words()
            ),
            None => Ok(first),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Database => "a database",
            Self::Service => "a service that is there",
            Self::Anew => "a service on a server that is started for it",
            Self::Databases => "a service on a server that stays",
        }
    }

    /// Whether what was written is read back.
    pub const fn is_audited(self) -> bool {
        matches!(self, Self::Database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::Staging;

    fn staged(choice: Choice) -> Subject {
        let staging: Staging = serde_saphyr::from_str("telemetry: {}").unwrap();
        Subject::Staged(Box::new(staging), choice)
    }

    #[test]
    fn a_service_is_started_on_a_server_of_its_own_unless_one_was_named() {
        let anew = [staged(Choice::Any), staged(Choice::Mongod)];
        assert_eq!(Venue::of_all(&anew).unwrap(), Venue::Anew);
        let named = [staged(Choice::Uri("mongodb://h".into()))];
        assert_eq!(Venue::of_all(&named).unwrap(), Venue::Databases);
        assert!(!Venue::Anew.is_audited());
    }

    #[test]
    fn cells_that_do_not_begin_alike_are_refused() {
        let mixed = [Subject::Service("http://h".into()), staged(Choice::Any)];
        let message = Venue::of_all(&mixed).unwrap_err().to_string();
        assert!(message.contains("a service that is there, others to a service on a server"), "{message}");
    }
}
