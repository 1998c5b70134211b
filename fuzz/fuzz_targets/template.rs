//! Untrusted bytes of the kind `template`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
