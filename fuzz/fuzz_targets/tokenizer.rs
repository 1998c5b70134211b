//! Untrusted bytes of the kind `tokenizer`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
