//! `change`: pay an amount in coins.
//!
//! Statement `m17,5|2,3,5`: pay 17 in at most five coins; answer `2+5+5+5`: coins in ascending order, each as often
//! as you like.

use super::{InstanceRng, Knob, Task, graph};

/// Coins of 1 to 9, ascending, an amount, and how many coins it may take.
pub(super) struct Change {
    amount: usize,
    most: usize,
    coins: Vec<usize>,
}

/// Largest amount that is read, and most coins.
const MAX_AMOUNT: usize = 60;
const MAX_COINS: usize = 12;
/// Smallest amount, and fewest coins, that are drawn.
const LEAST: (usize, usize) = (8, 4);

impl Task for Change {
    const NAME: &'static str = "change";
    const ABOUT: &'static str =
        "pay the amount in the given coins, smallest first, with at most so many coins";
    const TAG: char = 'm';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "kinds of coins", default: 4, range: (2, 8) },
        Knob { letter: 'm', about: "largest amount", default: 24, range: (10, 40) },
        Knob { letter: 'c', about: "most coins", default: 7, range: (4, MAX_COINS) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [kinds, largest, most] = *knobs else { return None };
        let coins = draw.choose(kinds, (1..=9).collect())?;
        let (amount, most) = (draw.within(LEAST.0, largest), draw.within(LEAST.1, most));
        Some(Self { amount, most, coins })
    }

    fn read(statement: &str) -> Option<Self> {
        let (bounds, coins) = statement.split_once('|')?;
        let (amount, most) = bounds.split_once(',')?;
        let coins: Vec<usize> =
            coins.split(',').map(|coin| graph::number(coin, 1, 9)).collect::<Option<_>>()?;
        let amount = graph::number(amount, 1, MAX_AMOUNT)?;
        let most = graph::number(most, 1, MAX_COINS)?;
        coins.is_sorted_by(|a, b| a < b).then_some(Self { amount, most, coins })
    }

    fn statement(&self) -> String {
        let coins: Vec<String> = self.coins.iter().map(usize::to_string).collect();
        format!("{},{}|{}", self.amount, self.most, coins.join(","))
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
        if last >= 2 && last.is_multiple_of(2) && prefix[last] < prefix[last - 2] {
            return Err("has a coin after a larger one");
        }
        let paid: usize = prefix.iter().step_by(2).map(|coin| usize::from(*coin - b'0')).sum();
        match paid.cmp(&self.amount) {
            std::cmp::Ordering::Less if last / 2 + 1 >= self.most => Err("needs more coins"),
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
                && coins.len() <= 4
                && coins.iter().map(|coin| coin.parse::<usize>().unwrap()).sum::<usize>() == 10
        };
        let all = strings("+235", 1..=9);
        let mut brute: Vec<String> = all.iter().filter(is_right).cloned().collect();
        brute.sort();
        assert_eq!(answers("change", "m10,4|2,3,5"), brute);
        assert!(brute.len() > 1);
        // By the recurrence over coins, where the bound does not bind.
        let mut ways = [0_usize; 13];
        ways[0] = 1;
        for coin in [1, 2, 5, 7] {
            (coin..=12).for_each(|amount| ways[amount] += ways[amount - coin]);
        }
        assert_eq!(answers("change", "m12,12|1,2,5,7").len(), ways[12]);
    }
}
