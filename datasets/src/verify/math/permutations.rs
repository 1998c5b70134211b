//! Permutations.

/// A permutation as its cycles, `(1 3 2)(4 5)`, each from its smallest number on, in order.
pub(super) fn cycles(text: &str) -> Option<Vec<Vec<u32>>> {
    let may_be = text.starts_with('(')
        && text.ends_with(')')
        && (text.contains(' ') || text.contains("\\,"));
    may_be.then_some(())?;
    let text = ["\\,", "\\;", "\\ ", "~"]
        .iter()
        .fold(text.to_owned(), |text, space| text.replace(space, " "));
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let cycle = |group: &str| {
        let numbers =
            group.split_whitespace().map(|word| word.parse().ok().filter(|number| *number < 100));
        let mut numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
        let least = (0..numbers.len()).min_by_key(|at| numbers[*at])?;
        numbers.rotate_left(least);
        (numbers.len() > 1).then_some(numbers)
    };
    let mut cycles: Vec<_> = inner
        .split(')')
        .map(|part| cycle(part.trim_start_matches([' ', '('])))
        .collect::<Option<_>>()?;
    cycles.sort();
    Some(cycles)
}
