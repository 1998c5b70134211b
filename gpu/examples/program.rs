//! Prints the text of the kernels as a device's compiler gets it: `program cuda` or `program metal`.

use std::io::Write;

use tealight_gpu::{Dialect, program};

fn main() -> std::io::Result<()> {
    let dialect = match std::env::args().nth(1).as_deref() {
        Some("cuda") => Dialect::Cuda,
        Some("metal") => Dialect::Metal,
        _ => return Err(std::io::Error::other("which: cuda or metal?")),
    };
    std::io::stdout().write_all(program(dialect).as_bytes())
}
