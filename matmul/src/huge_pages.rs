//! Memory for values of the size of weights.

/// Least bytes that are worth a call to the kernel. Less than a large page: weights stand beside each other and share
/// them.
const LEAST: usize = 1 << 18;

/// Zeros that will all be written to soon, in the large pages of the kernel where it has them: memory in its small ones
/// takes longer to come.
pub fn huge_page_zeros(count: usize) -> Vec<f32> {
    let mut values = vec![0f32; count];
    if count * size_of::<f32>() >= LEAST {
        advise(&mut values);
    }
    values
}

#[cfg(target_os = "linux")]
fn advise(values: &mut [f32]) {
    use rustix::mm::{Advice, madvise};

    let bytes = values.as_mut_ptr_range();
    let (start, end) = (bytes.start.addr(), bytes.end.addr());
    let page = rustix::param::page_size();
    // The allocator's own words before the values too, or they would part each weight from its neighbour.
    let first = start / page * page;
    let begin = bytes.start.with_addr(first).cast();
    // SAFETY: pages that are there. The advice changes how they are held, not what is in them; a kernel that does not
    // know it says so, and all is as before.
    let _ = unsafe { madvise(begin, end.next_multiple_of(page) - first, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_values: &mut [f32]) {}
