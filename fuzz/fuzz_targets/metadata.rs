//! Untrusted bytes of the kind `metadata`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
