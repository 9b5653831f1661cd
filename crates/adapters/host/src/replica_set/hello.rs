//! Describes one member, as the answer to `hello` does.

use bson::oid::ObjectId;
use bson::{DateTime, Document, Timestamp, doc};
use plimsoll_measure::clock;

use super::shared::Shared;
use super::state::State;
use crate::serve::common;

/// The description of the member with this index.
pub(super) fn description(shared: &Shared, state: &State, index: usize) -> Document {
    let member = &state.members[index];
    let confirmed = member.position(member.len() - state.unconfirmed(index));
    let leads = member.leads.is_some();
    let now = DateTime::from_millis(i64::try_from(clock::wall_ms()).unwrap_or_default());
    let mut hello = Document::try_from(common::description()).unwrap_or_default();
    hello.extend(doc! {
        "isWritablePrimary": leads, "ismaster": leads, "secondary": !leads,
        "setName": &shared.set_name, "setVersion": 1, "hosts": shared.names.clone(), "me": &shared.names[index],
        "topologyVersion": version(index, member.view),
        "lastWrite": {
            "opTime": op_time(member.last()), "majorityOpTime": op_time(confirmed), "lastWriteDate": now,
        },
    });
    if let Some(primary) = state.primary_for(index) {
        hello.insert("primary", &shared.names[primary]);
    }
    if let Some(term) = member.leads {
        hello.insert("electionId", election_id(term));
    }
    hello
}

/// The version of a member's view of the set: the process and the number of changes.
pub(super) fn version(index: usize, view: i64) -> Document {
    doc! { "processId": ObjectId::from_bytes([index as u8; 12]), "counter": view }
}

/// The identity of an election, which grows with the term, as MongoDB's does.
fn election_id(term: u64) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// The position of an entry: its index as a time, and its term.
fn op_time((term, index): (u64, usize)) -> Document {
    let time = u32::try_from(index).unwrap_or(u32::MAX);
    doc! { "ts": Timestamp { time, increment: 1 }, "t": i64::try_from(term).unwrap_or(i64::MAX) }
}
