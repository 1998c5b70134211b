//! Untrusted bytes of the kind `archive`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
