//! How the server carries out a command: its own `explain`, and what stands in it.

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

/// How the server carries out one command of a design.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the command is for.
    pub name: &'static str,
    /// The command.
    pub command: Document,
    /// What the server's `explain` says of it.
    pub explained: Document,
}

impl Plan {
    /// The stages of the plan from the outermost in, as the server names them.
    pub fn stages(&self) -> Vec<String> {
        self.said_of("stage")
    }

    /// The indexes that are used.
    pub fn indexes(&self) -> Vec<String> {
        self.said_of("indexName")
    }

    /// What stands under `field`, anywhere in the plan that won: the plans that lost are left out.
    fn said_of(&self, field: &str) -> Vec<String> {
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

/// Asks the server for its plan of each command, without carrying any of them out.
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
    fn what_lost_is_left_out() {
        let explained = doc! {"queryPlanner": {
            "winningPlan": {"stage": "FETCH", "inputStage": {"stage": "IXSCAN", "indexName": "a_1"}},
            "rejectedPlans": [{"stage": "COLLSCAN"}],
        }};
        let plan = Plan { name: "it", command: doc! {}, explained };
        assert_eq!(plan.stages(), ["FETCH", "IXSCAN"]);
        assert_eq!(plan.indexes(), ["a_1"]);
    }
}
