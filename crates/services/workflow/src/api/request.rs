//! Parses the parts of requests that several endpoints share.

use axum::http::StatusCode;
use plimsoll_service::{Answer, Call, Kind, Problem, name, reply};
use plimsoll_workflow::instance::{Body, Signal};
use plimsoll_workflow::port::{Inserted, Record, Store as _};
use plimsoll_workflow::step::ID_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::problems;
use super::state::Context;

/// An id in the path.
pub(crate) fn id<'a>(call: &'a Call, param: &str) -> Result<&'a str, Problem> {
    let value = call.params.iter().find(|(name, _)| name == param).map_or("", |(_, value)| value);
    match name::fault(value, ID_BYTES_MAX) {
        Some(reason) => Err(Problem::field(param, reason)),
        None => Ok(value),
    }
}

/// The body as a value of a type.
pub(super) fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    let value = call.json()?;
    serde_json::from_value(value).map_err(|error| Problem::new(Kind::Invalid, error.to_string()))
}

/// An answer to an insert: 201 if it is new, 200 if the store had it already.
pub(super) fn inserted(inserted: Inserted, mut answer: Value) -> Answer {
    let (status, stored) = match inserted {
        Inserted::New => (StatusCode::CREATED, "new"),
        Inserted::Known => (StatusCode::OK, "known"),
    };
    answer["stored"] = stored.into();
    Ok(reply::json(status, &answer))
}

/// Sends a signal to the instance of the path, with the id of the path.
pub(super) async fn send(context: &Context, call: &Call, content: Body) -> Answer {
    call.query(&[])?;
    let (instance, signal) = (id(call, "instance")?, id(call, "signal")?);
    let engine = &context.state.engine;
    let wanted = Signal::new(instance, signal, content, engine.now_ms());
    let sent = engine.client.publish_unless_applied(wanted).await;
    let answer = json!({"instance": instance, "signal": signal});
    inserted(sent.map_err(problems::of_client)?, answer)
}

/// The record of the instance in the path.
pub(crate) async fn record(context: &Context, call: &Call) -> Result<Record, Problem> {
    let instance = id(call, "instance")?.to_owned();
    let loaded = context.state.engine.client.store.load(std::slice::from_ref(&instance)).await;
    let record = loaded.map_err(problems::of_store)?.into_iter().next().flatten();
    record.ok_or_else(|| unknown(&instance))
}

/// The problem of an unknown instance.
pub(super) fn unknown(instance: &str) -> Problem {
    Problem::new(Kind::NotFound, format!("no instance has the id `{instance}`"))
}
