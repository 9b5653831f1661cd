//! Implements `plimsoll workflow start`, `signal`, `cancel` and `retry`: requests that are durable when the command ends.

use anyhow::anyhow;
use plimsoll_measure::clock::{now, wall_ms};
use plimsoll_workflow::instance::{Body, Signal, StartRequest};
use plimsoll_workflow::port::Inserted;
use plimsoll_workflow_service::engine::key_fault;
use serde_json::json;

use super::store::{Opened, json, print_json, refused};
use crate::cli::{InstanceArgs, SendArgs, StartInstanceArgs, StoreArgs};
use crate::terminal::print;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Starts an instance.
///
/// # Errors
/// The request is invalid, or the store fails.
pub(super) fn start(args: &StartInstanceArgs) -> Outcome {
    let input = json("--input", args.input.as_ref()).deserves(Exit::Usage)?;
    if let Some(fault) = args.key.as_deref().and_then(key_fault) {
        return Err(anyhow!("--key: {fault}")).deserves(Exit::Usage);
    }
    let (id, definition) = (args.instance.clone(), args.definition.clone());
    let request = StartRequest { id, definition, key: args.key.clone(), parent: None, depth: 0, input };
    let opened = Opened::open(&args.store)?;
    let started = opened.runtime.block_on(opened.engine.start(request)).map_err(refused)?;
    tell(&args.store, &args.instance, None, started)
}

/// Sends a named signal.
///
/// # Errors
/// The request is invalid, or the store fails.
pub(super) fn signal(args: &SendArgs) -> Outcome {
    let body = json("--body", args.body.as_ref()).deserves(Exit::Usage)?;
    let body = Body::Named { name: args.name.clone(), body };
    publish(&args.store, &args.instance, args.id.clone(), body)
}

/// Cancels an existing instance.
///
/// # Errors
/// The instance is unknown, or the store fails.
pub(super) fn cancel(args: &InstanceArgs, reason: &str) -> Outcome {
    known(args)?;
    publish(&args.store, &args.instance, None, Body::Cancel { reason: reason.to_owned() })
}

/// Lets an existing instance try again.
///
/// # Errors
/// The instance is unknown, or the store fails.
pub(super) fn retry(args: &InstanceArgs) -> Outcome {
    known(args)?;
    publish(&args.store, &args.instance, None, Body::Retry)
}

fn known(args: &InstanceArgs) -> Outcome<()> {
    Opened::open(&args.store)?.record(&args.instance).map(drop)
}

/// Sends a signal and prints its id.
///
/// # Errors
/// The request is invalid, or the store fails.
pub(super) fn publish(store: &StoreArgs, instance: &str, id: Option<String>, body: Body) -> Outcome {
    let id = id.unwrap_or_else(new_id);
    let opened = Opened::open(store)?;
    let signal = Signal::new(instance, id.clone(), body, opened.engine.now_ms());
    let client = &opened.engine.client;
    let sent = opened.runtime.block_on(client.publish_unless_applied(signal)).map_err(refused)?;
    tell(store, instance, Some(&id), sent)
}

/// An id that no other command has: moment, process and monotonic time.
fn new_id() -> String {
    format!("cli-{:x}-{:x}-{:x}", wall_ms(), std::process::id(), now().as_ns())
}

fn tell(store: &StoreArgs, instance: &str, signal: Option<&str>, inserted: Inserted) -> Outcome {
    let stored = if inserted == Inserted::New { "new" } else { "known" };
    if store.json {
        print_json(&json!({"instance": instance, "signal": signal, "stored": stored}))?;
    } else {
        let signal = signal.map(|id| format!(" signal {id}")).unwrap_or_default();
        print(&format!("{instance}{signal} ({stored})\n"));
    }
    Ok(Exit::Held)
}
