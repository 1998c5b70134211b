//! Launches by `--device emulated` and in tests. `TEALIGHT_EMULATION` names the order of a group's threads: `plain`,
//! the default, or `backward` and `shuffled`, which show a race that the first order hides.
//!
//! `TEALIGHT_EMULATED_FAULT` names a kernel that is to be wrong, as `logp_f32`, for tests of what notices; `graph`
//! leaves the first launch of every graph out.

use std::ffi::c_int;
use std::sync::OnceLock;

use candle_core::{Result, bail};

use crate::emulated::{plain, run_by};
use crate::sizes::BLOCK;
use crate::{Call, Params};

#[allow(unsafe_code)]
// SAFETY: the signature is that of `kernels/emulated.c`.
unsafe extern "C" {
    fn tealight_emulate_ordered(
        order: *const c_int,
        name: *const std::ffi::c_char,
        buffers: *const *mut std::ffi::c_void,
        params: *const Params,
        groups: c_int,
    ) -> c_int;
}

/// Runs a kernel as the environment asks.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    static ORDER: OnceLock<std::result::Result<Option<Order>, String>> = OnceLock::new();
    let read = || {
        let name = std::env::var("TEALIGHT_EMULATION").unwrap_or_default();
        named(&name).map_err(|error| error.to_string())
    };
    let order = match ORDER.get_or_init(read) {
        Ok(order) => order.as_ref(),
        Err(error) => bail!("{error}"),
    };
    run_by(call, is_faulty(&call.name), |launch| match order {
        None => plain(launch),
        // SAFETY: as for `plain`; the order has every thread of a group.
        #[allow(unsafe_code)]
        Some(order) => unsafe {
            tealight_emulate_ordered(
                order.as_ptr(),
                launch.name.as_ptr(),
                launch.buffers.as_ptr(),
                launch.params,
                launch.groups,
            )
        },
    })
}

/// Whether a kernel, or graphs, are to be wrong.
pub(crate) fn is_faulty(name: &str) -> bool {
    static FAULT: OnceLock<Option<String>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| std::env::var("TEALIGHT_EMULATED_FAULT").ok());
    fault.as_deref() == Some(name)
}

/// The threads of a group, as they take their turns.
type Order = [c_int; BLOCK];

/// The order of this name; none where they come as they are numbered.
fn named(name: &str) -> Result<Option<Order>> {
    let order = |permutation: fn(usize) -> usize| {
        Some(std::array::from_fn(|thread| (permutation(thread) % BLOCK) as c_int))
    };
    Ok(match name {
        "" | "plain" => None,
        "backward" => order(|thread| BLOCK - 1 - thread),
        // An odd factor reaches every thread of a power of two once.
        "shuffled" => order(|thread| thread * 97 + 31),
        _ => bail!("TEALIGHT_EMULATION={name}: choose plain, backward or shuffled"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_every_thread_once() {
        for name in ["backward", "shuffled"] {
            let mut order = named(name).expect("known").expect("an order");
            assert_ne!(order[0], 0);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(thread, at)| thread as c_int == *at));
        }
        assert!(named("sideways").is_err());
    }
}
