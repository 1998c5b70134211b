//! Untrusted bytes of the kind `sql`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
