//! An allocator for small values and one for large ones.

use std::alloc::{GlobalAlloc, Layout};

/// Bytes from which a value is large.
const LARGE: usize = 128 << 10;

/// Bytes from which glibc asks the kernel for a value's memory, and gives it back with the value.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED: usize = 4 << 20;

/// Has glibc give back the memory of each very large value, as long as the process lives. By itself glibc takes the
/// size of the largest value that was freed, up to 32 MiB, for its limit. Smaller ones then share a heap, whose holes
/// between values that stay are memory that no plan counts: .64 of 5.21 GB after four steps of SmolLM2-135M in
/// bfloat16. A limit of 128 KiB saves .1 GB more, and takes a twentieth of a rollout's time for fresh pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "settings of the C library")]
pub fn return_large_values() {
    use std::ffi::c_int;

    /// `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of malloc.h.
    const MMAP_THRESHOLD: c_int = -3;
    const TRIM_THRESHOLD: c_int = -1;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: it takes any numbers, and refuses those that it does not know.
    unsafe {
        mallopt(MMAP_THRESHOLD, RETURNED as c_int);
        // A fixed limit would fix this one too, at 128 KiB: the end of the heap would go and come all the time.
        mallopt(TRIM_THRESHOLD, 16 * RETURNED as c_int);
    }
}

/// Other C libraries have no such limit to set.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_values() {}

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

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn freed_large_values_leave_no_holes() {
        const COUNT: usize = 32;
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("readable");
            let pages = pages.split(' ').nth(1).expect("a number").parse::<usize>();
            pages.expect("a number") * 4096
        };
        let values = |mib: usize| vec![1u8; mib << 20];
        return_large_values();
        // From here on glibc would put values of up to 16 MiB on its heap.
        drop(std::hint::black_box(values(16)));
        let mut all: Vec<Vec<u8>> = (0..COUNT).map(|_| values(8)).collect();
        let before = resident();
        all.iter_mut().step_by(2).for_each(|value| *value = Vec::new());
        let freed = before.saturating_sub(resident());
        assert!(freed > (COUNT / 4) << 20, "{freed} bytes went back");
    }

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
