//! Holds the dependencies between transactions as a graph.

use crate::lists::{List, Lists};

/// The kinds of an edge, as bits.
pub(crate) type Kinds = u8;
/// Both append, the target after the source.
pub(crate) const WW: Kinds = 1;
/// The target reads the state that the source appended.
pub(crate) const WR: Kinds = 2;
/// The target appends to the state that the source read.
pub(crate) const RW: Kinds = 4;
/// The target follows the source in its process.
pub(crate) const SESSION: Kinds = 8;
/// The target started after the source had completed. The edge ends at a moment, which [`PASS`] continues.
pub(crate) const REAL_TIME: Kinds = 16;
/// Leads from one moment to the next, or to a transaction that started after it.
pub(crate) const PASS: Kinds = 32;

/// The list of an edge that has none.
const NO_LIST: u32 = u32::MAX;

/// One dependency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    pub kind: Kinds,
    list: u32,
}

impl Edge {
    /// An edge that no list explains.
    pub const fn of_order(from: u32, to: u32, kind: Kinds) -> Self {
        Self { from, to, kind, list: NO_LIST }
    }

    /// The list that explains it.
    pub fn list<'l, 'a>(&self, lists: &'l Lists<'a>) -> Option<&'l List<'a>> {
        lists.all.get(self.list as usize)
    }
}

/// A graph whose first nodes are the transactions, and whose further nodes are moments.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The place of each node's first edge.
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    pub fn new(nodes: usize, mut edges: Vec<Edge>) -> Self {
        edges.sort_unstable_by_key(|edge| edge.from);
        let mut first = vec![0; nodes + 1];
        edges.iter().for_each(|edge| first[edge.from as usize + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        Self { first, edges }
    }

    pub const fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// The places of a node's edges.
    pub fn places(&self, node: u32) -> std::ops::Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    pub fn edge(&self, place: u32) -> &Edge {
        &self.edges[place as usize]
    }
}

/// The dependencies that the lists show.
pub(crate) fn dependencies(lists: &Lists<'_>) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (slot, list) in lists.all.iter().enumerate() {
        let slot = slot as u32;
        let mut add = |from: u32, to: u32, kind: Kinds| {
            if from != to {
                edges.push(Edge { from, to, kind, list: slot });
            }
        };
        for pair in list.writers.windows(2) {
            add(pair[0], pair[1], WW);
        }
        for read in list.reads.iter().filter(|_| list.is_sound) {
            let length = read.elements.len();
            if length > 0 {
                add(list.writers[length - 1], read.transaction, WR);
            }
            if let Some(next) = list.writers.get(length) {
                add(read.transaction, *next, RW);
            }
        }
    }
    edges
}
