//! Runs the campaign: every profile with its guards, then some without one.

pub mod profile;

mod trial;

mod engine;
mod feeder;
mod testbed;

pub mod audit;
mod changes;

pub mod row;
pub mod table;

pub mod random;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use plimsoll_measure::clock;

use profile::{GUARDED, Profile, UNGUARDED, Victim};
use random::Random;
use row::Row;
use testbed::Testbed;

/// The limit of kills without a guard after which the missing guard counts as unnoticed.
const UNGUARDED_KILLS_MAX: usize = 6;

/// The options of a campaign.
pub struct Plan {
    /// The number of kills, over all profiles with their guards.
    pub kills: u32,
    /// The seed of the kill times.
    pub seed: u64,
    /// The directory of results and logs.
    pub out: PathBuf,
    /// Names of rows; empty for all.
    pub only: Vec<String>,
}

/// Kills and audits; returns whether everything held, and every missing guard was noticed.
///
/// # Errors
/// The broker or the server is not available, or a name is unknown.
pub fn run(plan: &Plan) -> anyhow::Result<bool> {
    let (guarded, unguarded) = (chosen(GUARDED, plan), chosen(UNGUARDED, plan));
    ensure!(
        !guarded.is_empty() || !unguarded.is_empty(),
        "no row has this name: choose from {}",
        GUARDED.iter().chain(UNGUARDED).map(|row| row.name).collect::<Vec<_>>().join(", ")
    );
    // Rows of an earlier campaign have another seed.
    let out = plan.out.join(format!("seed-{}-{}", plan.seed, clock::wall_ms()));
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    println!("seed {}, {} kills; logs and results in {}", plan.seed, plan.kills, out.display());
    let mut testbed = Testbed::start()?;
    let mut rows: Vec<Row> = Vec::new();
    for (at, profile) in guarded.iter().enumerate() {
        // Each row has its own generator, so that it can be repeated alone.
        let mut random = Random::of(plan.seed).fork(profile.name);
        let kills = share(plan.kills as usize, at, guarded.len());
        let rounds = vec![deal(profile.victims, kills, &mut random)];
        keep(&mut rows, trial::run(&mut testbed, profile, rounds, random, &out), plan, &out)?;
    }
    for profile in unguarded {
        let mut random = Random::of(plan.seed).fork(profile.name);
        let rounds = deal(profile.victims, UNGUARDED_KILLS_MAX, &mut random).into_iter().map(|one| vec![one]);
        let rounds = rounds.collect();
        keep(&mut rows, trial::run(&mut testbed, profile, rounds, random, &out), plan, &out)?;
    }
    let text = table::whole(plan.seed, &rows);
    println!("\n{text}");
    fs::write(out.join("table.txt"), &text).with_context(|| format!("write into {}", out.display()))?;
    Ok(rows.iter().all(Row::holds))
}

fn chosen(all: &'static [Profile], plan: &Plan) -> Vec<&'static Profile> {
    let wanted =
        |profile: &&Profile| plan.only.is_empty() || plan.only.iter().any(|name| name == profile.name);
    all.iter().filter(wanted).collect()
}

/// Writes the results so far.
fn keep(rows: &mut Vec<Row>, row: Row, plan: &Plan, out: &std::path::Path) -> anyhow::Result<()> {
    println!("{}", table::line(&row));
    rows.push(row);
    let results = serde_json::json!({"seed": plan.seed, "kills": plan.kills, "rows": rows});
    let text = format!("{}\n", serde_json::to_string_pretty(&results)?);
    fs::write(out.join("results.json"), text).with_context(|| format!("write into {}", out.display()))
}

/// The size of part `at`, from 0, when `whole` is divided into `parts` parts of nearly equal size.
pub fn share(whole: usize, at: usize, parts: usize) -> usize {
    whole / parts + usize::from(at < whole % parts)
}

/// Victims in their proportions, in random order.
pub fn deal(victims: &[Victim], kills: usize, random: &mut Random) -> Vec<Victim> {
    let mut dealt: Vec<Victim> = victims.iter().copied().cycle().take(kills).collect();
    random.shuffle(&mut dealt);
    dealt
}
