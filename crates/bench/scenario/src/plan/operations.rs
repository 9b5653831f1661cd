//! Collects the operations of a scenario by name.

use anyhow::bail;
use plimsoll_http::Request;
use plimsoll_mongo::scenario::Operation as Command;

use crate::operation::Operation;
use crate::{self as scenario, Unit};

/// Every operation by name. Several phases can use the same name for equal operations.
pub(super) fn operations(scenario: &scenario::Scenario) -> anyhow::Result<Vec<(String, Operation)>> {
    let mut known: Vec<(String, Operation)> = Vec::new();
    let mut all = Vec::new();
    for (name, load) in scenario.phases.iter().flat_map(|phase| &phase.load) {
        all.extend(named(name, load)?);
    }
    for (name, operation) in all {
        check_system(scenario, &name, &operation)?;
        match known.iter().find(|(other, _)| *other == name) {
            Some((_, other)) if *other == operation => {}
            Some(_) => bail!("operation `{name}` is defined twice and differently: use two names"),
            None => known.push((name, operation)),
        }
    }
    Ok(known)
}

/// The operations of a load: a single one with the load's name, or those of its mix.
fn named(name: &str, load: &scenario::Load) -> anyhow::Result<Vec<(String, Operation)>> {
    let single = works(load.operation.as_ref(), load.request.as_ref(), load.unit.as_ref());
    if single.len() + usize::from(!load.mix.is_empty()) != 1 {
        bail!("load.{name}: give one of `operation`, `request`, `unit` and `mix`");
    }
    let mut all: Vec<_> = single.into_iter().map(|work| (name.to_owned(), work)).collect();
    for (part, weighted) in &load.mix {
        let mut single =
            works(weighted.operation.as_ref(), weighted.request.as_ref(), weighted.unit.as_ref());
        let (Some(work), true) = (single.pop(), single.is_empty()) else {
            bail!("load.{name}.mix.{part}: give one of `operation`, `request` and `unit`");
        };
        all.push((part.clone(), work));
    }
    Ok(all)
}

/// The given command, request and unit as operations.
fn works(operation: Option<&Command>, request: Option<&Request>, unit: Option<&Unit>) -> Vec<Operation> {
    let operation = operation.cloned().map(Operation::Database);
    let request = request.cloned().map(Operation::Service);
    let unit = unit.cloned().map(Operation::Workflow);
    operation.into_iter().chain(request).chain(unit).collect()
}

/// Refuses an operation of the wrong kind: a scenario with the section `http` sends requests, one with the section `workflow` has units, and
/// any other sends commands.
fn check_system(scenario: &scenario::Scenario, name: &str, work: &Operation) -> anyhow::Result<()> {
    match (scenario.http.is_some(), scenario.workflow.is_some(), work) {
        (true, true, _) => bail!("workflow: this scenario has `http` too: remove one of the two"),
        (true, _, Operation::Database(_)) => bail!(
            "operation `{name}` is a database command, but this scenario has `http`: give it a `request`"
        ),
        (_, true, Operation::Database(_) | Operation::Service(_)) => bail!(
            "operation `{name}` is not for the workflow engine, but this scenario has `workflow`: give it a `unit`"
        ),
        (false, _, Operation::Service(_)) => bail!(
            "operation `{name}` is a request without a target: add a section `http`, such as `http: {{url: \"http://127.0.0.1:8080\"}}`"
        ),
        (_, false, Operation::Workflow(_)) => {
            bail!("operation `{name}` is a unit of the workflow engine: add a section `workflow: {{}}`")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Text, load_text, plan::Plan};

    #[track_caller]
    fn check(section: &str, work: &str, part: &str) {
        let text = format!(
            "title: t\n{section}\nphases:\n  - load:\n      a: {{{work}, arrivals: {{closed: {{writers: 1}}}}}}\n    stop: {{operations: 1}}\n"
        );
        let source = Text { name: "t".into(), origin: "t.yaml".into(), text, base: ".".into() };
        let built = load_text(source, &[], None).and_then(|loaded| Plan::build(&loaded));
        let said = built.err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(said.contains(part) && said.is_empty() == part.is_empty(), "{said}");
    }

    #[test]
    fn each_system_takes_its_own_kind_of_operation() {
        check("workflow: {}", "unit: round_trip", "");
        check("workflow: {}", "mix: {a: {weight: 1, unit: steps}, b: {weight: 2, unit: timer}}", "");
        check("workflow: {}", "operation: {insert: {}}", "give it a `unit`");
        check("document: {a: 1}", "unit: round_trip", "add a section `workflow: {}`");
        check("workflow: {}", "unit: round_trip, operation: {insert: {}}", "give one of `operation`");
        check("workflow: {}\nhttp: {}", "unit: round_trip", "remove one of the two");
    }
}
