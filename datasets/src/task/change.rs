//! `change`: pay an amount in coins.
//!
//! Statement `m17|2,3,5`; answer `2+5+5+5`: coins in ascending order, each as often as you like.

use super::{Draw, Knob, Task, graph};

/// Coins of 1 to 9, ascending, and an amount.
pub(super) struct Change {
    amount: usize,
    coins: Vec<usize>,
}

/// Largest amount that is read.
const MAX_AMOUNT: usize = 40;

impl Task for Change {
    const NAME: &'static str = "change";
    const ABOUT: &'static str =
        "pay the amount in the given coins, smallest first, each any number of times";
    const TAG: char = 'm';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "kinds of coins", default: 4, range: (2, 6) },
        Knob { letter: 'm', about: "largest amount", default: 20, range: (10, 30) },
        Knob { letter: 'c', about: "smallest coin", default: 2, range: (1, 4) },
    ];

    fn draw(knobs: &[usize], draw: &mut Draw) -> Option<Self> {
        let [kinds, largest, smallest] = *knobs else { return None };
        let coins = draw.choose(kinds, (smallest..=9).collect())?;
        Some(Self { amount: draw.within(8, largest), coins })
    }

    fn read(statement: &str) -> Option<Self> {
        let (amount, coins) = statement.split_once('|')?;
        let coins: Vec<usize> =
            coins.split(',').map(|coin| graph::number(coin, 1, 9)).collect::<Option<_>>()?;
        let amount = graph::number(amount, 1, MAX_AMOUNT)?;
        coins.is_sorted_by(|a, b| a < b).then_some(Self { amount, coins })
    }

    fn statement(&self) -> String {
        let coins: Vec<String> = self.coins.iter().map(usize::to_string).collect();
        format!("{}|{}", self.amount, coins.join(","))
    }

    fn letters(&self) -> Vec<u8> {
        let coins = self.coins.iter().map(|coin| b'0' + *coin as u8);
        std::iter::once(b'+').chain(coins).collect()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let last = prefix.len() - 1;
        // Coins are at even places.
        if (prefix[last] == b'+') != (last % 2 == 1) {
            return Err("is not coins with + between them");
        }
        if last >= 2 && last % 2 == 0 && prefix[last] < prefix[last - 2] {
            return Err("has a coin after a larger one");
        }
        let paid: usize = prefix.iter().step_by(2).map(|coin| usize::from(*coin - b'0')).sum();
        match paid.cmp(&self.amount) {
            std::cmp::Ordering::Less => Ok(false),
            std::cmp::Ordering::Equal => Ok(true),
            std::cmp::Ordering::Greater => Err("comes to more than the amount"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_ways_to_pay() {
        let is_right = |text: &&String| {
            let coins: Vec<&str> = text.split('+').collect();
            coins.iter().all(|coin| ["2", "3", "5"].contains(coin))
                && coins.is_sorted()
                && coins.iter().map(|coin| coin.parse::<usize>().unwrap()).sum::<usize>() == 10
        };
        let all = strings("+235", 1..=9);
        let mut brute: Vec<String> = all.iter().filter(is_right).cloned().collect();
        brute.sort();
        assert_eq!(answers("change", "m10|2,3,5"), brute);
        // By the recurrence over coins.
        let mut ways = [0_usize; 31];
        ways[0] = 1;
        for coin in [1, 2, 5, 7] {
            (coin..=30).for_each(|amount| ways[amount] += ways[amount - coin]);
        }
        assert_eq!(answers("change", "m30|1,2,5,7").len(), ways[30]);
    }
}
