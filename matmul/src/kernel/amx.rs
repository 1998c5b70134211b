//! Tiles of up to 32 rows and 32 columns of bfloat16 in the tile registers of AMX.
//!
//! Of the eight registers, each of 16 rows of 64 bytes, four hold sums, two rows of the left operand and two columns of
//! the right one.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::OutputTile;
use crate::InstructionSet;
use crate::bfloat16::TILE;

/// Columns of a panel: two tiles.
pub(super) const COLUMNS: usize = 2 * TILE;
const _: () = assert!(COLUMNS == InstructionSet::Amx.tile().columns);

/// How far ahead of the columns in hand memory is asked for, in bytes; see AVX-512's.
const AHEAD: usize = 1 << 15;

/// Whether a test emulates the instructions.
static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// Takes AMX for available where the processor lacks it or the kernel refuses it, if nobody has asked before.
///
/// # Safety
/// The caller has seen to it that the instructions are carried out all the same.
pub unsafe fn emulate_amx() {
    IS_EMULATED.store(true, Ordering::Relaxed);
}

/// Whether the processor has AMX for bfloat16, with AVX512-BF16, and the kernel lets this process have its registers.
pub(crate) fn is_available() -> bool {
    static IS_AVAILABLE: OnceLock<bool> = OnceLock::new();
    *IS_AVAILABLE.get_or_init(|| {
        let is_native = || has_tiles() && is_permitted();
        is_x86_feature_detected!("avx512bf16")
            && (is_native() || IS_EMULATED.load(Ordering::Relaxed))
    })
}

/// Whether the processor has the instructions, and the kernel keeps their registers.
fn has_tiles() -> bool {
    const BFLOAT16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    /// The registers, and what configures them.
    const STATE: u64 = 0b11 << 17;
    /// The states that the kernel keeps.
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: the instruction is there.
        unsafe { _xgetbv(0) }
    }

    // A processor with AVX-512 has leaf 7, and its kernel has switched `XGETBV` on.
    let features = __cpuid_count(7, 0).edx;
    // SAFETY: as above.
    features & BFLOAT16 != 0 && features & TILES != 0 && unsafe { xcr0() } & STATE == STATE
}

/// Asks the kernel for the registers, which are 8 KiB more to save for each thread.
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: a call that touches no memory of ours; a kernel that does not know it says so.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// How the registers are configured: the operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight with 16 rows of 64 bytes.
static WHOLE: Configuration = {
    let mut configuration = Configuration {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    let mut register = 0;
    while register < 8 {
        configuration.row_bytes[register] = 64;
        configuration.rows[register] = TILE as u8;
        register += 1;
    }
    configuration
};

/// This thread's tile registers, configured while it lives. It stays on its thread, which has no other meanwhile: the
/// first to end takes the registers from both.
pub(super) struct TileRegisters(PhantomData<*const ()>);

impl TileRegisters {
    /// # Panics
    /// Where the processor has none.
    pub(super) fn new() -> Self {
        assert!(is_available());
        // SAFETY: the instruction is there, and the configuration is one that it knows.
        unsafe {
            asm!(
                "ldtilecfg [{}]", in(reg) &raw const WHOLE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _,
                out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly),
            );
        }
        Self(PhantomData)
    }
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        // SAFETY: the instruction is there. Registers in use are more for the kernel to save.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _,
                out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, nomem),
            );
        }
    }
}

/// Values of a tile that lies partly outside of the result.
#[repr(align(64))]
struct Aside(MaybeUninit<[f32; COLUMNS * COLUMNS]>);

/// Zeros that sums begin with, in every row.
#[repr(align(64))]
struct Zeros([f32; COLUMNS]);

static ZEROS: Zeros = Zeros([0.0; COLUMNS]);

/// Computes the place, or adds to it: `left` and, for rows past the first 16, `second` in tiles `[rows][pairs]`, times
/// `right`, `[pairs][columns]`.
///
/// # Safety
/// The registers are configured; `place` is valid memory that no one else has.
///
/// # Panics
/// Where the operands are of other lengths.
pub(super) unsafe fn tile(left: &[f32], second: Option<&[f32]>, right: &[f32], place: OutputTile) {
    let count = right.len() / (TILE * COLUMNS);
    assert!(count > 0 && right.len() == count * TILE * COLUMNS);
    let rows = if second.is_some() { 2 * TILE } else { TILE };
    assert!(place.rows <= rows && place.columns <= COLUMNS);
    for left in [Some(left), second].into_iter().flatten() {
        assert_eq!(left.len(), count * TILE * TILE, "tiles of one depth");
    }
    let mut aside = Aside(MaybeUninit::uninit());
    let is_whole = place.rows == rows && place.columns == COLUMNS;
    let (to, stride) = match is_whole {
        true => (place.start, place.stride),
        false => (aside.0.as_mut_ptr().cast(), COLUMNS),
    };
    if !is_whole && place.adds {
        aside.0.write([0.0; COLUMNS * COLUMNS]);
        // SAFETY: as the caller promises.
        unsafe { copy((place.start, place.stride), (to, stride), &place) };
    }
    // Without sums to add to, every row begins with the same zeros.
    let (from, step) = match place.adds {
        true => (to.cast_const(), 4 * stride),
        false => (ZEROS.0.as_ptr(), 0),
    };
    let sums = Sums { from, step, to, stride: 4 * stride };
    // SAFETY: the operands are as long as `count` says, and the sums have `rows` rows of all columns.
    unsafe {
        match second {
            Some(second) => two(left, second, right, count, sums),
            None => one(left, right, count, sums),
        }
    }
    if !is_whole {
        // SAFETY: as the caller promises.
        unsafe { copy((to, stride), (place.start, place.stride), &place) };
    }
}

/// Copies what of a tile lies within the result.
///
/// # Safety
/// So many rows and columns are there, at both.
unsafe fn copy(
    (from, step): (*const f32, usize),
    (to, stride): (*mut f32, usize),
    place: &OutputTile,
) {
    for row in 0..place.rows {
        // SAFETY: as the caller promises.
        unsafe {
            let (from, to) = (from.add(row * step), to.add(row * stride));
            std::ptr::copy_nonoverlapping(from, to, place.columns);
        }
    }
}

/// Where sums begin and where they go, with the bytes from one row to the next.
struct Sums {
    from: *const f32,
    step: usize,
    to: *mut f32,
    stride: usize,
}

/// Sums of 16 rows and 32 columns, over `count` tiles along k: `from` there and back `to`. For 16 rows more come what
/// loads their sums, what a tile along k adds to them, what stores them, and the operands of those lines.
macro_rules! sums {
    (
        ($left:expr, $right:expr, $count:expr, $sums:expr),
        [$($load:literal),*], [$($add:literal),*], [$($store:literal),*], $($operands:tt)*
    ) => {
        asm!(
            "tileloadd tmm0, [{from} + {step}*1]",
            "tileloadd tmm1, [{from} + {step}*1 + 64]",
            $($load,)*
            "2:",
            "tileloadd tmm4, [{left} + {inner}*1]",
            "tileloadd tmm6, [{right} + {outer}*1]",
            "tileloadd tmm7, [{right} + {outer}*1 + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            $($add,)*
            ".set .Lline, 0",
            ".rept 32",
            "prefetcht1 [{right} + {ahead} + .Lline]",
            ".set .Lline, .Lline + 64",
            ".endr",
            "add {left}, 1024",
            "add {right}, 2048",
            "dec {count}",
            "jnz 2b",
            "tilestored [{to} + {stride}*1], tmm0",
            "tilestored [{to} + {stride}*1 + 64], tmm1",
            $($store,)*
            from = inout(reg) $sums.from => _,
            step = in(reg) $sums.step,
            to = inout(reg) $sums.to => _,
            stride = in(reg) $sums.stride,
            left = inout(reg) $left.as_ptr() => _,
            right = inout(reg) $right.as_ptr() => _,
            count = inout(reg) $count => _,
            inner = in(reg) 64usize,
            outer = in(reg) 128usize,
            ahead = const AHEAD,
            $($operands)*
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Sums of 16 rows.
///
/// # Safety
/// The registers are configured, the operands have `count` tiles, and the sums 16 rows of 32 columns.
unsafe fn one(left: &[f32], right: &[f32], count: usize, sums: Sums) {
    // SAFETY: as the caller promises; what is asked for ahead need not be there.
    unsafe { sums!((left, right, count, sums), [], [], [],) }
}

/// Sums of 32 rows.
///
/// # Safety
/// As of [`one`], with 32 rows.
unsafe fn two(left: &[f32], second: &[f32], right: &[f32], count: usize, sums: Sums) {
    // SAFETY: as the caller promises; what is asked for ahead need not be there.
    unsafe {
        sums!(
            (left, right, count, sums),
            [
                "lea {from}, [{from} + {step}*8]",
                "lea {from}, [{from} + {step}*8]",
                "tileloadd tmm2, [{from} + {step}*1]",
                "tileloadd tmm3, [{from} + {step}*1 + 64]"
            ],
            [
                "tileloadd tmm5, [{second} + {inner}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {second}, 1024"
            ],
            [
                "lea {to}, [{to} + {stride}*8]",
                "lea {to}, [{to} + {stride}*8]",
                "tilestored [{to} + {stride}*1], tmm2",
                "tilestored [{to} + {stride}*1 + 64], tmm3"
            ],
            second = inout(reg) second.as_ptr() => _,
            out("tmm2") _, out("tmm3") _, out("tmm5") _,
        );
    }
}
