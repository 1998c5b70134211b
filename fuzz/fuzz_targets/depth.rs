//! Untrusted bytes of the kind `depth`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
