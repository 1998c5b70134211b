//! `colouring`: colour the nodes of a graph so that neighbours differ.
//!
//! Statement `c3|ab,ac,bd`: three colours, edges; answer `1223`, the colours of a, b, c, d. Colourings that differ
//! in the names of colours are different answers.

use super::graph::{self, MAX_NODES};
use super::{InstanceRng, Knob, Task};

/// A graph and a number of colours.
pub(super) struct Colouring {
    colours: usize,
    edges: Vec<(usize, usize)>,
    nodes: usize,
}

impl Task for Colouring {
    const NAME: &'static str = "colouring";
    const ABOUT: &'static str =
        "colour the nodes a, b, c, ... of a graph so that neighbours differ";
    const TAG: char = 'c';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "nodes", default: 6, range: (3, MAX_NODES) },
        Knob { letter: 'm', about: "edges", default: 7, range: (2, 16) },
        Knob { letter: 'k', about: "colours", default: 3, range: (2, 4) },
    ];
    const ANSWERS: (usize, usize) = (2, 96);

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [nodes, edges, colours] = *knobs else { return None };
        let edges = draw.choose(edges, graph::pairs(nodes))?;
        let has_edge = |node| edges.iter().any(|(a, b)| *a == node || *b == node);
        (0..nodes).all(has_edge).then_some(Self { colours, edges, nodes })
    }

    fn read(statement: &str) -> Option<Self> {
        let (colours, edges) = statement.split_once('|')?;
        let edges = graph::read(edges, "", MAX_NODES)?;
        let nodes = 1 + edges.iter().map(|(a, b)| *a.max(b)).max()?;
        Some(Self { colours: graph::number(colours, 1, 9)?, edges, nodes })
    }

    fn statement(&self) -> String {
        format!("{}|{}", self.colours, graph::written(&self.edges, ""))
    }

    fn letters(&self) -> Vec<u8> {
        (b'1'..).take(self.colours).collect()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let last = prefix.len() - 1;
        let clashes = |(a, b): &(usize, usize)| *a.max(b) == last && prefix[*a] == prefix[*b];
        match self.edges.iter().any(clashes) {
            true => Err("gives two neighbours one colour"),
            false => Ok(prefix.len() == self.nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_those_of_the_chromatic_polynomial_and_of_brute_force() {
        // k (k - 1)^3 for a tree of four nodes, k (k - 1)(k - 2) for a triangle.
        assert_eq!(answers("colouring", "c3|ab,bc,bd").len(), 24);
        assert_eq!(answers("colouring", "c4|ab,ac,bc").len(), 24);
        assert_eq!(answers("colouring", "c2|ab,ac,bc").len(), 0);
        let proper = |text: &str| {
            let colour = |node: usize| text.as_bytes()[node];
            [(0, 1), (0, 3), (1, 2), (2, 3), (3, 4)].iter().all(|(a, b)| colour(*a) != colour(*b))
        };
        let brute: Vec<String> = strings("123", 5..=5).into_iter().filter(|s| proper(s)).collect();
        assert_eq!(answers("colouring", "c3|ab,ad,bc,cd,de"), brute);
    }
}
