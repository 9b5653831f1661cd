//! Collects the operations of a scenario by name.

use anyhow::bail;

use crate as scenario;
use crate::operation::Operation;

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
    let single = load.operation.iter().cloned().map(Operation::Database);
    let single: Vec<_> = single.chain(load.request.iter().cloned().map(Operation::Service)).collect();
    if single.len() + usize::from(!load.mix.is_empty()) != 1 {
        bail!("load.{name}: give one of `operation`, `request` and `mix`");
    }
    let mut works: Vec<_> = single.into_iter().map(|work| (name.to_owned(), work)).collect();
    for (part, weighted) in &load.mix {
        let work = match (&weighted.operation, &weighted.request) {
            (Some(operation), None) => Operation::Database(operation.clone()),
            (None, Some(request)) => Operation::Service(request.clone()),
            _ => bail!("load.{name}.mix.{part}: give either `operation` or `request`"),
        };
        works.push((part.clone(), work));
    }
    Ok(works)
}

/// Refuses an operation of the wrong kind: a scenario with the section `http` sends requests, any other scenario commands.
fn check_system(scenario: &scenario::Scenario, name: &str, work: &Operation) -> anyhow::Result<()> {
    match (scenario.http.is_some(), work) {
        (true, Operation::Database(_)) => bail!(
            "operation `{name}` is a database command, but this scenario has `http`: give it a `request`"
        ),
        (false, Operation::Service(_)) => bail!(
            "operation `{name}` is a request without a target: add a section `http`, such as `http: {{url: \"http://127.0.0.1:8080\"}}`"
        ),
        _ => Ok(()),
    }
}
