//! `sat`: values of boolean variables that make every clause true.
//!
//! Statement `t4|a!b,!cd,bc`: four variables; every clause has a true one among its variables, `!` turns one
//! around; answer `1010`, the values of a, b, c, d.

use super::graph::{self, MAX_NODES};
use super::{InstanceRng, Knob, Task};

/// A number of variables and clauses: each literal is a variable and the value that makes it true.
pub(super) struct Sat {
    variables: usize,
    clauses: Vec<Vec<(usize, bool)>>,
}

fn written(clause: &[(usize, bool)]) -> String {
    let mark = |is_true: bool| if is_true { "" } else { "!" };
    clause.iter().map(|(v, is_true)| format!("{}{}", mark(*is_true), graph::letter(*v))).collect()
}

fn clause(text: &str, variables: usize) -> Option<Vec<(usize, bool)>> {
    let (mut literals, mut is_true) = (Vec::new(), true);
    for byte in text.bytes() {
        if byte == b'!' && is_true {
            is_true = false;
        } else {
            literals.push((graph::node(byte, variables)?, is_true));
            is_true = true;
        }
    }
    (is_true && !literals.is_empty()).then_some(literals)
}

impl Task for Sat {
    const NAME: &'static str = "sat";
    const ABOUT: &'static str =
        "set the variables a, b, c, ... to 0 or 1 so that every clause holds a true one";
    const TAG: char = 't';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "variables", default: 5, range: (3, MAX_NODES) },
        Knob { letter: 'm', about: "clauses", default: 5, range: (1, 12) },
        Knob { letter: 'w', about: "variables in a clause", default: 2, range: (2, 3) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [variables, count, width] = *knobs else { return None };
        let mut clauses = Vec::with_capacity(count);
        for _ in 0..count {
            let chosen = draw.choose(width, (0..variables).collect())?;
            clauses.push(chosen.into_iter().map(|v| (v, draw.coin())).collect::<Vec<_>>());
        }
        clauses.sort();
        let are_different = clauses.windows(2).all(|pair| pair[0] != pair[1]);
        are_different.then_some(Self { variables, clauses })
    }

    fn read(statement: &str) -> Option<Self> {
        let (variables, clauses) = statement.split_once('|')?;
        let variables = graph::number(variables, 1, MAX_NODES)?;
        let clauses =
            clauses.split(',').map(|text| clause(text, variables)).collect::<Option<_>>()?;
        Some(Self { variables, clauses })
    }

    fn statement(&self) -> String {
        let clauses: Vec<String> = self.clauses.iter().map(|clause| written(clause)).collect();
        format!("{}|{}", self.variables, clauses.join(","))
    }

    fn letters(&self) -> Vec<u8> {
        b"01".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let is_false = |(variable, is_true): &(usize, bool)| {
            prefix.get(*variable).is_some_and(|value| (*value == b'1') != *is_true)
        };
        match self.clauses.iter().any(|clause| clause.iter().all(is_false)) {
            true => Err("makes a clause false"),
            false => Ok(prefix.len() == self.variables),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_the_models_of_the_formula() {
        let is_model = |text: &&String| {
            let v: Vec<bool> = text.bytes().map(|byte| byte == b'1').collect();
            (v[0] || !v[1]) && (!v[2] || v[3]) && (v[1] || v[2] || !v[4])
        };
        let all = strings("01", 5..=5);
        let brute: Vec<String> = all.iter().filter(is_model).cloned().collect();
        assert_eq!(answers("sat", "t5|a!b,!cd,bc!e"), brute);
        assert_eq!(answers("sat", "t2|a,!a").len(), 0);
        assert_eq!(answers("sat", "t3|abc").len(), 7);
    }
}
