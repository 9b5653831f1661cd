//! Reads the server's query plans (`explain`).

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

/// The query plan of a command.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The purpose of the command.
    pub name: &'static str,
    /// The command.
    pub command: Document,
    /// The server's `explain` output.
    pub explained: Document,
}

impl Plan {
    /// The stages of the plan, outermost first.
    pub fn stages(&self) -> Vec<String> {
        self.values_of("stage")
    }

    /// The used indexes.
    pub fn indexes(&self) -> Vec<String> {
        self.values_of("indexName")
    }

    /// All values of `field` in the winning plan.
    fn values_of(&self, field: &str) -> Vec<String> {
        let mut found = Vec::new();
        collect(&Bson::Document(self.explained.clone()), field, &mut found);
        found
    }
}

fn collect(explained: &Bson, field: &str, found: &mut Vec<String>) {
    match explained {
        Bson::Document(document) => {
            for (name, value) in document.iter().filter(|(name, _)| *name != "rejectedPlans") {
                match value {
                    Bson::String(text) if name == field => found.push(text.clone()),
                    other => collect(other, field, found),
                }
            }
        }
        Bson::Array(all) => all.iter().for_each(|one| collect(one, field, found)),
        _ => {}
    }
}

/// Explains each command without executing it.
pub(crate) async fn explain(
    database: &Database,
    commands: Vec<(&'static str, Document)>,
) -> mongodb::error::Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for (name, command) in commands {
        let explain = doc! {"explain": command.clone(), "verbosity": "queryPlanner"};
        let explained = database.run_command(explain).await?;
        plans.push(Plan { name, command, explained });
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_plans_are_ignored() {
        let explained = doc! {"queryPlanner": {
            "winningPlan": {"stage": "FETCH", "inputStage": {"stage": "IXSCAN", "indexName": "a_1"}},
            "rejectedPlans": [{"stage": "COLLSCAN"}],
        }};
        let plan = Plan { name: "it", command: doc! {}, explained };
        assert_eq!(plan.stages(), ["FETCH", "IXSCAN"]);
        assert_eq!(plan.indexes(), ["a_1"]);
    }
}
