//! Untrusted bytes of the kind `engine`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
