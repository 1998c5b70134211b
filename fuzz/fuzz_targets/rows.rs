//! Untrusted bytes of the kind `rows`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
