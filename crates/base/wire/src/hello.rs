//! Builds the `hello` command and parses the server's reply to it.

use std::collections::BTreeMap;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::credential::Proof;
use crate::frame;
use crate::options::ConnectOptions;

/// The oldest supported wire version: MongoDB 4.4, the first with `hello`.
pub(crate) const WIRE_VERSION_MIN: i32 = 9;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of one document (`maxBsonObjectSize`).
    pub max_bson_object_bytes: u32,
    /// Maximum bytes of one message (`maxMessageSizeBytes`), at most 48,000,000.
    pub max_message_bytes: u32,
    /// Maximum documents of one write command (`maxWriteBatchSize`).
    pub max_write_batch: u32,
}

impl Default for Limits {
    /// The limits of every MongoDB since 3.6.
    fn default() -> Self {
        Limits {
            max_bson_object_bytes: 16 * 1024 * 1024,
            max_message_bytes: MESSAGE_MAX,
            max_write_batch: 100_000,
        }
    }
}

const MESSAGE_MAX: u32 = 48_000_000;
const _: () = assert!(MESSAGE_MAX as usize == frame::LEN_MAX);
/// The lowest plausible limit in bytes. A claim outside the bounds is replaced by the nearest bound.
const BYTES_MIN: u32 = 1024;

/// A server's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its limits, clamped to plausible bounds.
    pub limits: Limits,
    /// The newest wire version that it supports; 0 if the reply has none.
    pub max_wire_version: i32,
    /// Whether the server accepts writes.
    pub is_writable_primary: bool,
    /// Whether the server is a secondary of a replica set.
    pub is_secondary: bool,
    /// Whether the server is a mongos.
    pub is_mongos: bool,
    /// The replica set's name.
    pub set_name: Option<String>,
    /// Its own address, as the replica set knows it.
    pub me: Option<String>,
    /// The primary's address, as the replica set knows it.
    pub primary: Option<String>,
    /// The addresses of the replica set's members that can become the primary.
    pub hosts: Vec<String>,
    /// The addresses of the members that cannot become the primary.
    pub passives: Vec<String>,
    /// The version of the replica set's configuration.
    pub set_version: Option<i64>,
    /// The election that made it the primary. A later election has a larger value.
    pub election_id: Option<[u8; 12]>,
    /// Whether it supports sessions.
    pub has_sessions: bool,
    /// Its tags in the replica set's configuration.
    pub tags: BTreeMap<String, String>,
    /// The user's authentication mechanisms; `None` if the reply has none.
    pub(crate) mechanisms: Option<Vec<String>>,
    /// The requested compressors that the server supports.
    pub(crate) compressors: Vec<String>,
}

impl Hello {
    /// Whether the server belongs to a replica set or a sharded cluster. There, a read at majority hides writes that a failover
    /// may roll back.
    pub fn is_replicated(&self) -> bool {
        self.set_name.is_some() || self.is_mongos
    }

    /// Whether the server executes a write with a transaction number only once, however often the write is
    /// sent.
    pub fn numbers_writes(&self) -> bool {
        self.has_sessions && self.is_replicated()
    }

    /// Parses the body of the reply to `hello`. A field of the wrong type counts as missing.
    pub(crate) fn of_body(body: &RawDocument) -> Hello {
        let text = |key: &str| body.get_str(key).ok().map(str::to_owned);
        let flag = |key: &str| body.get_bool(key).unwrap_or(false);
        Hello {
            limits: limits(body),
            max_wire_version: number(body, "maxWireVersion").unwrap_or(0),
            is_writable_primary: flag("isWritablePrimary") || flag("ismaster"),
            is_secondary: flag("secondary"),
            is_mongos: body.get_str("msg").is_ok_and(|msg| msg == "isdbgrid"),
            set_name: text("setName"),
            me: text("me"),
            primary: text("primary"),
            hosts: texts(body, "hosts").unwrap_or_default(),
            passives: texts(body, "passives").unwrap_or_default(),
            set_version: number(body, "setVersion").map(i64::from),
            election_id: body.get_object_id("electionId").ok().map(|id| id.bytes()),
            has_sessions: number(body, "logicalSessionTimeoutMinutes").is_some(),
            tags: tags(body),
            mechanisms: texts(body, "saslSupportedMechs"),
            compressors: texts(body, "compression").unwrap_or_default(),
        }
    }
}

/// The tags whose values are texts, as the server stores them.
fn tags(body: &RawDocument) -> BTreeMap<String, String> {
    let tags = body.get_document("tags").into_iter().flatten().flatten();
    tags.filter_map(|(key, value)| Some((key.as_str().to_owned(), value.as_str()?.to_owned()))).collect()
}

fn limits(body: &RawDocument) -> Limits {
    let usual = Limits::default();
    let limit = |key: &str, usual: u32, min: u32, max: u32| {
        number(body, key)
            .and_then(|limit| u32::try_from(limit).ok())
            .map_or(usual, |limit| limit.clamp(min, max))
    };
    Limits {
        max_bson_object_bytes: limit(
            "maxBsonObjectSize",
            usual.max_bson_object_bytes,
            BYTES_MIN,
            MESSAGE_MAX,
        ),
        max_message_bytes: limit("maxMessageSizeBytes", MESSAGE_MAX, BYTES_MIN, MESSAGE_MAX),
        max_write_batch: limit("maxWriteBatchSize", usual.max_write_batch, 1, usual.max_write_batch),
    }
}

fn number(body: &RawDocument, key: &str) -> Option<i32> {
    let value = body.get(key).ok()??;
    value
        .as_i32()
        .or_else(|| value.as_i64()?.try_into().ok())
        .or_else(|| value.as_f64().map(|number| number as i32))
}

fn texts(body: &RawDocument, key: &str) -> Option<Vec<String>> {
    let array = body.get_array(key).ok()?;
    Some(array.into_iter().filter_map(|value| value.ok()?.as_str().map(str::to_owned)).collect())
}

/// The greeting of a new connection: the command `hello`, or `isMaster` for products without it.
pub(crate) fn request(options: &ConnectOptions, name: &bson::raw::CStr) -> RawDocumentBuf {
    let client = rawdoc! {
        "application": {"name": options.application.as_str()},
        "driver": {"name": "plimsoll-wire", "version": env!("CARGO_PKG_VERSION")},
        "os": {"type": std::env::consts::OS, "architecture": std::env::consts::ARCH},
    };
    let mut body = RawDocumentBuf::new();
    body.append(name, 1);
    body.append(bson::cstr!("helloOk"), true);
    body.append(bson::cstr!("client"), client);
    if let Some(credential) = options.credential.as_ref().filter(|it| matches!(it.proof, Proof::Scram(_))) {
        let user = format!("{}.{}", credential.source, credential.user);
        body.append(bson::cstr!("saslSupportedMechs"), user.as_str());
    }
    if !options.compression.is_empty() {
        let names = options.compression.iter().map(|compressor| compressor.name());
        body.append(bson::cstr!("compression"), RawArrayBuf::from_iter(names));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_of_a_replica_set_is_parsed() {
        let hello = Hello::of_body(&rawdoc! {
            "isWritablePrimary": true, "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000, "maxWireVersion": 21, "setName": "rs0", "me": "a:1", "primary": "a:1",
            "hosts": ["a:1", "b:2"], "passives": ["c:3"], "tags": {"dc": "east", "rank": 1},
            "setVersion": 3, "electionId": bson::oid::ObjectId::from_bytes([7; 12]), "logicalSessionTimeoutMinutes": 30,
        });
        assert_eq!(
            (hello.set_version, hello.election_id, hello.has_sessions),
            (Some(3), Some([7; 12]), true)
        );
        assert!(hello.is_writable_primary && !hello.is_mongos && !hello.is_secondary);
        assert_eq!(hello.limits, Limits::default());
        assert_eq!((hello.max_wire_version, hello.set_name.as_deref()), (21, Some("rs0")));
        assert_eq!((hello.me.as_deref(), hello.primary.as_deref()), (Some("a:1"), Some("a:1")));
        assert_eq!(
            (hello.hosts.len(), &hello.hosts[1], &hello.passives[0]),
            (2, &"b:2".into(), &"c:3".into())
        );
        assert_eq!(hello.tags, BTreeMap::from([("dc".to_owned(), "east".to_owned())]), "a tag is a text");
    }

    #[test]
    fn a_mongos_is_recognised_by_its_message() {
        assert!(Hello::of_body(&rawdoc! {"isWritablePrimary": true, "msg": "isdbgrid"}).is_mongos);
    }

    #[test]
    fn limits_out_of_bounds_are_clamped() {
        let hello = Hello::of_body(&rawdoc! {
            "maxBsonObjectSize": -1, "maxMessageSizeBytes": i32::MAX, "maxWriteBatchSize": 0,
        });
        assert_eq!(hello.limits, Limits { max_write_batch: 1, ..Limits::default() });
        assert_eq!(Hello::of_body(&rawdoc! {}).limits, Limits::default());
    }
}
