//! Compiles the C twin of the kernels, where the feature `emulated` asks for it.

#[cfg(feature = "emulated")]
#[path = "src/sizes.rs"]
mod sizes;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=src/sizes.rs");
    #[cfg(feature = "emulated")]
    sizes::ALL
        .iter()
        .fold(&mut cc::Build::new(), |build, (name, value)| {
            build.define(name, value.to_string().as_str())
        })
        .file("kernels/emulated.c")
        .opt_level(2)
        .flag_if_supported("-ffp-contract=off")
        .flag_if_supported("-Wno-unused-parameter")
        .compile("tealight_kernels");
}
