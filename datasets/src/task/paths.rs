//! `paths`: a path through a graph that visits no node twice.
//!
//! Statement `pa>f|ab,ac,bc,bf,cf`: from a to f along the edges, in any direction; answer `acbf`.

use super::graph::{self, MAX_NODES};
use super::{InstanceRng, Knob, Task};

/// A graph and two of its nodes.
pub(super) struct Paths {
    from: usize,
    to: usize,
    edges: Vec<(usize, usize)>,
}

impl Task for Paths {
    const NAME: &'static str = "paths";
    const ABOUT: &'static str =
        "a path from the first node to the second along the edges, no node twice";
    const TAG: char = 'p';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "nodes", default: 6, range: (4, MAX_NODES) },
        Knob { letter: 'm', about: "edges", default: 8, range: (4, 14) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [nodes, edges] = *knobs else { return None };
        let edges = draw.choose(edges, graph::pairs(nodes))?;
        let ends = draw.shuffled((0..nodes).collect());
        Some(Self { from: ends[0], to: ends[1], edges })
    }

    fn read(statement: &str) -> Option<Self> {
        let (ends, edges) = statement.split_once('|')?;
        let (from, to) = ends.split_once('>')?;
        let (from, to) = (graph::single(from, MAX_NODES)?, graph::single(to, MAX_NODES)?);
        (from != to).then_some(Self { from, to, edges: graph::read(edges, "", MAX_NODES)? })
    }

    fn statement(&self) -> String {
        let (from, to) = (graph::letter(self.from), graph::letter(self.to));
        format!("{from}>{to}|{}", graph::written(&self.edges, ""))
    }

    fn letters(&self) -> Vec<u8> {
        graph::letters(MAX_NODES)
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let node = |at: usize| usize::from(prefix[at] - b'a');
        let last = prefix.len() - 1;
        let here = node(last);
        if last == 0 {
            return if here == self.from { Ok(false) } else { Err("begins at another node") };
        }
        if prefix[..last].contains(&prefix[last]) {
            return Err("visits a node twice");
        }
        let before = node(last - 1);
        match self.edges.contains(&(before, here)) || self.edges.contains(&(here, before)) {
            true => Ok(here == self.to),
            false => Err("goes where there is no edge"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_simple_paths() {
        let edges = ["ab", "ac", "bc", "bd", "cd"];
        let is_path = |text: &&String| {
            let bytes = text.as_bytes();
            let is_edge = |pair: &[u8]| {
                edges.iter().any(|e| e.as_bytes() == pair || e.as_bytes() == [pair[1], pair[0]])
            };
            let is_new = |at: usize| !bytes[..at].contains(&bytes[at]);
            text.starts_with('a')
                && text.ends_with('d')
                && (0..bytes.len()).all(is_new)
                && bytes.windows(2).all(is_edge)
        };
        let all = strings("abcd", 2..=5);
        let mut brute: Vec<String> = all.iter().filter(is_path).cloned().collect();
        brute.sort();
        assert_eq!(answers("paths", "pa>d|ab,ac,bc,bd,cd"), brute);
        // The complete graph of six nodes: sum over j of 4! / j! ways of what is between.
        let complete = "pa>f|ab,ac,ad,ae,af,bc,bd,be,bf,cd,ce,cf,de,df,ef";
        assert_eq!(answers("paths", complete).len(), 1 + 4 + 12 + 24 + 24);
    }
}
