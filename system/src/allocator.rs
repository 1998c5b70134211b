//! An allocator for small values and one for large ones.

use std::alloc::{GlobalAlloc, Layout};

/// Bytes from which a value is large: where glibc begins to ask the kernel for each.
const LARGE: usize = 128 << 10;

/// Small values by one allocator, large ones by another.
///
/// mimalloc is fast at small values of several threads, of which `grade` makes millions. Large ones it keeps for later,
/// a ninth of a training step's memory, which the plan of a run does not count.
pub struct BySize<S, L> {
    /// For less than 128 KiB.
    pub small: S,
    /// For the rest.
    pub large: L,
}

// SAFETY: every call goes to one of the allocators as it is, and a value's size, which its layout has, says which.
#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
unsafe impl<S: GlobalAlloc, L: GlobalAlloc> GlobalAlloc for BySize<S, L> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of the allocator below.
        unsafe {
            if layout.size() < LARGE { self.small.alloc(layout) } else { self.large.alloc(layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            match layout.size() < LARGE {
                true => self.small.alloc_zeroed(layout),
                false => self.large.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            match layout.size() < LARGE {
                true => self.small.dealloc(at, layout),
                false => self.large.dealloc(at, layout),
            }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; a value that becomes small or large is copied as far as both sizes go. The new size,
        // rounded up to the alignment, is one that the caller promises to be valid.
        unsafe {
            match (layout.size() < LARGE, size < LARGE) {
                (true, true) => self.small.realloc(at, layout, size),
                (false, false) => self.large.realloc(at, layout, size),
                _ => {
                    let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                    if !new.is_null() {
                        std::ptr::copy_nonoverlapping(at, new, layout.size().min(size));
                        self.dealloc(at, layout);
                    }
                    new
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "an allocator is called")]
    fn values_survive_growth_and_shrinking_across_the_limit() {
        let allocator = BySize { small: System, large: System };
        let layout = |size: usize| Layout::from_size_align(size, 64).expect("a layout");
        // SAFETY: every value is given back with the layout that it has.
        unsafe {
            let mut at = allocator.alloc_zeroed(layout(1000));
            at.add(999).write(7);
            for (from, to) in [(1000, LARGE), (LARGE, 3 * LARGE), (3 * LARGE, LARGE - 1)] {
                at = allocator.realloc(at, layout(from), to);
                assert!(!at.is_null() && at.addr().is_multiple_of(64));
                assert_eq!((at.read(), at.add(999).read()), (0, 7));
            }
            allocator.dealloc(at, layout(LARGE - 1));
        }
    }
}
