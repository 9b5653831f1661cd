//! Runs the campaign: rounds of kills over both stores, each with its audit.

pub mod kind;

pub mod round;

pub mod processes;

mod engine;
mod testbed;

pub mod clients;
mod http;
pub mod ledger;

pub mod audit;
pub mod table;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_measure::random::{Random, mix};
use serde::{Deserialize, Serialize};

use kind::{Backend, Kind};
use round::{Order, Round};

/// The largest number of kills in one round.
const ROUND_KILLS: u32 = 8;

/// The options of a campaign.
pub struct Plan {
    /// The number of kills over all stores.
    pub kills: u32,
    /// The seed of kinds and times. Without it, the seed of an existing campaign in the directory, or a new
    /// seed.
    pub seed: Option<u64>,
    /// The directory of results, ledgers and logs.
    pub out: PathBuf,
    /// Only this store.
    pub store: Option<Backend>,
    /// The length of the leases.
    pub lease: Span,
}

/// The first line of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    seed: u64,
    kills: u32,
    store: Option<Backend>,
}

/// Runs the remaining rounds; returns whether all rounds of the campaign hold.
///
/// # Errors
/// The directory has the results of another campaign, or cannot be used.
pub fn run(plan: &Plan) -> anyhow::Result<bool> {
    fs::create_dir_all(&plan.out).with_context(|| format!("make {}", plan.out.display()))?;
    let results = plan.out.join("rounds.ndjson");
    let (header, mut rounds) = resume(plan, &results)?;
    let orders = orders(header, plan.lease);
    println!(
        "seed {}, {} kills in {} rounds; results in {}",
        header.seed,
        header.kills,
        orders.len(),
        plan.out.display()
    );
    for order in orders.iter().skip(rounds.len()) {
        let random = Random::new(mix(header.seed ^ u64::from(order.number)));
        let round = round::run(order, random, &plan.out.join(format!("round-{:04}", order.number)));
        println!("{}", round.line());
        append(&results, &round)?;
        rounds.push(round);
    }
    let text = table::whole(header.seed, &rounds);
    println!("\n{text}");
    fs::write(plan.out.join("table.txt"), &text).context("write the table")?;
    Ok(rounds.iter().all(Round::holds))
}

/// The header and the rounds of an earlier call with the same options, or a new header.
fn resume(plan: &Plan, results: &Path) -> anyhow::Result<(Header, Vec<Round>)> {
    let seed = plan.seed.unwrap_or_else(clock::wall_ms);
    let header = Header { seed, kills: plan.kills, store: plan.store };
    let Ok(text) = fs::read_to_string(results) else {
        append(results, &header)?;
        return Ok((header, Vec::new()));
    };
    let mut lines = text.lines();
    let first: Header = serde_json::from_str(lines.next().unwrap_or_default())
        .with_context(|| format!("read {}: remove it, or choose another --out", results.display()))?;
    let is_same = (first.kills, first.store) == (plan.kills, plan.store);
    ensure!(
        is_same && plan.seed.is_none_or(|seed| seed == first.seed),
        "{} has the rounds of another campaign: remove it, or choose another --out",
        results.display()
    );
    // An interrupted write leaves an incomplete last line.
    let rounds = lines.map_while(|line| serde_json::from_str(line).ok()).collect();
    Ok((first, rounds))
}

fn append(results: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(results);
    let mut file = file.with_context(|| format!("write {}", results.display()))?;
    Ok(file.write_all(format!("{}\n", serde_json::to_string(value)?).as_bytes())?)
}

/// The rounds of a campaign: stores by turns, and all kinds of kills equally often, in random order.
fn orders(header: Header, lease: Span) -> Vec<Order> {
    let backends = header.store.map_or(Backend::ALL.to_vec(), |one| vec![one]);
    let mut left = vec![0; backends.len()];
    for at in 0..header.kills as usize {
        left[at % backends.len()] += 1;
    }
    let mut dealt = vec![0; backends.len()];
    let mut orders = Vec::new();
    for number in 0.. {
        let at = number as usize % backends.len();
        if left.iter().all(|left| *left == 0) {
            break;
        }
        let count = left[at].min(ROUND_KILLS);
        left[at] -= count;
        let mut kills: Vec<_> = (0..count).map(|_| next_kind(&mut dealt[at])).collect();
        shuffle(&mut kills, &mut Random::new(mix(header.seed.wrapping_add(u64::from(number)))));
        orders.push(Order { number, backend: backends[at], kills, lease });
    }
    orders
}

fn next_kind(dealt: &mut usize) -> Kind {
    *dealt += 1;
    Kind::ALL[(*dealt - 1) % Kind::ALL.len()]
}

/// Shuffles (Fisher and Yates).
fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for last in (1..things.len()).rev() {
        let other = (random.bits() >> 8) % (last as u64 + 1);
        things.swap(last, usize::try_from(other).unwrap_or(last));
    }
}
