//! Untrusted bytes of the kind `gguf`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
