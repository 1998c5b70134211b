//! `zebra`: who lives where, by clues, with one answer: a control.
//!
//! Statement `z3,2|a=e,b>d,f1`: three houses in a row, two groups of letters (abc and def), each letter of a group
//! in a house of its own. Clues: `a=e` one house, `a!e` two houses, `b>d` b further left than d, `a-f` next to each
//! other, `f1` in the first house. Answer `bac,fde`: the letters of each group, house by house.

use super::{InstanceRng, Knob, Task, graph};

/// A clue about the positions of letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clue {
    /// Two letters: `=`, `!`, `>` or `-`.
    Two(usize, u8, usize),
    /// A letter and its house, from 0.
    House(usize, usize),
}

/// Houses, groups and clues.
pub(super) struct Zebra {
    houses: usize,
    groups: usize,
    clues: Vec<Clue>,
}

const MAX_HOUSES: usize = 4;
const MAX_GROUPS: usize = 3;

impl Clue {
    /// Whether the clue holds, by the houses of letters; a letter without a house contradicts nothing.
    fn holds(self, house: impl Fn(usize) -> Option<usize>) -> bool {
        match self {
            Clue::House(letter, at) => house(letter).is_none_or(|own| own == at),
            Clue::Two(a, relation, b) => match (house(a), house(b)) {
                (Some(a), Some(b)) => match relation {
                    b'=' => a == b,
                    b'!' => a != b,
                    b'>' => a < b,
                    _ => a.abs_diff(b) == 1,
                },
                _ => true,
            },
        }
    }

    fn written(self) -> String {
        match self {
            Clue::House(letter, at) => format!("{}{}", graph::letter(letter), at + 1),
            Clue::Two(a, relation, b) => {
                format!("{}{}{}", graph::letter(a), relation as char, graph::letter(b))
            }
        }
    }

    fn read(text: &str, letters: usize, houses: usize) -> Option<Self> {
        match *text.as_bytes() {
            [letter, house @ b'1'..=b'9'] => {
                let house = Some(usize::from(house - b'1')).filter(|house| *house < houses)?;
                Some(Clue::House(graph::node(letter, letters)?, house))
            }
            [a, relation @ (b'=' | b'!' | b'>' | b'-'), b] => {
                Some(Clue::Two(graph::node(a, letters)?, relation, graph::node(b, letters)?))
            }
            _ => None,
        }
    }
}

impl Zebra {
    /// Every clue that is true of a solution, where `at[letter]` is a house.
    fn true_clues(&self, at: &[usize]) -> Vec<Clue> {
        let letters = 0..at.len();
        let mut clues: Vec<Clue> = letters.clone().map(|l| Clue::House(l, at[l])).collect();
        for (a, b) in letters.clone().flat_map(|a| letters.clone().map(move |b| (a, b))) {
            let is_other_group = a / self.houses != b / self.houses;
            for relation in *b"=!>-" {
                // Of one group two letters are never in one house; what is symmetric is said once.
                let is_stated = relation == b'>' || a < b && (is_other_group || relation == b'-');
                let clue = Clue::Two(a, relation, b);
                if a != b && is_stated && clue.holds(|letter| Some(at[letter])) {
                    clues.push(clue);
                }
            }
        }
        clues
    }
}

/// Every way to give the letters houses: `at[letter]` is a house, others of a group have others.
fn assignments(houses: usize, letters: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for letter in 0..letters {
        let group = letter / houses * houses;
        let further = |at: Vec<usize>| {
            let free = (0..houses).filter(|house| !at[group..].contains(house));
            free.map(|house| [at.as_slice(), &[house]].concat()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(further).collect();
    }
    all
}

impl Task for Zebra {
    const NAME: &'static str = "zebra";
    const ABOUT: &'static str =
        "who lives where, by clues: groups of letters, house by house; a control with one answer";
    const TAG: char = 'z';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "houses", default: 3, range: (2, MAX_HOUSES) },
        Knob { letter: 'g', about: "groups of letters", default: 2, range: (1, MAX_GROUPS) },
    ];
    const ANSWERS: (usize, usize) = (1, 1);

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [houses, groups] = *knobs else { return None };
        let mut zebra = Self { houses, groups, clues: Vec::new() };
        let at: Vec<usize> =
            (0..groups).flat_map(|_| draw.shuffled((0..houses).collect())).collect();
        let clues = zebra.true_clues(&at);
        let mut open = assignments(houses, houses * groups);
        // A clue is kept where it rules something out.
        for clue in draw.shuffled(clues) {
            let before = open.len();
            open.retain(|at| clue.holds(|letter| Some(at[letter])));
            if open.len() < before {
                zebra.clues.push(clue);
            }
        }
        zebra.clues.sort_unstable();
        Some(zebra)
    }

    fn read(statement: &str) -> Option<Self> {
        let (size, clues) = statement.split_once('|')?;
        let (houses, groups) = size.split_once(',')?;
        let houses = graph::number(houses, 1, MAX_HOUSES)?;
        let groups = graph::number(groups, 1, MAX_GROUPS)?;
        let clue = |text| Clue::read(text, houses * groups, houses);
        Some(Self { houses, groups, clues: clues.split(',').map(clue).collect::<Option<_>>()? })
    }

    fn statement(&self) -> String {
        let clues: Vec<String> = self.clues.iter().map(|clue| clue.written()).collect();
        format!("{},{}|{}", self.houses, self.groups, clues.join(","))
    }

    fn letters(&self) -> Vec<u8> {
        let letters = graph::letters(self.houses * self.groups);
        std::iter::once(b',').chain(letters).collect()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let last = prefix.len() - 1;
        let (group, place) = (last / (self.houses + 1), last % (self.houses + 1));
        if (prefix[last] == b',') != (place == self.houses) {
            return Err("is not groups of letters with a comma between them");
        }
        if prefix[last] == b',' {
            return Ok(false);
        }
        if usize::from(prefix[last] - b'a') / self.houses != group {
            return Err("has a letter of another group");
        }
        if prefix[..last].contains(&prefix[last]) {
            return Err("has a letter twice");
        }
        let house = |letter: usize| {
            let at = prefix.iter().position(|byte| *byte == graph::letter(letter) as u8)?;
            Some(at % (self.houses + 1))
        };
        match self.clues.iter().all(|clue| clue.holds(house)) {
            true => Ok(place + 1 == self.houses && group + 1 == self.groups),
            false => Err("contradicts a clue"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_orders_that_the_clues_allow() {
        let is_right = |text: &&String| {
            let is_whole = "abcdef,".chars().all(|letter| text.contains(letter));
            let Some((first, second)) = text.split_once(',') else { return false };
            let is_parted = first.len() == 3 && "abc".chars().all(|letter| first.contains(letter));
            let at = |letter: char| {
                let house = first.find(letter).or(second.find(letter));
                house.map_or(9, |house| house as i32)
            };
            is_whole && is_parted && at('a') == at('e') && at('b') < at('d') && at('c') != at('f')
        };
        let all = strings(",abcdef", 7..=7);
        let mut brute: Vec<String> = all.iter().filter(is_right).cloned().collect();
        brute.sort();
        assert_eq!(answers("zebra", "z3,2|a=e,b>d,c!f"), brute);
        assert!(!brute.is_empty());
        assert_eq!(answers("zebra", "z3,1|a3,b-a"), ["cba"]);
        assert_eq!(answers("zebra", "z4,3|a1").len(), 6 * 24 * 24);
    }
}
