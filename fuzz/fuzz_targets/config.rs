//! Untrusted bytes of the kind `config`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
