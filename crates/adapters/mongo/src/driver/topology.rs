//! Follows the topology that the driver has discovered, which says what server answers a read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription, TopologyType};
use mongodb::options::ServerAddress;
use plimsoll_wire::{Address, ReadPreference};

use crate::shared_bounds::Origin;
use crate::worker_ledger::PickedDocument;

/// The only server that gets reads from the primary now.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology(Arc<AtomicU32>);

impl Topology {
    /// Follows the topology of a client.
    pub fn handler(&self) -> EventHandler<SdamEvent> {
        let topology = self.clone();
        EventHandler::callback(move |event| {
            if let SdamEvent::TopologyDescriptionChanged(changed) = event {
                topology.set(origin(&changed.new_description));
            }
        })
    }

    fn set(&self, origin: Origin) {
        let word = if let Origin::Known(bits) = origin { u32::from(bits) + 1 } else { 0 };
        self.0.store(word, Ordering::SeqCst);
    }

    fn now(&self) -> Origin {
        let bits = self.0.load(Ordering::SeqCst).checked_sub(1).and_then(|bits| u16::try_from(bits).ok());
        bits.map_or(Origin::Unknown, Origin::Known)
    }

    /// The server that gets a read with this preference; unknown unless it is the primary, or the only mongos.
    pub fn origin(&self, preference: Option<&ReadPreference>) -> Origin {
        if preference.is_none_or(ReadPreference::is_primary) { self.now() } else { Origin::Unknown }
    }

    /// A read whose answer has arrived. If the topology has changed since the read was sent, another server may have answered.
    pub fn answered(&self, picked: PickedDocument) -> PickedDocument {
        if picked.bound.origin == self.now() {
            return picked;
        }
        PickedDocument { bound: picked.bound.without_origin(), ..picked }
    }
}

fn origin(description: &TopologyDescription) -> Origin {
    match description.topology_type() {
        TopologyType::ReplicaSetWithPrimary => {
            let election = description.max_election_id().map(|id| Origin::of_election(id.bytes()));
            election.unwrap_or_default()
        }
        TopologyType::Sharded => match description.servers().into_keys().collect::<Vec<_>>()[..] {
            [ServerAddress::Tcp { host, port }] => {
                let port = port.unwrap_or(27017);
                Origin::of_mongos(&Address { host: host.clone(), port })
            }
            _ => Origin::Unknown,
        },
        _ => Origin::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;
    use std::sync::{Mutex, OnceLock};
    use std::time::Duration;

    use bson::{Document, doc};
    use plimsoll_deployment::{COMMAND_TIMEOUT, Deployment};
    use plimsoll_host::scripted::Server;
    use plimsoll_ledger::{Allocation, State};
    use plimsoll_load::target::Target;
    use plimsoll_measure::clock;
    use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
    use plimsoll_wire::ReadMode;

    use super::super::{Driver, Lane, Named, Ready};
    use super::*;
    use crate::keys::Keys;
    use crate::operation_builder::OperationTarget;
    use crate::setup::{Copies, Purpose, Validity};
    use crate::shared_bounds::SharedBounds;
    use crate::testing::{pending_replacement, setup};
    use crate::worker_ledger::{Bound, WorkerLedger};

    /// The only member of a replica set, the term of its election, and the document that it returns.
    struct Primary {
        server: Server,
        term: Arc<AtomicI64>,
        stored: Arc<Mutex<Document>>,
    }

    impl Primary {
        fn start() -> Self {
            let (term, stored) = (Arc::new(AtomicI64::new(1)), Arc::<Mutex<Document>>::default());
            let address = Arc::<OnceLock<String>>::default();
            let (now, found, own) = (term.clone(), stored.clone(), address.clone());
            let server = Server::start(move |command| match command.keys().next()?.as_str() {
                "hello" | "isMaster" | "ismaster" => Some(hello(own.get()?, now.load(Ordering::SeqCst))),
                "find" => {
                    let batch = vec![found.lock().unwrap().clone()];
                    Some(doc! {"cursor": {"firstBatch": batch, "id": 0_i64, "ns": "d.c"}, "ok": 1.0})
                }
                _ => None,
            });
            let server = server.unwrap();
            address.set(server.address().to_string()).unwrap();
            Self { server, term, stored }
        }

        fn store(&self, by: &Driver, version: u32) {
            let mut out = Vec::new();
            by.builder.write_version(&mut out, version, 0);
            *self.stored.lock().unwrap() = Document::from_reader(out.as_slice()).unwrap();
        }

        /// A worker with one acknowledged document.
        async fn worker(&self, shared: &Arc<SharedBounds>) -> Driver {
            let uri = format!("mongodb://{}/?replicaSet=rs&heartbeatFrequencyMS=500", self.server.address());
            let deployment = Deployment::find(&uri, COMMAND_TIMEOUT).await.unwrap();
            let section =
                r#"{"collection": "d.c", "document": {"t": {"$text": {"bytes": 20}}}, "client": "driver"}"#;
            let mut setup = setup(section, &[("read", r#"{"find": {"read_concern": "majority"}}"#)]).unwrap();
            setup.inherit(deployment.concerns(), Copies::Several);
            let mut ledger = WorkerLedger::new(Allocation::new(4096, 1, None).unwrap(), 0, None);
            let numbers = ledger.take(1).unwrap();
            ledger.settle(numbers, State::Acknowledged);
            let driver = Driver::new(Arc::new(setup), Arc::new(deployment), ledger);
            driver.builder.ledger().share(shared.clone());
            driver
        }
    }

    fn hello(address: &str, term: i64) -> Document {
        let election = bson::oid::ObjectId::from_bytes(
            [&[0x7f, 0xff, 0xff, 0xff][..], &term.to_be_bytes()].concat().try_into().unwrap(),
        );
        doc! {
            "helloOk": true, "isWritablePrimary": true, "ismaster": true, "setName": "rs", "setVersion": 1,
            "hosts": [address], "me": address, "primary": address, "electionId": election, "minWireVersion": 0, "maxWireVersion": 25, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30,
            "ok": 1.0,
        }
    }

    async fn read(driver: &Driver, lane: &mut Lane, picked: PickedDocument) -> Outcome {
        let picked = PickedDocument { validity: Validity::Permanent, ..picked };
        let aim = OperationTarget { number: 0, document: Some(picked) };
        let named = Named::new(&driver.builder, &driver.builder.setup.commands[0], aim);
        driver.run(lane, &mut Ready::Named(named)).await.outcome
    }

    async fn wait_for(driver: &Driver, term: u8) {
        let mut election = [0; 12];
        election[11] = term;
        let began = clock::now();
        while driver.topology.now() != Origin::of_election(election) {
            assert!(clock::now().since(began) < 60 * clock::SECOND_NS, "the driver did not notice it");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn a_majority_read_binds_the_reads_of_other_workers_until_an_election() {
        let (primary, shared) = (Primary::start(), Arc::<SharedBounds>::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (owner, reader) = (primary.worker(&shared).await, primary.worker(&shared).await);
            let (mut own_lane, mut other_lane) = (owner.open().await.unwrap(), reader.open().await.unwrap());
            for (driver, term) in [(&owner, 1), (&reader, 1)] {
                wait_for(driver, term).await;
            }
            for outcome in [Outcome::Acknowledged, Outcome::Unknown(Doubt::ConnectionLost)] {
                let (_, mut pending) = pending_replacement(&owner.builder);
                owner.builder.conclude(&mut pending, outcome, true);
            }
            let own = owner.builder.ledger().pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap();
            let other =
                (0..1_000_000).find_map(|random| reader.builder.ledger().pick_shared(random)).unwrap();
            primary.store(&owner, 2);
            assert_eq!(read(&owner, &mut own_lane, own).await, Outcome::Acknowledged);
            primary.store(&owner, 1);
            let backwards = Outcome::Rejected(Rejection::NonMonotonicRead);
            assert_eq!(read(&reader, &mut other_lane, other).await, backwards);
            primary.term.store(2, Ordering::SeqCst);
            wait_for(&reader, 2).await;
            assert_eq!(read(&reader, &mut other_lane, other).await, Outcome::Acknowledged, "a later primary");
        });
    }

    #[test]
    fn an_answer_after_a_change_of_the_topology_is_bound_by_what_binds_every_server() {
        let topology = Topology::default();
        topology.set(Origin::Known(1));
        let bound = Bound { read: Some(5), read_of_any: Some(3), origin: topology.now(), ..Bound::default() };
        let builder = crate::testing::builder(1);
        let picked = builder.ledger().pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap();
        let picked = PickedDocument { bound, ..picked };
        assert_eq!(topology.answered(picked), picked);
        topology.set(Origin::Known(2));
        let expected = Bound { read: Some(3), origin: Origin::Unknown, ..bound };
        assert_eq!(topology.answered(picked).bound, expected);
    }

    #[test]
    fn only_reads_from_the_primary_have_a_known_server() {
        let topology = Topology::default();
        assert_eq!(topology.origin(None), Origin::Unknown, "nothing is discovered yet");
        topology.set(Origin::Known(7));
        assert_eq!(topology.origin(None), Origin::Known(7));
        for (mode, expected) in [
            (ReadMode::Primary, Origin::Known(7)),
            (ReadMode::PrimaryPreferred, Origin::Unknown),
            (ReadMode::Nearest, Origin::Unknown),
        ] {
            assert_eq!(topology.origin(Some(&ReadPreference::of(mode))), expected, "{mode:?}");
        }
    }
}
