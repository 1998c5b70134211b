//! Untrusted bytes of the kind `folder`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
