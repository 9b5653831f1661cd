//! Checks a history: single lists first, then the graph of dependencies.

use crate::cycles;
use crate::direct;
use crate::graph::{Graph, dependencies};
use crate::history::{InvalidHistory, Outcome, Transaction};
use crate::limits::Limits;
use crate::linear::{self, Verdict};
use crate::lists::Lists;
use crate::order::{real_time, sessions};
use crate::report::{Kind, Report};

/// Reports every anomaly of a history, regardless of the system's claim, within the default limits.
///
/// # Errors
/// When the history contradicts itself, so that nothing can be inferred.
pub fn check(history: &[Transaction]) -> Result<Report, InvalidHistory> {
    check_within(history, Limits::default())
}

/// Reports every anomaly of a history, regardless of the system's claim.
///
/// # Errors
/// When the history contradicts itself, so that nothing can be inferred.
pub fn check_within(history: &[Transaction], limits: Limits) -> Result<Report, InvalidHistory> {
    let lists = Lists::new(history)?;
    let count = |outcome| history.iter().filter(|transaction| transaction.outcome == outcome).count() as u64;
    let mut report = Report {
        committed: count(Outcome::Committed),
        aborted: count(Outcome::Aborted),
        unknown: count(Outcome::Unknown),
        lists: lists.all.len() as u64,
        ..Report::default()
    };
    direct::find(&lists, &mut report);
    linearizability(&lists, limits.states_max, &mut report);
    cycles::find(&lists, &graph(&lists), limits, &mut report);
    Ok(report)
}

fn graph(lists: &Lists<'_>) -> Graph {
    let mut edges = dependencies(lists);
    edges.extend(sessions(lists));
    let (in_time, nodes) = real_time(lists);
    edges.extend(in_time);
    Graph::new(nodes, edges)
}

fn linearizability(lists: &Lists<'_>, states_max: usize, report: &mut Report) {
    for list in lists.all.iter().filter(|list| list.is_sound) {
        match linear::check(lists, list, states_max) {
            Verdict::Linearizable => {}
            Verdict::NotDecided => report.lists_not_decided += 1,
            Verdict::Impossible { transaction, placed } => report.add(Kind::NotLinearizable, || {
                (vec![transaction], linear::explain(list, transaction, placed))
            }),
        }
    }
}
