//! Adds the order of sessions and of real time to the graph.

use crate::graph::{Edge, PASS, REAL_TIME, SESSION};
use crate::history::Outcome;
use crate::lists::{Lists, numbered};

/// Each transaction follows the last one of its process that was acknowledged before.
pub(crate) fn sessions(lists: &Lists<'_>) -> Vec<Edge> {
    let mut of_process: Vec<(u32, u64, u32)> = numbered(lists.history)
        .filter(|(number, _)| lists.is_present(*number))
        .map(|(number, transaction)| (transaction.process, transaction.invoked_ns, number))
        .collect();
    of_process.sort_unstable();
    let (mut edges, mut last) = (Vec::with_capacity(of_process.len()), None);
    for (process, _, number) in of_process {
        if let Some((_, before)) = last.filter(|(of, _)| *of == process) {
            edges.push(Edge::of_order(before, number, SESSION));
        }
        // An unknown transaction may commit after the next one.
        if lists.transaction(number).outcome == Outcome::Committed {
            last = Some((process, number));
        } else {
            last = last.filter(|(of, _)| *of == process);
        }
    }
    edges
}

/// Edges through moments, whose nodes follow the transactions. A moment follows all transactions that completed before it, and
/// every transaction follows the last moment before its start. So the edges are few, although nearly all pairs are ordered.
/// Returns the edges and the number of nodes.
pub(crate) fn real_time(lists: &Lists<'_>) -> (Vec<Edge>, usize) {
    let mut events: Vec<(u64, Event)> = Vec::with_capacity(2 * lists.history.len());
    for (number, transaction) in numbered(lists.history).filter(|(number, _)| lists.is_present(*number)) {
        events.push((transaction.invoked_ns, Event::Start(number)));
        if transaction.outcome == Outcome::Committed {
            events.push((transaction.completed_ns, Event::End(number)));
        }
    }
    // At equal times starts come first: such transactions are concurrent.
    events.sort_unstable();
    let (mut edges, mut nodes) = (Vec::with_capacity(2 * events.len()), lists.history.len() as u32);
    let (mut moment, mut is_open) = (None, false);
    for (_, event) in events {
        match event {
            Event::Start(number) => {
                is_open = false;
                edges.extend(moment.map(|moment| Edge::of_order(moment, number, PASS)));
            }
            Event::End(number) => {
                if !std::mem::replace(&mut is_open, true) {
                    edges.extend(moment.map(|moment| Edge::of_order(moment, nodes, PASS)));
                    moment = Some(nodes);
                    nodes += 1;
                }
                edges.extend(moment.map(|moment| Edge::of_order(number, moment, REAL_TIME)));
            }
        }
    }
    (edges, nodes as usize)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(u32),
    End(u32),
}
