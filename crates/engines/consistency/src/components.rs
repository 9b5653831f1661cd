//! Finds strongly connected components, after Tarjan (1972), without recursion.

use crate::graph::{Graph, Kinds};

const UNSEEN: u32 = u32::MAX;

/// The components with more than one node, over the edges that the mask allows.
pub(crate) fn components(graph: &Graph, mask: Kinds) -> Vec<Vec<u32>> {
    let nodes = graph.nodes();
    let mut walk = Walk {
        graph,
        mask,
        index: vec![UNSEEN; nodes],
        low: vec![0; nodes],
        is_open: vec![false; nodes],
        open: Vec::new(),
        path: Vec::new(),
        next_index: 0,
        found: Vec::new(),
    };
    for node in 0..nodes as u32 {
        if walk.index[node as usize] == UNSEEN {
            walk.from(node);
        }
    }
    walk.found
}

struct Walk<'g> {
    graph: &'g Graph,
    mask: Kinds,
    index: Vec<u32>,
    low: Vec<u32>,
    is_open: Vec<bool>,
    open: Vec<u32>,
    /// Nodes on the path, each with the place of its next edge.
    path: Vec<(u32, u32)>,
    next_index: u32,
    found: Vec<Vec<u32>>,
}

impl Walk<'_> {
    fn from(&mut self, root: u32) {
        self.enter(root);
        while let Some(&(node, place)) = self.path.last() {
            if place == self.graph.places(node).end {
                self.path.pop();
                self.leave(node);
                continue;
            }
            if let Some(top) = self.path.last_mut() {
                top.1 += 1;
            }
            self.follow(node, place);
        }
    }

    fn enter(&mut self, node: u32) {
        let at = node as usize;
        (self.index[at], self.low[at], self.is_open[at]) = (self.next_index, self.next_index, true);
        self.next_index += 1;
        self.open.push(node);
        self.path.push((node, self.graph.places(node).start));
    }

    fn follow(&mut self, node: u32, place: u32) {
        let edge = self.graph.edge(place);
        if edge.kind & self.mask == 0 {
            return;
        }
        let to = edge.to as usize;
        if self.index[to] == UNSEEN {
            self.enter(edge.to);
        } else if self.is_open[to] {
            self.low[node as usize] = self.low[node as usize].min(self.index[to]);
        }
    }

    fn leave(&mut self, node: u32) {
        let at = node as usize;
        if let Some(&(parent, _)) = self.path.last() {
            self.low[parent as usize] = self.low[parent as usize].min(self.low[at]);
        }
        if self.low[at] < self.index[at] {
            return;
        }
        let from = self.open.iter().rposition(|open| *open == node).unwrap_or(0);
        let component = self.open.split_off(from);
        component.iter().for_each(|member| self.is_open[*member as usize] = false);
        if component.len() > 1 {
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Edge, RW, WR, WW};

    #[test]
    fn components_follow_the_mask() {
        let edge = |(from, to, kind)| Edge::of_order(from, to, kind);
        let edges = [(0, 1, WW), (1, 0, WR), (1, 2, WW), (2, 3, WW), (3, 4, RW), (4, 2, WW)].map(edge);
        let graph = Graph::new(6, edges.to_vec());
        let sorted = |mask| {
            let mut found = components(&graph, mask);
            found.iter_mut().for_each(|component| component.sort_unstable());
            found.sort();
            found
        };
        assert!(sorted(WW).is_empty());
        assert_eq!(sorted(WW | WR), [[0, 1]]);
        assert_eq!(sorted(WW | WR | RW), [vec![0, 1], vec![2, 3, 4]]);
    }
}
