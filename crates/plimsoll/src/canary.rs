//! What the ruler itself can do: the round trip of an empty command, and the ceiling against a server that answers at
//! once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use plimsoll_ledger::Deal;
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::Progress;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_mongo::books::Books;
use plimsoll_mongo::setup::Setup;
use plimsoll_mongo::topology::Site;
use plimsoll_server::null;
use plimsoll_wire::{Address, ConnectOptions, Connection};

use crate::fleet::Fleet;
use crate::plan;

const PINGS: usize = 50;
/// Length of the load against the null server, in seconds; its first second only warms up.
const CEILING_S: u64 = 2;
/// Numbers that the null run may name by receipt.
const PRETENDED: u64 = 1000;

/// Median round trip of an empty command, in nanoseconds; nothing if the server does not answer.
pub async fn ping_ns(options: &ConnectOptions) -> Option<u64> {
    let mut connection = Connection::connect(options).await.ok()?;
    let mut trips = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let sent = clock::now();
        connection.ping().await.ok()?;
        trips.push(clock::now().since(sent));
    }
    trips.sort_unstable();
    trips.get(PINGS / 2).copied()
}

/// What the tool reaches with this very load against a server that acknowledges at once, closed, with as many writers
/// as the load has connections: (operations, documents) per second. It stands for each of `servers`.
///
/// # Errors
/// When the null server cannot be started, or the load cannot be sent.
pub fn ceiling(
    setup: &Arc<Setup>,
    phase: &Phase,
    servers: usize,
    workers: usize,
    control: &Control,
) -> anyhow::Result<(f64, f64)> {
    let server = null::Server::start(null::Options::default()).context("start the null server")?;
    let address = Address { host: server.address().ip().to_string(), port: server.address().port() };
    let site = Arc::new(Site::single(address, Duration::from_secs(10)));
    let deal = Deal::new(setup.block(), workers as u64, None).context("deal numbers")?;
    let books = (0..workers as u64).map(|worker| {
        let mut books = Books::new(deal, worker, None);
        // Operations by receipt need some document to name.
        books.pretend(PRETENDED);
        books
    });
    let sites = vec![site; servers];
    let mut fleet = Fleet::new(setup, &sites, books.collect(), Share::WHOLE, Spin::Off)?;
    let loads = phase.loads.iter().map(|load| plan::closed(load, load.arrivals.connections())).collect();
    let stop = Stop { duration: Some(Span::from_secs(CEILING_S)), ..Stop::default() };
    let phase = Phase { loads, stop, faults: Vec::new(), ..phase.clone() };
    let (mut operations, mut documents, mut ns) = (0, 0, 0);
    fleet.run(&phase, control, &mut [], |progress| {
        let Progress::Second(second) = progress else { return };
        if second.from_ns >= 1_000_000_000 && second.to_ns <= CEILING_S * 1_000_000_000 {
            operations += second.tallies.iter().map(|tally| tally.count).sum::<u64>();
            documents += second.tallies.iter().map(|tally| tally.documents).sum::<u64>();
            ns += second.to_ns - second.from_ns;
        }
    })?;
    let seconds = (ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    Ok((operations as f64 / seconds, documents as f64 / seconds))
}
