//! Untrusted bytes of the kind `weights`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
