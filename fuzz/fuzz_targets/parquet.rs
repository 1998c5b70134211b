//! Untrusted bytes of the kind `parquet`: see `tealight::fuzzing`.

#![no_main]

include!("../target.rs");
