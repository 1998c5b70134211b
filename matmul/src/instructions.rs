//! The instruction set that this process computes with: the best that the processor has, or the one that
//! `TEALIGHT_SIMD` names. Every set gives the same bits, but for AMX with products of bfloat16.

use std::sync::OnceLock;

use pulp::Arch;

/// Names an instruction set to compute with.
pub const VARIABLE: &str = "TEALIGHT_SIMD";

/// Vector instructions with fused multiply-adds, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionSet {
    /// AVX-512 with AVX512-BF16, and AMX's tile registers for products of bfloat16, which they sum in an order of their
    /// own.
    Amx,
    /// AVX-512 (x86-64-v4): 32 registers of 16 values.
    Avx512,
    /// AVX2 with FMA (x86-64-v3): 16 registers of 8 values.
    Avx2,
    /// ARM's Advanced SIMD: 32 registers of 4 values.
    Neon,
    /// None in particular: fused multiply-adds are emulated in f64, to the same bits and slowly.
    Portable,
}

/// Rows and columns of a tile of a product, whose sums fill the registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileShape {
    /// Most rows of a tile.
    pub(crate) rows: usize,
    /// Columns, as many as a panel of the right operand has.
    pub(crate) columns: usize,
}

impl InstructionSet {
    /// All of them, the fastest first.
    pub const ALL: [Self; 5] = [Self::Amx, Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// Its name in [`VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Amx => "amx",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        self.arch().is_some()
    }

    /// The fastest that this processor has.
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|set| set.is_available()).unwrap_or(Self::Portable)
    }

    /// The one that [`VARIABLE`] names, or the best.
    ///
    /// # Errors
    /// Where the variable names no set, or one that this processor lacks.
    pub fn from_environment() -> Result<Self, String> {
        let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
            return Ok(Self::best());
        };
        // Only where they are named: that asks the kernel for AMX's registers.
        let available = || {
            let sets = Self::ALL.into_iter().filter(|set| set.is_available());
            sets.map(Self::name).collect::<Vec<_>>().join(", ")
        };
        match Self::ALL.into_iter().find(|set| name == set.name()) {
            Some(set) if set.is_available() => Ok(set),
            Some(set) => Err(format!(
                "{VARIABLE}={}: this processor lacks these instructions (available here: {})",
                set.name(),
                available()
            )),
            None => Err(format!(
                "{VARIABLE}={}: unknown instruction set (available here: {})",
                name.to_string_lossy().escape_debug(),
                available()
            )),
        }
    }

    /// The set of this process, decided at the first call.
    ///
    /// # Panics
    /// Where [`VARIABLE`] is not valid; a program asks [`Self::from_environment`] first.
    pub fn in_use() -> Self {
        static IN_USE: OnceLock<InstructionSet> = OnceLock::new();
        *IN_USE.get_or_init(|| Self::from_environment().unwrap_or_else(|error| panic!("{error}")))
    }

    /// The dispatcher of `pulp` for this set; none where the processor lacks it.
    #[inline]
    pub fn arch(self) -> Option<Arch> {
        match self {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Self::Amx => Self::Avx512.arch().filter(|_| crate::kernel::amx::is_available()),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => pulp::x86::V4::try_new().map(Arch::V4),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => pulp::x86::V3::try_new().map(Arch::V3),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => pulp::aarch64::Neon::try_new().map(Arch::Neon),
            Self::Portable => Some(Arch::Scalar),
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            Self::Amx => None,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => None,
            #[cfg(not(target_arch = "aarch64"))]
            Self::Neon => None,
        }
    }

    /// Whether it has AVX-512.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn has_avx512(self) -> bool {
        matches!(self, Self::Amx | Self::Avx512)
    }

    pub(crate) const fn tile(self) -> TileShape {
        match self {
            // 28 of 32 registers hold sums.
            Self::Amx | Self::Avx512 => TileShape { rows: 14, columns: 32 },
            // 12 of 16, or 24 of 32.
            Self::Avx2 | Self::Neon => TileShape { rows: 6, columns: 16 },
            Self::Portable => TileShape { rows: 4, columns: 16 },
        }
    }
}

/// Runs `work` compiled for the instruction set in use. What `work` calls must be `#[inline(always)]` to take part, and
/// so must the closure itself: else it is compiled apart, for the least processor there is, where a fused
/// multiply-add is a call. Loops in it are `for`: the closure of a `for_each` is compiled apart wherever the compiler
/// does not inline it.
#[inline]
pub fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    arch().dispatch(work)
}

/// The dispatcher of `pulp` for the instruction set in use.
///
/// # Panics
/// See [`InstructionSet::in_use`].
#[inline]
pub fn arch() -> Arch {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    *ARCH.get_or_init(|| InstructionSet::in_use().arch().unwrap_or(Arch::Scalar))
}
