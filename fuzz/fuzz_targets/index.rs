//! Untrusted bytes of the kind `index`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
