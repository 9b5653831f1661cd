//! Assigns each operation of the plan to the primary, or to a member that a read preference selects.

use plimsoll_wire::ReadPreference;

use crate::setup::Setup;

/// The route of writes, and of reads that the primary answers.
pub(super) const PRIMARY: usize = 0;

/// The routes of a plan: the primary's, then one for each different read preference.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The read preferences of the routes after the primary's.
    preferences: Vec<ReadPreference>,
    /// The route of each operation.
    routes: Vec<usize>,
}

impl Routes {
    /// The routes of a plan. Without members to choose from, all operations go to the same server.
    pub fn of(setup: &Setup, has_members: bool) -> Self {
        let preferences: Vec<_> =
            setup.read_preferences().into_iter().filter(|_| has_members).cloned().collect();
        let route = |wanted: Option<&ReadPreference>| {
            preferences.iter().position(|known| Some(known) == wanted).map_or(PRIMARY, |index| index + 1)
        };
        let routes = setup.concerns.iter().map(|concerns| route(concerns.preference.as_ref())).collect();
        Self { preferences, routes }
    }

    /// The number of routes, at least one.
    pub const fn count(&self) -> usize {
        self.preferences.len() + 1
    }

    /// The route of an operation.
    pub fn of_operation(&self, operation: usize) -> usize {
        self.routes[operation]
    }

    /// The read preference of a route after the primary's.
    pub fn preference(&self, route: usize) -> &ReadPreference {
        &self.preferences[route - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::setup;

    #[test]
    fn reads_with_equal_preferences_share_a_route() {
        let operations = [
            ("insert", r#"{"insert": {}}"#),
            ("near", r#"{"find": {"read_preference": "nearest"}}"#),
            ("far", r#"{"count": {"read_preference": "secondary"}}"#),
            ("other", r#"{"count": {"read_preference": {"mode": "nearest"}}}"#),
            ("strict", r#"{"find": {"read_preference": "primary"}}"#),
        ];
        let setup = setup(r#"{"collection": "d.c", "document": {"a": 1}}"#, &operations).unwrap();
        let routes = |has_members| {
            let routes = Routes::of(&setup, has_members);
            (routes.count(), [0, 1, 2, 3, 4].map(|operation| routes.of_operation(operation)))
        };
        assert_eq!(routes(true), (3, [0, 1, 2, 1, 0]));
        assert_eq!(routes(false), (1, [0; 5]));
    }
}
