//! Untrusted bytes of the kind `download`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
