//! Implements `plimsoll workflow show`, `list` and `explain`.

use anyhow::anyhow;
use plimsoll_measure::clock::utc;
use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::explain::{self, Reason, Visited};
use plimsoll_workflow::port::{Find, Store as _};
use plimsoll_workflow_service::view::{Instance, Row, status_of};
use serde_json::json;

use super::store::{Opened, failed, print_json};
use crate::cli::{InstanceArgs, ListInstancesArgs};
use crate::terminal::{list_screen, print, screen};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Shows an instance with its history.
///
/// # Errors
/// The instance is unknown, or the store fails.
pub(super) fn show(args: &InstanceArgs) -> Outcome {
    let opened = Opened::open(&args.store)?;
    let record = opened.record(&args.instance)?;
    let program = opened.runtime.block_on(opened.engine.program(&record.definition)).map_err(failed)?;
    let instance = Instance::of(&record, program.as_deref());
    if args.store.json {
        print_json(&instance)?;
    } else {
        print(&shown(&instance));
    }
    Ok(Exit::Held)
}

fn shown(instance: &Instance) -> String {
    let row = &instance.row;
    let forgotten = (instance.forgotten > 0).then(|| counted(instance.forgotten, "visit"));
    let facts = vec![
        ("status", Some(row.status.name().to_owned())),
        ("key", row.key.clone()),
        ("definition", Some(version(row))),
        ("started", instance.started_ms.map(utc)),
        ("changed", Some(utc(row.changed_ms))),
        ("error", instance.error.clone()),
        ("data", Some(instance.data.to_string())),
        ("forgotten", forgotten),
    ];
    text(&row.instance, facts, &[waits(&instance.waits), history(&instance.history)], screen())
}

fn version(row: &Row) -> String {
    format!("{} {}", row.definition.name, row.definition.hash.get(..12).unwrap_or_default())
}

fn waits(reasons: &[Reason]) -> Listing {
    let row = |reason: &Reason| {
        vec![
            reason.path.clone().unwrap_or_default(),
            reason.kind.clone(),
            reason.missing.clone().unwrap_or_default(),
            reason.attempt.map(|attempt| attempt.to_string()).unwrap_or_default(),
            due(reason.due_ms),
        ]
    };
    Listing {
        title: "Waits".into(),
        columns: vec!["step", "for", "missing", "attempt", "next"],
        rows: reasons.iter().map(row).collect(),
    }
}

fn history(visits: &[Visited]) -> Listing {
    let row = |visit: &Visited| {
        let stayed = visit.left_ms.map(|left_ms| format!("{} ms", left_ms.saturating_sub(visit.entered_ms)));
        vec![
            visit.path.clone().unwrap_or_default(),
            utc(visit.entered_ms),
            stayed.unwrap_or_default(),
            visit.how.name().to_owned(),
        ]
    };
    Listing {
        title: "History".into(),
        columns: vec!["step", "entered", "stayed", "end"],
        rows: visits.iter().map(row).collect(),
    }
}

fn due(ms: Option<u64>) -> String {
    match ms {
        None => String::new(),
        Some(0) => "at once".into(),
        Some(ms) => utc(ms),
    }
}

/// Lists instances.
///
/// # Errors
/// The status is unknown, or the store fails.
pub(super) fn list(args: &ListInstancesArgs) -> Outcome {
    let status = args.status.as_deref().map(status_of).transpose();
    let find = Find {
        key: args.key.clone(),
        status: status.map_err(|words| anyhow!("--status: {words}")).deserves(Exit::Usage)?,
        definition: args.definition.clone(),
        after: args.after.clone(),
        limit: args.limit as usize,
    };
    let opened = Opened::open(&args.store)?;
    let records = opened.runtime.block_on(opened.engine.client.store.list(&find)).map_err(failed)?;
    let rows: Vec<_> = records.iter().map(Row::of).collect();
    let next = rows.last().filter(|_| rows.len() >= find.limit).map(|row| row.instance.as_str());
    if args.store.json {
        print_json(&json!({"instances": rows, "next": next}))?;
    } else {
        print(&listed(&rows, next));
    }
    Ok(Exit::Held)
}

fn listed(rows: &[Row], next: Option<&str>) -> String {
    if rows.is_empty() {
        return "no instance matches\n".into();
    }
    let row = |row: &Row| {
        let name = row.definition.name.clone();
        vec![row.instance.clone(), row.status.name().to_owned(), name, due(row.due_ms)]
    };
    let list = Listing {
        title: counted(rows.len() as u64, "instance"),
        columns: vec!["instance", "status", "definition", "due"],
        rows: rows.iter().map(row).collect(),
    };
    let more = next.map(|id| format!("\nmore: --after '{id}'\n")).unwrap_or_default();
    text("", Vec::new(), &[list], list_screen()) + &more
}

/// Explains why an instance waits.
///
/// # Errors
/// The instance is unknown, or the store fails.
pub(super) fn explain(args: &InstanceArgs) -> Outcome {
    let opened = Opened::open(&args.store)?;
    let record = opened.record(&args.instance)?;
    let explained = opened.runtime.block_on(async {
        let program = opened.engine.program(&record.definition).await?;
        explain::of(&*opened.engine.client.store, program.as_deref(), &args.instance).await
    });
    let explained = explained.map_err(failed)?;
    if args.store.json {
        print_json(&explained)?;
    } else if let Some(explained) = explained {
        print(&reasons(&explained));
    }
    Ok(Exit::Held)
}

fn reasons(explained: &explain::Explanation) -> String {
    let owner = match (&explained.owner, explained.lease_ms) {
        (Some(owner), Some(ms)) if ms >= 0 => format!("{owner}, its lease ends in {ms} ms"),
        (Some(owner), Some(ms)) if !owner.is_empty() => {
            format!("none: the lease of {owner} ended {} ms ago; start a worker", ms.saturating_neg())
        }
        _ => "none: no worker holds the partition; start one with `plimsoll workflow worker`".into(),
    };
    let facts = vec![
        ("status", Some(explained.status.name().to_owned())),
        ("error", explained.error.clone()),
        ("kept signals", (explained.kept > 0).then(|| explained.kept.to_string())),
        ("worker", (!explained.status.is_ended()).then_some(owner)),
        ("waits", explained.status.is_ended().then(|| "no: the instance has ended".to_owned())),
    ];
    text(&explained.instance, facts, &[waits(&explained.reasons)], screen())
}
