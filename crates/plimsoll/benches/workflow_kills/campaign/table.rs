//! Formats the summary: kills and findings for each kind and store.

use super::kind::{Backend, Kind};
use super::round::Round;

/// A row for each store with its kills of each kind, and the verdict.
pub fn whole(seed: u64, rounds: &[Round]) -> String {
    let mut out = format!("seed {seed}\n{:<10}", "store");
    let names = Kind::ALL.map(Kind::name).into_iter();
    let columns = [
        "kills",
        "rounds",
        "instances",
        "signals",
        "lost",
        "duplicated",
        "strange",
        "broken",
        "explained",
        "unexplained",
        "ends",
    ];
    names.chain(columns).for_each(|name| out.push_str(&format!("{name:>12}")));
    out.push_str("  verdict\n");
    for backend in Backend::ALL {
        let of: Vec<_> = rounds.iter().filter(|round| round.backend == backend).collect();
        if !of.is_empty() {
            out.push_str(&row(backend, &of));
        }
    }
    out
}

fn row(backend: Backend, rounds: &[&Round]) -> String {
    let sum = |part: &dyn Fn(&Round) -> u64| rounds.iter().map(|round| part(round)).sum::<u64>();
    let kills = |kind: Kind| sum(&|round| round.kills.iter().filter(|one| **one == kind).count() as u64);
    let mut cells: Vec<u64> = Kind::ALL.into_iter().map(kills).collect();
    cells.extend([
        sum(&|round| round.kills.len() as u64),
        rounds.len() as u64,
        sum(&|round| round.found.instances),
        sum(&|round| round.found.signals),
        sum(&|round| round.found.lost),
        sum(&|round| round.found.duplicated),
        sum(&|round| round.found.strange),
        sum(&|round| round.found.broken),
        sum(&|round| round.found.explained),
        sum(&|round| round.found.unexplained),
        sum(&|round| round.ends.into()),
    ]);
    let holds = rounds.iter().all(|round| round.holds());
    let mut out = format!("{:<10}", backend.name());
    cells.iter().for_each(|cell| out.push_str(&format!("{cell:>12}")));
    out.push_str(if holds { "  holds\n" } else { "  DOES NOT HOLD\n" });
    out
}
