//! Forms a replica set of running members, and a sharded cluster of running replica sets. This code has
//! never run on MongoDB's own servers: tests compare its commands with MongoDB's reference on a scripted server.

use std::net::SocketAddr;
use std::time::Duration;

use bson::{RawDocumentBuf, doc};

use crate::admin::Admin;
use crate::error::Error;

/// The time limit of a command, during which a set may elect its primary.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The purpose of a replica set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It holds documents.
    Data,
    /// It holds the configuration of a sharded cluster.
    Configuration,
}

/// The connection string of a replica set.
pub fn set_uri(name: &str, members: &[SocketAddr]) -> String {
    format!("mongodb://{}/?replicaSet={name}", joined(members))
}

/// The name and the members of a replica set, as `addShard` and `--configdb` take them: `name/host:port,host:port`.
pub fn set_address(name: &str, members: &[SocketAddr]) -> String {
    format!("{name}/{}", joined(members))
}

fn joined(members: &[SocketAddr]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Initiates a replica set of running members, and waits until it has a primary. Blocks.
///
/// # Errors
/// The server's refusal, or the reason why no primary was elected.
pub fn initiate(name: &str, members: &[SocketAddr], purpose: Purpose) -> Result<(), Error> {
    let Some(first) = members.first() else { return Err(Error::Uri("the set has no member".into())) };
    let direct = Admin::new(&format!("mongodb://{first}/?directConnection=true"), TIMEOUT)?;
    direct.run("admin", &initiation(name, members, purpose))?;
    Admin::new(&set_uri(name, members), TIMEOUT)?.run("admin", &raw(doc! {"ping": 1})).map(drop)
}

fn initiation(name: &str, members: &[SocketAddr], purpose: Purpose) -> RawDocumentBuf {
    let members = members.iter().enumerate();
    let members: Vec<_> =
        members.map(|(id, host)| doc! {"_id": id as i32, "host": host.to_string()}).collect();
    let mut config = doc! {"_id": name, "members": members};
    if purpose == Purpose::Configuration {
        config.insert("configsvr", true);
    }
    raw(doc! {"replSetInitiate": config})
}

/// Adds replica sets to a sharded cluster, each given by [`set_address`]. Blocks.
///
/// # Errors
/// The router's refusal.
pub fn add_shards(router: SocketAddr, shards: &[String]) -> Result<(), Error> {
    let admin = Admin::new(&format!("mongodb://{router}/"), TIMEOUT)?;
    shards.iter().try_for_each(|shard| admin.run("admin", &raw(doc! {"addShard": shard})).map(drop))
}

fn raw(command: bson::Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&command).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::Document;

    #[test]
    fn a_set_is_initiated_with_all_its_members() {
        let members = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let command = |purpose| Document::try_from(initiation("rs0", &members, purpose)).unwrap();
        let hosts = [doc! {"_id": 0, "host": "127.0.0.1:1"}, doc! {"_id": 1, "host": "127.0.0.1:2"}];
        let data = doc! {"replSetInitiate": {"_id": "rs0", "members": hosts.to_vec()}};
        assert_eq!(command(Purpose::Data), data);
        let config = command(Purpose::Configuration);
        assert!(config.get_document("replSetInitiate").unwrap().get_bool("configsvr").unwrap());
        assert_eq!(set_uri("rs0", &members), "mongodb://127.0.0.1:1,127.0.0.1:2/?replicaSet=rs0");
        assert_eq!(set_address("rs0", &members), "rs0/127.0.0.1:1,127.0.0.1:2");
    }
}
