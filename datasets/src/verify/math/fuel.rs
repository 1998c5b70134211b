//! The bound of a comparison, in units of work.

/// Work that may still be done; a verdict never depends on a clock.
#[derive(Debug)]
pub(super) struct Fuel {
    left: u32,
    /// Whether something was not done for want of it: what was compared then is not known to differ.
    pub(super) is_out: bool,
}

impl Fuel {
    pub(super) fn new(units: u32) -> Self {
        Self { left: units, is_out: false }
    }

    pub(super) fn spend(&mut self, units: u32) -> Option<()> {
        match self.left.checked_sub(units) {
            Some(left) => self.left = left,
            None => self.is_out = true,
        }
        (!self.is_out).then_some(())
    }
}
