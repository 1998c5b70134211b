//! How many connections an address has, so that one client does not take all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open connections by address.
#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection that is counted until it ends.
pub(super) struct Counted {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts a connection of `address`; none where the address has `most` already.
    pub(super) fn enter(&self, address: IpAddr, most: usize) -> Option<Counted> {
        let address = network(address);
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Counted { all: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// What counts as one address: of IPv6 a host has 2^64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_limit_and_others_are_not_affected() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = Addresses::default();
        let mut guards: Vec<_> =
            (0..3).map(|_| all.enter(address("10.0.0.1"), 3).expect("room")).collect();
        assert!(all.enter(address("10.0.0.1"), 3).is_none());
        assert!(all.enter(address("::ffff:10.0.0.1"), 3).is_none(), "the same address");
        assert!(all.enter(address("10.0.0.2"), 3).is_some());
        guards.pop();
        assert!(all.enter(address("10.0.0.1"), 3).is_some());
        let network = all.enter(address("2001:db8::1"), 1);
        assert!(all.enter(address("2001:db8::2"), 1).is_none(), "one network");
        assert!(all.enter(address("2001:db8:0:1::1"), 1).is_some());
        drop((guards, network));
        assert!(all.counts().is_empty());
    }
}
