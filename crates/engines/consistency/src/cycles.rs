//! Finds a shortest cycle in each component of the graph, names its kind, and explains it.

use std::collections::VecDeque;

use crate::claim::Order;
use crate::components::components;
use crate::graph::{Edge, Graph, Kinds, PASS, REAL_TIME, RW, SESSION, WR, WW};
use crate::limits::Limits;
use crate::lists::{Lists, shown};
use crate::report::{Kind, Report};

/// The shortest cycle: no search can improve on it.
const LENGTH_MIN: u32 = 2;

/// Reports one cycle of each component: first of dependencies alone, then with the order of sessions, then
/// with the order of real time. A component with a reported cycle is not reported again. Only a write skew,
/// which snapshot isolation allows, does not hide another kind that a further order adds.
pub(crate) fn find(lists: &Lists<'_>, graph: &Graph, limits: Limits, report: &mut Report) {
    let mut search = Search::new(graph, lists.history.len() as u32, limits);
    let mut reported = vec![Reported::Nothing; graph.nodes()];
    for (order, extra) in
        [(Order::Any, 0), (Order::Session, SESSION), (Order::RealTime, SESSION | REAL_TIME | PASS)]
    {
        for (mask, shapes) in
            [(WW, &DIRTY_WRITE[..]), (WW | WR, &CIRCULAR_FLOW[..]), (WW | WR | RW, &ANTI[..])]
        {
            for component in components(graph, mask | extra) {
                let before = component.iter().map(|node| reported[*node as usize]).max().unwrap_or_default();
                if before == Reported::Whole {
                    continue;
                }
                search.enter(&component);
                let skewed = before == Reported::WriteSkew;
                let now = match search.classify(&component, shapes_beside(shapes, skewed), extra) {
                    Some((shape, cycle)) => {
                        let kind = (shape.kind)(order);
                        report.add(kind, || explain(lists, &condense(&cycle)));
                        if kind == Kind::WriteSkew(order) { Reported::WriteSkew } else { Reported::Whole }
                    }
                    None if skewed && search.left > 0 => Reported::WriteSkew,
                    None => {
                        report.cycles_not_decided += 1;
                        Reported::Whole
                    }
                };
                component.iter().for_each(|node| reported[*node as usize] = now);
            }
        }
    }
}

/// The anomalies of a component that are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reported {
    #[default]
    Nothing,
    /// A write skew alone.
    WriteSkew,
    /// The worst anomaly of the component, or that its kind is undecided.
    Whole,
}

/// The shapes to look for in a component. A component with a reported write skew is not searched for a second
/// one.
fn shapes_beside(shapes: &[Shape], skewed: bool) -> &[Shape] {
    match shapes {
        [others @ .., last] if skewed && last.is_write_skew => others,
        all => all,
    }
}

/// A form of cycles: the kind of the first edge, and the kinds of the edges that lead back to its start.
struct Shape {
    kind: fn(Order) -> Kind,
    first: Kinds,
    back: Kinds,
    /// Whether two reads of older states never follow each other.
    apart: bool,
    is_write_skew: bool,
}

const DIRTY_WRITE: [Shape; 1] =
    [Shape { kind: Kind::DirtyWrite, first: WW, back: WW, apart: false, is_write_skew: false }];
const CIRCULAR_FLOW: [Shape; 1] = [Shape {
    kind: Kind::CircularInformationFlow,
    first: WR,
    back: WW | WR,
    apart: false,
    is_write_skew: false,
}];
const ANTI: [Shape; 3] = [
    Shape { kind: Kind::ReadSkew, first: RW, back: WW | WR, apart: false, is_write_skew: false },
    Shape { kind: Kind::LongFork, first: RW, back: WW | WR | RW, apart: true, is_write_skew: false },
    Shape { kind: Kind::WriteSkew, first: RW, back: WW | WR | RW, apart: false, is_write_skew: true },
];

/// A breadth-first search that is repeated from many edges. A state of the search is a node with a flag:
/// whether the last edge was a read of an older state.
struct Search<'g> {
    graph: &'g Graph,
    /// Nodes with lower numbers are transactions.
    transactions: u32,
    /// The number of each node's component.
    component: Vec<u32>,
    components: u32,
    /// The round that reached each state, its distance, and the state and edge from which it was reached.
    reached: Vec<Reached>,
    round: u32,
    /// Edges that this component, and all components, may still follow.
    left: u64,
    left_in_all: u64,
    limits: Limits,
}

#[derive(Clone, Copy, Default)]
struct Reached {
    round: u32,
    distance: u32,
    from: u32,
    place: u32,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, transactions: u32, limits: Limits) -> Self {
        Self {
            graph,
            transactions,
            component: vec![0; graph.nodes()],
            components: 0,
            reached: vec![Reached::default(); 2 * graph.nodes()],
            round: 0,
            left: 0,
            left_in_all: limits.cycle_steps_max,
            limits,
        }
    }

    fn enter(&mut self, component: &[u32]) {
        self.components += 1;
        component.iter().for_each(|node| self.component[*node as usize] = self.components);
    }

    /// The first shape of which the component has a cycle. `None` if a limit ends the search.
    fn classify<'s>(
        &mut self,
        component: &[u32],
        shapes: &'s [Shape],
        extra: Kinds,
    ) -> Option<(&'s Shape, Vec<Edge>)> {
        for shape in shapes {
            self.left = self.limits.cycle_steps_per_component.min(self.left_in_all);
            let given = self.left;
            let cycle = self.shortest(component, shape, extra);
            self.left_in_all -= given - self.left;
            if let Some(cycle) = cycle {
                return Some((shape, cycle));
            }
            if self.left == 0 {
                return None;
            }
        }
        None
    }

    fn shortest(&mut self, component: &[u32], shape: &Shape, extra: Kinds) -> Option<Vec<Edge>> {
        let (graph, mut best, mut length) = (self.graph, None, u32::MAX);
        for node in component {
            for place in graph.places(*node) {
                let first = *graph.edge(place);
                if first.kind & shape.first == 0 || !self.is_inside(&first) {
                    continue;
                }
                if let Some((distance, cycle)) = self.back(&first, shape, extra, length) {
                    (best, length) = (Some(cycle), distance + 1);
                }
                if length <= LENGTH_MIN || self.left == 0 {
                    return best;
                }
            }
        }
        best
    }

    fn is_inside(&self, edge: &Edge) -> bool {
        self.component[edge.to as usize] == self.components
    }

    /// The shortest way from an edge's end to its start, if the cycle is shorter than `bound`.
    fn back(&mut self, first: &Edge, shape: &Shape, extra: Kinds, bound: u32) -> Option<(u32, Vec<Edge>)> {
        self.round += 1;
        let start = state(first.to, first.kind == RW && shape.apart);
        self.reached[start as usize] =
            Reached { round: self.round, distance: 0, from: start, place: u32::MAX };
        let mut queue = VecDeque::from([(start, 0)]);
        while let Some((at, distance)) = queue.pop_front() {
            if at == state(first.from, false) {
                return Some((distance, self.cycle(first, at)));
            }
            let is_known = self.reached[at as usize].distance < distance;
            if is_known || distance + 1 >= bound {
                continue;
            }
            for place in self.graph.places(at / 2) {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    return None;
                }
                self.step(at, distance, place, shape, extra, &mut queue);
            }
        }
        None
    }

    fn step(
        &mut self,
        at: u32,
        distance: u32,
        place: u32,
        shape: &Shape,
        extra: Kinds,
        queue: &mut VecDeque<(u32, u32)>,
    ) {
        let edge = *self.graph.edge(place);
        let is_allowed = edge.kind & (shape.back | extra) != 0 && self.is_inside(&edge);
        let is_rw = edge.kind == RW && shape.apart;
        if !is_allowed || (is_rw && at % 2 == 1) {
            return;
        }
        // A path through moments counts as one edge: only its last edge, which leads to a transaction, has length 1.
        let length = u32::from(edge.to < self.transactions);
        let (to, distance) = (state(edge.to, is_rw), distance + length);
        let reached = &mut self.reached[to as usize];
        if reached.round == self.round && reached.distance <= distance {
            return;
        }
        *reached = Reached { round: self.round, distance, from: at, place };
        match length {
            0 => queue.push_front((to, distance)),
            _ => queue.push_back((to, distance)),
        }
    }

    fn cycle(&self, first: &Edge, end: u32) -> Vec<Edge> {
        let (mut edges, mut at) = (Vec::new(), end);
        while let Reached { place, from, .. } = self.reached[at as usize]
            && place != u32::MAX
        {
            edges.push(*self.graph.edge(place));
            at = from;
        }
        edges.push(*first);
        edges.reverse();
        edges
    }
}

const fn state(node: u32, is_after_rw: bool) -> u32 {
    2 * node + is_after_rw as u32
}

/// Replaces each path through moments by one edge, and lets the cycle begin at its first transaction.
fn condense(cycle: &[Edge]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::with_capacity(cycle.len());
    for edge in cycle {
        match edges.last_mut() {
            Some(last) if edge.kind == PASS => last.to = edge.to,
            _ => edges.push(*edge),
        }
    }
    let first = (0..edges.len()).min_by_key(|index| edges[*index].from).unwrap_or(0);
    edges.rotate_left(first);
    edges
}

fn explain(lists: &Lists<'_>, cycle: &[Edge]) -> (Vec<u32>, String) {
    let words: Vec<String> = cycle.iter().map(|edge| sentence(lists, edge)).collect();
    (cycle.iter().map(|edge| edge.from).collect(), words.join("; "))
}

fn sentence(lists: &Lists<'_>, edge: &Edge) -> String {
    let (from, to) = (edge.from, edge.to);
    let Some(list) = edge.list(lists) else {
        let process = lists.transaction(to).process;
        return match edge.kind {
            SESSION => format!("T{from} came before T{to} in process {process}"),
            _ => format!("T{from} completed before T{to} started"),
        };
    };
    let read = |reader| list.read_of(reader).map_or(&[][..], |read| read.elements);
    let id = list.id;
    match edge.kind {
        WW => {
            let position = list.writers.windows(2).position(|pair| pair == [from, to]).unwrap_or(0);
            let (one, other) = (list.order[position], list.order[position + 1]);
            format!("T{from} appended {one} to list {id} before T{to} appended {other}")
        }
        WR => {
            let state = read(to);
            let element = state.last().copied().unwrap_or_default();
            format!("T{from} appended {element} to list {id} before T{to} read {}", shown(state))
        }
        _ => {
            let state = read(from);
            let next = list.order.get(state.len()).copied().unwrap_or_default();
            format!("T{from} read {} of list {id} before T{to} appended {next}", shown(state))
        }
    }
}
