//! `subset`: choose some of the given numbers so that they add up to a target.
//!
//! Statement `s24|3,5,7,9,12`; answer `3+9+12`, in any order: the class of an answer has its numbers ascending.

use super::{InstanceRng, Knob, Task, graph};

/// Different numbers, ascending, and a target.
pub(super) struct Subset {
    target: usize,
    numbers: Vec<usize>,
}

/// Most numbers: every further one makes many times as many orders.
const MAX_NUMBERS: usize = 8;

impl Task for Subset {
    const NAME: &'static str = "subset";
    const ABOUT: &'static str =
        "choose some of the numbers, in any order, so that they add up to the target";
    const TAG: char = 's';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "numbers", default: 7, range: (3, MAX_NUMBERS) },
        Knob { letter: 'm', about: "largest number", default: 12, range: (8, 20) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [count, largest] = *knobs else { return None };
        let numbers = draw.choose(count, (1..=largest).collect())?;
        let chosen: usize = numbers.iter().filter(|_| draw.coin()).sum();
        (chosen > 0).then_some(Self { target: chosen, numbers })
    }

    fn read(statement: &str) -> Option<Self> {
        let (target, numbers) = statement.split_once('|')?;
        let numbers: Vec<usize> =
            numbers.split(',').map(|n| graph::number(n, 1, 99)).collect::<Option<_>>()?;
        let is_plain = numbers.is_sorted_by(|a, b| a < b) && numbers.len() <= MAX_NUMBERS;
        Some(Self { target: graph::number(target, 1, 999)?, numbers }).filter(|_| is_plain)
    }

    fn statement(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        format!("{}|{}", self.target, numbers.join(","))
    }

    fn letters(&self) -> Vec<u8> {
        b"+0123456789".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let (mut unused, mut sum, mut last) = (self.numbers.clone(), 0, None);
        for byte in prefix {
            match (last, byte) {
                (Some(number), b'+') => {
                    let place = unused.iter().position(|given| *given == number);
                    sum += unused
                        .swap_remove(place.ok_or("uses a number that is not given, or one twice")?);
                    last = None;
                }
                (None, b'+' | b'0') | (Some(10..), b'0'..=b'9') => {
                    return Err("is not numbers with + between them");
                }
                (_, digit) => last = Some(10 * last.unwrap_or(0) + usize::from(digit - b'0')),
            }
        }
        let fits = |number: &usize| sum + number <= self.target;
        match last {
            Some(number) if sum + number == self.target && unused.contains(&number) => Ok(true),
            // A number may go on, as 1 to 12.
            Some(number)
                if unused
                    .iter()
                    .any(|given| [*given, given / 10].contains(&number) && fits(given)) =>
            {
                Ok(false)
            }
            None if unused.iter().any(fits) => Ok(false),
            _ => Err("comes to another sum, or uses a number that is not given, or one twice"),
        }
    }

    fn class(answer: &str) -> String {
        let mut numbers: Vec<(usize, &str)> = answer.split('+').map(|n| (n.len(), n)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|(_, number)| number).collect::<Vec<_>>().join("+")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::find;
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_orders_of_all_subsets() {
        let given = ["1", "2", "3", "12"];
        let is_right = |text: &&String| {
            let parts: Vec<&str> = text.split('+').collect();
            let different: BTreeSet<&&str> = parts.iter().collect();
            parts.iter().all(|part| given.contains(part))
                && different.len() == parts.len()
                && parts.iter().map(|part| part.parse::<usize>().unwrap()).sum::<usize>() == 15
        };
        let all = strings("+123", 1..=8);
        let brute: BTreeSet<&String> = all.iter().filter(is_right).collect();
        let listed = answers("subset", "s15|1,2,3,12");
        assert_eq!(listed.iter().collect::<BTreeSet<_>>(), brute);
        // 12+3 in two orders, 12+2+1 in six.
        assert_eq!((listed.len(), find("subset").unwrap().total("s15|1,2,3,12")), (8, Some(2)));
    }
}
