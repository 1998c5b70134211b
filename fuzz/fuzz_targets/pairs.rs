//! Untrusted bytes of the kind `pairs`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
