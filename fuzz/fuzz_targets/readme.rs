//! Untrusted bytes of the kind `readme`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
