//! Compiles the C twin of the kernels, where the feature `emulated` asks for it.

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    #[cfg(feature = "emulated")]
    cc::Build::new()
        .file("kernels/emulated.c")
        .opt_level(2)
        .flag_if_supported("-ffp-contract=off")
        .flag_if_supported("-Wno-unused-parameter")
        .compile("tealight_kernels");
}
