//! Lists the keys of metadata.

use plimsoll_service::Routes;
use serde_json::{Value, json};

use super::action::{Of, Reply, Request, action};
use super::state::State;
use crate::Refusal;

/// The maximum number of keys in an answer.
const KEYS_MAX: u32 = 1_000;
/// The longest prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 256;

action!(KeysV3, GET "/api/v3/datasets/metadatakeys", "metadata_keys_v3", Nothing, "Keys of metadata by prefix", keys);
action!(KeysV4, GET "/api/v4/datasets/metadatakeys", "metadata_keys", Nothing, "Keys of metadata by prefix", keys);

/// Adds the endpoints.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<KeysV3>>().with::<Of<KeysV4>>()
}

/// The keys that the caller may see and that begin with `metadataKey` of `fields`.
async fn keys(request: Request) -> Result<Reply, Refusal> {
    let fields = request.parameter("fields").filter(|text| !text.is_empty()).unwrap_or("{}");
    let fields = plimsoll_service::strict_json::parse(fields.as_bytes());
    let fields = fields.map_err(|error| Refusal::bad(format!("Invalid JSON in fields: {error}")))?;
    let prefix = fields.get("metadataKey").and_then(Value::as_str).unwrap_or_default();
    if prefix.len() > PREFIX_BYTES_MAX {
        return Err(Refusal::bad(format!("metadataKey accepts at most {PREFIX_BYTES_MAX} bytes")));
    }
    let groups = request.state().rules.read_groups(&request.caller);
    let keys = request.state().store.metadata_keys(groups, prefix, KEYS_MAX).await?;
    Ok(Reply::Found(json!(keys)))
}
