//! Compiles the C twin of the kernels, where a feature asks for kernels: a device is held against it; and, with the
//! feature `emulated`, the other ways to run them without a GPU.

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
            others();
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

#[cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]
fn others() {
    let mut ordered = twin();
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "msvc") {
        // For `_Thread_local`.
        ordered.std("c11");
    }
    ordered.define("ORDERED", None).file("kernels/emulated.c").compile("tealight_kernels_ordered");
    // Apple deprecates the contexts that fibers are made of.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        let mut build = twin();
        build.cpp(true).cpp_link_stdlib(None).flag_if_supported("-fno-exceptions");
        build.flag_if_supported("-fno-rtti").flag_if_supported("-fno-threadsafe-statics");
        build.flag_if_supported("-Wno-unused-function").flag_if_supported("-Wno-unused-variable");
        // CUDA's compiler is told which loops to unroll.
        build.flag_if_supported("-Wno-unknown-pragmas");
        build.file("kernels/fibers.cc").compile("tealight_kernels_fibers");
    }
    if cfg!(feature = "opencl") {
        twin().file("kernels/opencl.c").compile("tealight_kernels_opencl");
        println!("cargo::rustc-link-lib=OpenCL");
    }
}
