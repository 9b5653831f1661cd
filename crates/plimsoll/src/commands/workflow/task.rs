//! Implements `plimsoll workflow task`: lists tasks, and acts on one.

use anyhow::{Context, anyhow};
use plimsoll_measure::clock::utc;
use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::instance::{Act, Body, TaskRow};
use plimsoll_workflow::port::{Inbox, Store as _};
use plimsoll_workflow_service::view::task_status_of;
use serde_json::json;

use super::send::publish;
use super::store::{Opened, failed, json, print_json};
use crate::cli::{TaskActArgs, TaskCommand, TaskListArgs};
use crate::terminal::{list_screen, print};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Lists tasks, or acts on one.
///
/// # Errors
/// The arguments are invalid, or the store fails.
pub(super) fn task(command: &TaskCommand) -> Outcome {
    match command {
        TaskCommand::List(args) => list(args),
        TaskCommand::Assign { act, to } => send(act, Act::Assign { to: to.clone() }),
        TaskCommand::Reassign { act, to } => send(act, Act::Reassign { to: to.clone() }),
        TaskCommand::Release(act) => send(act, Act::Release),
        TaskCommand::Complete { act, payload } => {
            let payload = json("--payload", payload.as_ref()).deserves(Exit::Usage)?;
            send(act, Act::Complete { payload })
        }
    }
}

fn send(args: &TaskActArgs, act: Act) -> Outcome {
    let (instance, visit) = parts(&args.task).deserves(Exit::Usage)?;
    let body = Body::Act { visit, by: args.by.clone(), roles: args.roles.clone(), act };
    publish(&args.store, instance, None, body)
}

/// The instance and the visit of a task's id.
fn parts(task: &str) -> anyhow::Result<(&str, u64)> {
    let parts = task.rsplit_once('/').and_then(|(instance, visit)| Some((instance, visit.parse().ok()?)));
    parts.with_context(|| format!("`{task}` is no task: write an id of `plimsoll workflow task list`"))
}

fn list(args: &TaskListArgs) -> Outcome {
    let status = (args.status != "any").then(|| task_status_of(&args.status)).transpose();
    let inbox = Inbox {
        status: status.map_err(|words| anyhow!("--status: {words}")).deserves(Exit::Usage)?,
        roles: args.role.iter().cloned().collect(),
        assignee: args.assignee.clone(),
        instance: args.instance.clone(),
        after: None,
        limit: args.limit as usize,
    };
    let opened = Opened::open(&args.store)?;
    let rows = opened.runtime.block_on(opened.engine.client.store.tasks(&inbox)).map_err(failed)?;
    if args.store.json {
        print_json(&json!({"tasks": rows}))?;
    } else if rows.is_empty() {
        print("no task matches\n");
    } else {
        print(&text("", Vec::new(), &[listing(&rows)], list_screen()));
    }
    Ok(Exit::Held)
}

fn listing(rows: &[TaskRow]) -> Listing {
    let row = |row: &TaskRow| {
        vec![
            row.title.clone(),
            row.id.clone(),
            row.assignee.clone().unwrap_or_else(|| row.roles.join(", ")),
            row.refused.clone().unwrap_or_else(|| row.due_ms.map(utc).unwrap_or_default()),
        ]
    };
    Listing {
        title: counted(rows.len() as u64, "task"),
        columns: vec!["title", "task", "for", "due, or refusal"],
        rows: rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_task_names_instance_and_visit() {
        assert_eq!(parts("a/b/12").unwrap(), ("a/b", 12));
        for text in ["a", "a/", "a/x", ""] {
            assert!(parts(text).unwrap_err().to_string().contains("workflow task list"), "{text}");
        }
    }
}
