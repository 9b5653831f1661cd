//! Lists the named functions of this program. The functions of the examples invent their answers.

use plimsoll_workflow::step::{Again, Call, CallError};
use serde_json::{Value, json};

use super::failure;

type Function = fn(&Call) -> Result<Value, CallError>;

/// The functions by name. Each gives the same answer for the same idempotency key.
const ALL: [(&str, Function); 13] = [
    ("nothing", |_| Ok(Value::Null)),
    ("echo", |call| Ok(call.input.clone())),
    ("log", log),
    ("refuse", |_| Err(failure(Again::Never, "the function `refuse` always refuses"))),
    ("quote.price", |_| Ok(json!(120))),
    ("quote.find", |call| Ok(json!({"quote": call.instance}))),
    ("application.find", |call| Ok(json!({"application": call.instance}))),
    ("capacity.reserve", |call| Ok(json!(format!("R-{}", call.key)))),
    ("capacity.release", |_| Ok(Value::Null)),
    ("policy.number", |call| Ok(json!(format!("P-{}", call.key)))),
    ("pdf.print", |_| Ok(json!({"pages": 2}))),
    ("outside.ask", log),
    ("cancel", log),
];

/// Calls a function.
pub(super) fn call(name: &str, call: &Call) -> Result<Value, CallError> {
    find(name).map_or_else(|| Err(failure(Again::Never, unknown(name))), |function| function(call))
}

/// Whether this program has a function.
pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some()
}

/// The refusal of an unknown function.
pub(super) fn unknown(name: &str) -> String {
    let known: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
    format!(
        "this program has no function `{name}`: use an `http` step, one of {}, or the engine as a library",
        known.join(", ")
    )
}

fn find(name: &str) -> Option<Function> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

fn log(call: &Call) -> Result<Value, CallError> {
    tracing::info!(instance = %call.instance, key = %call.key, input = %call.input, "a step logs");
    Ok(Value::Null)
}
