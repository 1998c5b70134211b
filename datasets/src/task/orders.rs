//! `orders`: put letters in an order that keeps what comes before what (topological orders of a DAG).
//!
//! Statement `o5|a>c,b>d`: five letters, a before c and b before d; answer `abecd`.

use super::graph::{self, MAX_NODES};
use super::{InstanceRng, Knob, Task};

/// A number of letters and pairs of which the first comes first.
pub(super) struct Orders {
    nodes: usize,
    before: Vec<(usize, usize)>,
}

impl Task for Orders {
    const NAME: &'static str = "orders";
    const ABOUT: &'static str =
        "order the letters a, b, c, ... so that the left of each pair comes first";
    const TAG: char = 'o';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "letters", default: 6, range: (3, MAX_NODES) },
        Knob { letter: 'm', about: "pairs", default: 6, range: (1, 12) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [nodes, pairs] = *knobs else { return None };
        let order = draw.shuffled((0..nodes).collect());
        let pairs = draw.choose(pairs, graph::pairs(nodes))?;
        let mut before: Vec<(usize, usize)> =
            pairs.into_iter().map(|(a, b)| (order[a], order[b])).collect();
        before.sort_unstable();
        Some(Self { nodes, before })
    }

    fn read(statement: &str) -> Option<Self> {
        let (nodes, before) = statement.split_once('|')?;
        let nodes = graph::number(nodes, 1, MAX_NODES)?;
        Some(Self { nodes, before: graph::read(before, ">", nodes)? })
    }

    fn statement(&self) -> String {
        format!("{}|{}", self.nodes, graph::written(&self.before, ">"))
    }

    fn letters(&self) -> Vec<u8> {
        graph::letters(self.nodes)
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let (last, earlier) = (prefix[prefix.len() - 1], &prefix[..prefix.len() - 1]);
        if earlier.contains(&last) {
            return Err("names a letter twice");
        }
        let is_late = |(a, b): &(usize, usize)| {
            graph::node(last, self.nodes) == Some(*b)
                && !earlier.contains(&(graph::letter(*a) as u8))
        };
        match self.before.iter().any(is_late) {
            true => Err("names a letter before one that comes first"),
            false => Ok(prefix.len() == self.nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_orders_that_keep_the_pairs() {
        let brute = |pairs: &[(char, char)], text: &str| {
            let at = |letter: char| text.find(letter);
            "abcde".chars().all(|letter| at(letter).is_some())
                && pairs.iter().all(|(a, b)| at(*a) < at(*b))
        };
        let all = strings("abcde", 5..=5);
        for (statement, pairs) in [
            ("o5|a>c,b>d", vec![('a', 'c'), ('b', 'd')]),
            ("o5|e>a,d>a,c>b", vec![('e', 'a'), ('d', 'a'), ('c', 'b')]),
        ] {
            let right: Vec<String> = all.iter().filter(|s| brute(&pairs, s)).cloned().collect();
            assert_eq!(answers("orders", statement), right);
        }
        assert_eq!(answers("orders", "o5|a>c,b>d").len(), 30);
        assert_eq!(answers("orders", "o3|a>b,b>a").len(), 0);
    }
}
