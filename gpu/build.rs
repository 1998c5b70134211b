//! Compiles the C twin of the kernels, where a feature asks for kernels: a device is held against it; and, with the
//! feature `emulated`, the same with the threads of a group in another order.

#[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
#[path = "src/sizes.rs"]
mod sizes;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=src/sizes.rs");
    #[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
    {
        twin().file("kernels/emulated.c").compile("tealight_kernels");
        if cfg!(feature = "emulated") {
            let mut ordered = twin();
            if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "msvc") {
                // For `_Thread_local`.
                ordered.std("c11");
            }
            ordered.define("ORDERED", None).file("kernels/emulated.c");
            ordered.compile("tealight_kernels_ordered");
        }
    }
}

/// A compiler that takes sizes from where Rust has them.
#[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
fn twin() -> cc::Build {
    let mut build = cc::Build::new();
    for (name, value) in sizes::ALL {
        build.define(name, value.to_string().as_str());
    }
    build
        .opt_level(2)
        .flag_if_supported("-ffp-contract=off")
        .flag_if_supported("-Wno-unused-parameter")
        // Variables that one thread of the loop over all threads sets.
        .flag_if_supported("-Wno-maybe-uninitialized");
    build
}
