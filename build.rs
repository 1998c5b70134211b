//! Tells the binary which revision it was built from, for the settings it records.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/refs/heads");
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let revision = match git {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => "unknown".into(),
    };
    println!("cargo::rustc-env=TEALIGHT_REVISION={}", revision.trim());
}
