//! Nodes `a` to `h` and lists of pairs of them: `ab,ac,bd`.

pub(super) const MAX_NODES: usize = 8;

pub(super) fn letter(node: usize) -> char {
    (b'a' + node as u8) as char
}

/// The node of a letter, if there are so many.
pub(super) fn node(letter: u8, nodes: usize) -> Option<usize> {
    letter.checked_sub(b'a').map(usize::from).filter(|node| *node < nodes)
}

/// The letters of so many nodes.
pub(super) fn letters(nodes: usize) -> Vec<u8> {
    (b'a'..).take(nodes).collect()
}

/// Every pair of nodes, the first before the second.
pub(super) fn pairs(nodes: usize) -> Vec<(usize, usize)> {
    (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect()
}

/// Pairs as text; `between` parts the two nodes.
pub(super) fn written(pairs: &[(usize, usize)], between: &str) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(a, b)| format!("{}{between}{}", letter(*a), letter(*b))).collect();
    pairs.join(",")
}

/// Reads pairs of different nodes; `None` for any other text.
pub(super) fn read(text: &str, between: &str, nodes: usize) -> Option<Vec<(usize, usize)>> {
    let pair = |text: &str| {
        let bytes = text.as_bytes();
        let (first, last) = (node(*bytes.first()?, nodes)?, node(*bytes.last()?, nodes)?);
        let is_pair =
            bytes.len() == 2 + between.len() && &bytes[1..=between.len()] == between.as_bytes();
        (is_pair && first != last).then_some((first, last))
    };
    text.split(',').map(pair).collect()
}

/// The node that a one-letter text names.
pub(super) fn single(text: &str, nodes: usize) -> Option<usize> {
    let [letter] = text.as_bytes() else { return None };
    node(*letter, nodes)
}

/// Reads a number of `least..=most` without a sign or leading zeros.
pub(super) fn number(text: &str, least: usize, most: usize) -> Option<usize> {
    let has_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = has_digits && (text == "0" || !text.starts_with('0'));
    let value = text.parse().ok().filter(|_| is_plain && text.len() <= 4)?;
    (least..=most).contains(&value).then_some(value)
}
