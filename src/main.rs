//! The `tealight` binary.

fn main() -> std::process::ExitCode {
    tealight::cli::main()
}
