//! Collections that are equal member by member: in order, or each with a partner of its own in the other.

use super::fuel::Fuel;
use super::tree::Answer;

/// Most members of sets that are matched.
pub(super) const MAX_MEMBERS: usize = 64;

/// Whether two answers are the same, whatever their kinds.
pub(super) type Equal = fn(&Answer, &Answer, &mut Fuel) -> bool;

/// Whether both have the same members in the same order.
pub(super) fn in_order(a: &[Answer], b: &[Answer], equal: Equal, fuel: &mut Fuel) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, fuel))
}

/// Whether each of the one has a partner of its own in the other. Equality of values is transitive, so taking the first
/// partner loses nothing.
pub(super) fn pair_up<T>(
    a: &[T],
    b: &[T],
    fuel: &mut Fuel,
    equal: impl Fn(&T, &T, &mut Fuel) -> bool,
) -> bool {
    // Each with each: beyond this, too much work.
    if (a.len() > MAX_MEMBERS || b.len() > MAX_MEMBERS) && fuel.spend(u32::MAX).is_none() {
        return false;
    }
    let (a, mut b) = (distinct(a, fuel, &equal), distinct(b, fuel, &equal));
    a.len() == b.len()
        && a.into_iter().all(|a| match b.iter().position(|b| equal(a, b, fuel)) {
            Some(at) => {
                b.swap_remove(at);
                true
            }
            None => false,
        })
}

/// The members, each once.
fn distinct<'a, T>(
    items: &'a [T],
    fuel: &mut Fuel,
    equal: &impl Fn(&T, &T, &mut Fuel) -> bool,
) -> Vec<&'a T> {
    let mut distinct: Vec<&T> = Vec::new();
    for item in items {
        if !distinct.iter().any(|known| equal(known, item, fuel)) {
            distinct.push(item);
        }
    }
    distinct
}
