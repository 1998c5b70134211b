//! Untrusted bytes of the kind `batch`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
