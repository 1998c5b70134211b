//! Untrusted bytes of the kind `completions`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
