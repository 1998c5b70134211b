//! AMX's instructions for bfloat16 on processors without them: a handler of the signal of an illegal instruction
//! decodes them and does what Intel's manual says (Software Developer's Manual, volume 2, `LDTILECFG` to `TDPBF16PS`).
//! With `TEALIGHT_SIMD=amx` a test that has this module runs on such a processor too.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use tealight_matmul::{InstructionSet, VARIABLE, emulate_amx};

/// Runs before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let is_asked_for = std::env::var_os(VARIABLE).is_some_and(|name| name == "amx");
    // SAFETY: the handler does what the instructions do, and no other handles the signal.
    if is_asked_for && unsafe { install() } {
        // SAFETY: as above.
        unsafe { emulate_amx() };
    }
}

/// Whether the instructions are there, or are emulated in a process with `TEALIGHT_SIMD=amx`.
pub(crate) fn can_run() -> bool {
    InstructionSet::Amx.is_available() || InstructionSet::Avx512.is_available() && has_bfloat16()
}

fn has_bfloat16() -> bool {
    is_x86_feature_detected!("avx512bf16")
}

/// # Safety
/// Nothing else handles this signal.
unsafe fn install() -> bool {
    if !has_bfloat16() {
        return false;
    }
    // SAFETY: a handler with the arguments that SA_SIGINFO gives it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// A register: 16 rows of 64 bytes.
type Tile = [[u32; 16]; 16];

/// The registers of a thread, all configured alike or not at all.
struct Registers {
    tiles: [Tile; 8],
    is_configured: bool,
}

thread_local! {
    static REGISTERS: RefCell<Registers> =
        const { RefCell::new(Registers { tiles: [[[0; 16]; 16]; 8], is_configured: false }) };
}

extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives the handler a context, and the instruction that RIP points at is there.
    unsafe {
        let general = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = general[libc::REG_RIP as usize] as *const u8;
        match REGISTERS.with_borrow_mut(|registers| registers.step(at, general)) {
            Some(length) => general[libc::REG_RIP as usize] += length,
            // Another instruction: the signal does what it would.
            None => {
                libc::signal(libc::SIGILL, libc::SIG_DFL);
            }
        }
    }
}

/// Where the context has the general registers, by their numbers in an instruction.
const GENERAL: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// What a memory operand says: its address, the bytes of a row, and the bytes of the instruction after ModRM.
struct Operand {
    address: usize,
    stride: usize,
    length: usize,
}

impl Registers {
    /// Carries out the instruction at `at` and returns its length, or does nothing where it is not one of AMX.
    ///
    /// # Safety
    /// The instruction is there, and so is what it reads and writes.
    unsafe fn step(&mut self, at: *const u8, general: &[i64]) -> Option<i64> {
        // SAFETY: as the caller promises. VEX of three bytes, opcode, ModRM.
        let [escape, low, high, opcode, modrm] = unsafe { at.cast::<[u8; 5]>().read_unaligned() };
        // Map 0F 38, W and L zero.
        if escape != 0xc4 || low & 0x1f != 2 || high & 0x84 != 0 {
            return None;
        }
        let (prefix, third) = (high & 3, usize::from(!high >> 3 & 15));
        let (mode, first, second) =
            (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
        // SAFETY: as above.
        let operand = || unsafe { operand(at, low, modrm, general) };
        let length = match (opcode, prefix) {
            (0x49, 0) if mode == 3 && modrm == 0xc0 => {
                self.is_configured = false;
                0
            }
            (0x49, 0) if mode != 3 && first == 0 => {
                let operand = operand();
                // SAFETY: as above.
                unsafe { self.configure(operand.address as *const u8) };
                operand.length
            }
            (0x49, 3) if mode == 3 && second == 0 => {
                self.tiles[first] = [[0; 16]; 16];
                0
            }
            (0x4b, 2 | 3) if mode != 3 && second == 4 => {
                let operand = operand();
                for (row, words) in self.tiles[first].iter_mut().enumerate() {
                    let memory =
                        operand.address.wrapping_add(row * operand.stride) as *mut [u32; 16];
                    // SAFETY: as above.
                    unsafe {
                        match prefix {
                            3 => *words = memory.read_unaligned(),
                            _ => memory.write_unaligned(*words),
                        }
                    }
                }
                operand.length
            }
            (0x5c, 2) if mode == 3 => {
                assert!(first != second && second != third && first != third, "one tile twice");
                let [left, right] = [self.tiles[second], self.tiles[third]];
                // SAFETY: these instructions are there, or none would be emulated.
                unsafe { multiply(&left, &right, &mut self.tiles[first]) };
                0
            }
            _ => return None,
        };
        assert!(self.is_configured || modrm == 0xc0, "tiles that are not configured");
        Some(5 + length as i64)
    }

    /// # Safety
    /// 64 bytes are at `at`.
    unsafe fn configure(&mut self, at: *const u8) {
        // SAFETY: as the caller promises.
        let bytes = unsafe { at.cast::<[u8; 64]>().read_unaligned() };
        let mut whole = [0u8; 64];
        whole[0] = 1;
        for register in 0..8 {
            whole[16 + 2 * register] = 64;
            whole[48 + register] = 16;
        }
        assert_eq!(bytes, whole, "another configuration than all of eight tiles");
        *self = Self { tiles: [[[0; 16]; 16]; 8], is_configured: true };
    }
}

/// # Safety
/// The instruction is there, with a memory operand.
unsafe fn operand(at: *const u8, low: u8, modrm: u8, general: &[i64]) -> Operand {
    // SAFETY: as the caller promises.
    let byte = |place: usize| unsafe { at.add(place).read() };
    let value = |number: u8, extends: u8| {
        let number = usize::from(number) | if low & extends == 0 { 8 } else { 0 };
        general[GENERAL[number] as usize] as usize
    };
    let (mode, low_bits) = (modrm >> 6, modrm & 7);
    let (base, stride, has_sib) = match low_bits {
        4 => {
            let sib = byte(5);
            let index = value(sib >> 3 & 7, 0x40) << (sib >> 6);
            assert!(sib & 7 != 5 || mode != 0, "no base");
            (value(sib & 7, 0x20), if sib >> 3 & 7 == 4 && low & 0x40 != 0 { 0 } else { index }, 1)
        }
        5 if mode == 0 => {
            // SAFETY: as above. Relative to the next instruction.
            let distance = unsafe { at.add(5).cast::<i32>().read_unaligned() };
            let address = (at as usize).wrapping_add(9).wrapping_add_signed(distance as isize);
            return Operand { address, stride: 0, length: 4 };
        }
        _ => (value(low_bits, 0x20), 0, 0),
    };
    let (distance, length) = match mode {
        0 => (0, 0),
        1 => (isize::from(byte(5 + has_sib) as i8), 1),
        // SAFETY: as above.
        _ => (unsafe { at.add(5 + has_sib).cast::<i32>().read_unaligned() } as isize, 4),
    };
    Operand { address: base.wrapping_add_signed(distance), stride, length: has_sib + length }
}

/// `TDPBF16PS`: of every pair the product of the low halves to one sum and of the high halves to another, from zero and
/// rounded once each; both sums together, and that to what is there.
#[target_feature(enable = "avx512f,fma")]
fn multiply(left: &Tile, right: &Tile, sums: &mut Tile) {
    let low = |word: u32| f32::from_bits(word << 16);
    let high = |word: u32| f32::from_bits(word & 0xffff_0000);
    for (left, sums) in left.iter().zip(sums) {
        let (mut lows, mut highs) = ([0f32; 16], [0f32; 16]);
        for (pair, right) in left.iter().zip(right) {
            for column in 0..16 {
                let (a, b) = (low(*pair), low(right[column]));
                lows[column] = flushed(flushed(a).mul_add(flushed(b), lows[column]));
                let (a, b) = (high(*pair), high(right[column]));
                highs[column] = flushed(flushed(a).mul_add(flushed(b), highs[column]));
            }
        }
        for column in 0..16 {
            let both = flushed(lows[column] + highs[column]);
            sums[column] = flushed(flushed(f32::from_bits(sums[column])) + both).to_bits();
        }
    }
}

/// What is below the smallest normal number is zero.
#[inline]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}
