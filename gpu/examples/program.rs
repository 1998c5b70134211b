//! Prints the text of the kernels as a device's compiler gets it: `program cuda`, `opencl` or `metal`. With the name
//! of a kernel and a number, that barrier of the kernel, counted from 0, is left out: what checks for races must find
//! it.

use std::io::Write;

use tealight_gpu::{Dialect, program};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dialect = match arguments.first().map(String::as_str) {
        Some("cuda") => Dialect::Cuda,
        Some("opencl") => Dialect::OpenCl,
        Some("metal") => Dialect::Metal,
        _ => return Err(std::io::Error::other("which: cuda, opencl or metal?")),
    };
    let text = match arguments.get(1..3) {
        Some([kernel, barrier]) => {
            let barrier = barrier.parse().map_err(std::io::Error::other)?;
            without(&program(dialect), kernel, barrier)?
        }
        _ => program(dialect),
    };
    std::io::stdout().write_all(text.as_bytes())
}

/// The text with a stretch of a kernel that ends without waiting, in every type that the kernel is there for.
fn without(text: &str, kernel: &str, barrier: usize) -> std::io::Result<String> {
    let (mut lines, mut ends, mut removed) = (Vec::new(), None, 0);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("KERNEL(") {
            ends = name.starts_with(&format!("{kernel})")).then_some(0);
        }
        match &mut ends {
            Some(count) if line.trim() == "END" => {
                lines.push(if *count == barrier { "}" } else { line });
                removed += usize::from(*count == barrier);
                *count += 1;
            }
            _ => lines.push(line),
        }
    }
    match removed {
        0 => Err(std::io::Error::other(format!("{kernel} has no barrier {barrier}"))),
        _ => Ok(lines.join("\n") + "\n"),
    }
}
