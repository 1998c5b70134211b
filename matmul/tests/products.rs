//! Products against sums in the defined order, whatever the layout and the other rows.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;

use std::process::Command;

use half::bf16;
use tealight_matmul::{
    BLOCK, BLOCK_BYTES, Blocks, InstructionSet, Matrix, Output, Packed, Quantized, Right, VARIABLE,
    multiply, multiply_each, product,
};

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) as f32 * 0.37).sin()).collect()
}

/// A matrix with so many columns, its columns one after the other.
fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    (0..values.len()).map(|i| values[i % rows * columns + i / rows]).collect()
}

/// The checksum of the products, on every processor without AMX.
const CHECKSUM: u64 = 10_288_614_031_475_054_701;

/// The same with AMX's order of sums, by the emulation.
const AMX_CHECKSUM: u64 = 17_629_997_253_691_637_228;

const SIZES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [1, 5, 33],
    [3, 896, 31],
    [14, 64, 32],
    [15, 65, 100],
    [16, 513, 128],
    [64, 192, 704],
    [100, 1030, 7],
    [257, 300, 65],
];

#[test]
fn block_products_equal_widened_products() {
    for [m, out, blocks] in [[1, 33, 1], [15, 100, 3], [40, 300, 9], [3, 700, 17]] {
        let inner = blocks * BLOCK;
        // Every byte, and scales of every size: the bits of 2^-7 up to 2^-4, with parts between.
        let bytes: Vec<u8> = (0..out * blocks * BLOCK_BYTES)
            .map(|i| match i % BLOCK_BYTES {
                0 => (i * 31 % 256) as u8,
                1 => 0x20 + (i * 7 % 12) as u8,
                _ => (i * 7919 % 256) as u8,
            })
            .collect();
        let narrow = Blocks::new(&bytes, out, inner);
        let mut wide = vec![0f32; out * inner];
        for (row, wide) in wide.chunks_exact_mut(inner).enumerate() {
            narrow.widen(row, 0, wide);
        }
        // The second byte of f16 has four bits of exponent and two of the fraction here.
        let block = &bytes[..BLOCK_BYTES];
        let bits = u16::from_le_bytes([block[0], block[1]]);
        let scale = 2f32.powi(i32::from(bits >> 10) - 15) * (1.0 + f32::from(bits & 1023) / 1024.0);
        for (wide, byte) in wide.iter().zip(&block[2..]) {
            assert_eq!(*wide, scale * f32::from(*byte as i8));
        }
        let matrix = Matrix::new(&wide, out, inner);
        let (x, grad) = (values(m * inner, 3), values(m * out, 4));
        let (x, grad) = (Matrix::new(&x, m, inner), Matrix::new(&grad, m, out));
        let pairs = [
            (x, Right::Blocks(narrow.transposed()), Right::Plain(matrix.transposed())),
            (grad, Right::Blocks(narrow), Right::Plain(matrix)),
        ];
        for (left, blocks, plain) in pairs {
            assert_eq!(product(left, blocks), product(left, plain));
        }
        let part = product(x, Right::Blocks(narrow.rows(7..20).transposed()));
        let whole = product(x, Right::Blocks(narrow.transposed()));
        for (part, whole) in part.chunks(13).zip(whole.chunks(out)) {
            assert_eq!(part, &whole[7..20]);
        }
    }
}

#[test]
fn products_add_to_columns_of_a_wider_matrix() {
    let (left, right) = (values(17 * 300, 5), values(300 * 40, 6));
    let (left, right) = (Matrix::new(&left, 17, 300), Matrix::new(&right, 300, 40));
    let right = Right::Plain(right);
    let alone = product(left, right);
    for parallel in [false, true] {
        let mut out = vec![2f32; 17 * 64];
        let data = &mut out[8..];
        multiply(left, right, Output { data, stride: 64, adds: true }, parallel);
        for (row, alone) in out.chunks(64).zip(alone.chunks(40)) {
            assert!(row[..8].iter().chain(&row[48..]).all(|x| *x == 2.0));
            for (x, y) in row[8..48].iter().zip(alone) {
                assert!((x - y - 2.0).abs() < 1e-5, "{x} {y}");
            }
        }
    }
}

/// Values from one row of each result to the next.
const STRIDES: [usize; 5] = [70, 40, 33, 1, 96];

fn with_outputs<'a>(rights: &[Right<'a>], out: &'a mut [Vec<f32>]) -> Vec<(Right<'a>, Output<'a>)> {
    let outs = out.iter_mut().zip(STRIDES).enumerate();
    let outs = outs.map(|(i, (data, stride))| Output { data, stride, adds: i % 2 == 0 });
    rights.iter().copied().zip(outs).collect()
}

#[test]
fn several_products_of_one_matrix_are_those_of_each_alone() {
    for [m, k] in [[1, 0], [0, 64], [3, 32], [33, 576], [130, 300]] {
        let (left, right) = (values(m * k, 7), values(k * 96, 8));
        let left = Matrix::new(&left, m, k);
        let part = |rows: usize| Matrix::new(&right[..rows * k], rows, k).transposed();
        let (packed, quantized) = (Packed::new(part(64)), Quantized::new(Right::Plain(part(40))));
        let rights = [
            Right::Packed(&packed),
            Right::Quantized(&quantized),
            Right::Plain(part(33)),
            Right::Plain(part(0)),
            Right::Plain(part(96)),
        ];
        for parallel in [false, true] {
            let mut alone = STRIDES.map(|stride| vec![2f32; m * stride]);
            let mut together = alone.clone();
            for (right, out) in with_outputs(&rights, &mut alone) {
                multiply(left, right, out, parallel);
            }
            multiply_each(left, with_outputs(&rights, &mut together), parallel);
            assert_eq!(together, alone, "{m} {k}");
        }
    }
}

/// So many rows that threads share rows, not columns: several stretches along k and groups of columns, and a left
/// operand in both layouts.
#[test]
fn products_of_many_rows_are_the_same_bits_on_one_thread_and_on_two() {
    // AMX may be emulated.
    let n = if InstructionSet::in_use() == InstructionSet::Amx { 70 } else { 700 };
    let (m, k) = (517, 1728);
    let (left, right) = (values(m * k, 9), values(k * n, 10));
    let half: Vec<bf16> = right.iter().map(|x| bf16::from_f32(*x)).collect();
    let plain = Matrix::new(&right, n, k).transposed();
    let packed = [Packed::new(plain), Packed::new(Right::Rounded(plain))];
    let rights = [
        Right::Packed(&packed[0]),
        Right::Plain(Matrix::new(&right[..k * 33], k, 33)),
        Right::Plain(plain),
        Right::Packed(&packed[1]),
        Right::Half(Matrix::new(&half, k, n)),
        Right::Rounded(plain),
    ];
    let results = [false, true].map(|is_added| {
        let outputs = || {
            [n, 40, n, n, n, n].map(|stride| vec![if is_added { 2f32 } else { 0.0 }; m * stride])
        };
        let compute = |left: Matrix<'_>, parallel: bool| {
            let mut out = outputs();
            let targets = out.iter_mut().zip([n, 40, n, n, n, n]);
            let targets = targets.map(|(data, stride)| Output { data, stride, adds: is_added });
            multiply_each(left, rights.into_iter().zip(targets), parallel);
            out
        };
        let threads = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
        let upright = Matrix::new(&left, m, k);
        let lying = Matrix::new(&left, k, m).transposed();
        threads.install(|| [upright, lying].map(|left| [compute(left, false), compute(left, true)]))
    });
    for [one, two] in results.iter().flatten() {
        assert_eq!(one, two);
    }
    // Threads that compute nothing would agree too.
    let [plain, added] = results.each_ref().map(|layouts| &layouts[0][1]);
    for (plain, added) in plain.iter().flatten().zip(added.iter().flatten()) {
        assert!((added - plain - 2.0).abs() < 1e-5 * (1.0 + plain.abs()), "{plain} {added}");
    }
    assert!(plain[5].iter().filter(|x| x.abs() > 1e-3).count() > m * n / 2);
}

#[test]
fn products_in_8_bits_are_near_and_do_not_depend_on_the_batch() {
    let (k, columns) = (150, 70);
    let wave = |count: usize, by: f32| (0..count).map(|i| (i as f32 * by).sin()).collect();
    let weight: Vec<f32> = wave(columns * k, 0.37);
    let right = Matrix::new(&weight, columns, k).transposed();
    let quantized = Quantized::new(Right::Plain(right));
    assert!(quantized.bytes() < weight.len() * 4 / 2, "{}", quantized.bytes());
    assert_eq!(quantized.bytes(), Quantized::bytes_for((k, columns)));
    let left: Vec<f32> = wave(40 * k, 0.91);
    let whole = product(Matrix::new(&left, 40, k), Right::Quantized(&quantized));
    let exact = product(Matrix::new(&left, 40, k), Right::Plain(right));
    // A rounded value is off by a 254th of the largest of its group at most, and errors add up as a walk does.
    for (found, exact) in whole.iter().zip(&exact) {
        assert!((found - exact).abs() < 0.3, "{found} is not near {exact}");
    }
    let apart: f32 = whole.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
    assert!((apart / whole.len() as f32).sqrt() < 0.05, "{apart}");
    for rows in [1, 2, 5, 7, 13] {
        let some = Matrix::new(&left[..rows * k], rows, k);
        assert_eq!(product(some, Right::Quantized(&quantized)), whole[..rows * columns]);
    }
    // Rounding what is rounded changes nothing: whole numbers with the largest at the end of the range.
    let integers: Vec<f32> = (0..columns * 64).map(|i| (i * 31 % 255) as f32 - 127.0).collect();
    let integers: Vec<f32> =
        integers.chunks(32).flat_map(|row| [&[127.0], &row[1..]].concat()).collect();
    let right = Matrix::new(&integers, columns, 64).transposed();
    let left = Matrix::new(&integers[..3 * 64], 3, 64);
    let found = product(left, Right::Quantized(&Quantized::new(Right::Plain(right))));
    assert_eq!(found, product(left, Right::Plain(right)));
}

#[test]
fn non_finite_values_stay_non_finite_in_8_bits() {
    let weight = vec![0.5f32; 32 * 80];
    let right = Quantized::new(Right::Plain(Matrix::new(&weight, 32, 80).transposed()));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut left = vec![1f32; 2 * 80];
        left[80 + 70] = bad;
        let found = product(Matrix::new(&left, 2, 80), Right::Quantized(&right));
        assert!(found[..32].iter().all(|x| (x - 40.0).abs() < 1e-3));
        assert!(found[32..].iter().all(|x| !x.is_finite()), "{bad}: {:?}", &found[32..]);
    }
    let nothing = Quantized::new(Right::Plain(Matrix::new(&[], 0, 4)));
    assert_eq!(product(Matrix::new(&[], 3, 0), Right::Quantized(&nothing)), [0.0; 12]);
}

/// A sum as the library defines it: fused multiply-adds from zero over each stretch of 256 values, added up in turn.
fn defined_sum(terms: impl Iterator<Item = (f32, f32)>) -> f32 {
    let terms: Vec<(f32, f32)> = terms.collect();
    let mut stretches = terms.chunks(256);
    let sum_of =
        |stretch: &[(f32, f32)]| stretch.iter().fold(0.0, |sum, (x, y)| x.mul_add(*y, sum));
    let first = stretches.next().map_or(0.0, sum_of);
    stretches.fold(first, |sum: f32, stretch| sum + sum_of(stretch))
}

/// The product of `left` and `right` by sums as `defined` takes them.
fn defined_product(
    [left, right]: [&[f32]; 2],
    [m, k, n]: [usize; 3],
    defined: impl Fn(&mut dyn Iterator<Item = (f32, f32)>) -> f32,
) -> Vec<f32> {
    let sum =
        |at: usize| defined(&mut (0..k).map(|i| (left[at / n * k + i], right[i * n + at % n])));
    (0..m * n).map(sum).collect()
}

#[test]
fn sums_follow_the_defined_order_in_every_layout_and_batch() {
    for [m, k, n] in SIZES {
        let (left, right) = (values(m * k, 9), values(k * n, 10));
        let (left_t, right_t) = (transposed(&left, k), transposed(&right, n));
        let rights = [Matrix::new(&right, k, n), Matrix::new(&right_t, n, k).transposed()];
        let defined = defined_product([&left, &right], [m, k, n], |terms| defined_sum(terms));
        for a in [Matrix::new(&left, m, k), Matrix::new(&left_t, k, m).transposed()] {
            for b in rights {
                assert_eq!(product(a, Right::Plain(b)), defined, "{m} {k} {n}");
                assert_eq!(product(a, Right::Packed(&Packed::new(b))), defined, "{m} {k} {n}");
            }
        }
        for rows in [1, m.div_ceil(2)] {
            let some = Matrix::new(&left[..rows * k], rows, k);
            assert_eq!(product(some, Right::Plain(rights[0])), defined[..rows * n]);
        }
    }
}

/// A sum of products of bfloat16 as the library defines it: of each pair the second place is added first. With AMX: of
/// each 16 pairs the sums of the first and of the second places together.
fn defined_bfloat16_sum(terms: impl Iterator<Item = (f32, f32)>) -> f32 {
    let near = |x: f32| bf16::from_f32(x).to_f32();
    let terms: Vec<(f32, f32)> = terms.map(|(x, y)| (near(x), near(y))).collect();
    if InstructionSet::in_use() == InstructionSet::Amx {
        let sum_of = |terms: &[(f32, f32)], first: usize| {
            let terms = terms.iter().skip(first).step_by(2);
            terms.fold(0f32, |sum, (x, y)| x.mul_add(*y, sum))
        };
        let tiles = terms.chunks(32).map(|tile| sum_of(tile, 0) + sum_of(tile, 1));
        return tiles.fold(0.0, |sum, tile| sum + tile);
    }
    defined_sum(terms.chunks(2).flat_map(|pair| pair.iter().rev().copied()))
}

#[test]
fn bfloat16_sums_follow_the_defined_order_in_every_layout() {
    for [m, k, n] in SIZES {
        let (left, right) = (values(m * k, 9), values(k * n, 10));
        let (left_t, right_t) = (transposed(&left, k), transposed(&right, n));
        let halves = |values: &[f32]| values.iter().map(|x| bf16::from_f32(*x)).collect();
        let (half, half_t): (Vec<bf16>, Vec<bf16>) = (halves(&right), halves(&right_t));
        let plain = [Matrix::new(&right, k, n), Matrix::new(&right_t, n, k).transposed()];
        let stored = [Matrix::new(&half, k, n), Matrix::new(&half_t, n, k).transposed()];
        let packed = plain.map(|right| Packed::new(Right::Rounded(right)));
        let lefts = [Matrix::new(&left, m, k), Matrix::new(&left_t, k, m).transposed()];
        let defined =
            defined_product([&left, &right], [m, k, n], |terms| defined_bfloat16_sum(terms));
        for a in lefts {
            for (index, plain) in plain.into_iter().enumerate() {
                assert_eq!(product(a, Right::Rounded(plain)), defined, "rounded, {m} {k} {n}");
                assert_eq!(product(a, Right::Half(stored[index])), defined, "half, {m} {k} {n}");
                assert_eq!(product(a, Right::Packed(&packed[index])), defined, "{m} {k} {n}");
            }
        }
        for rows in [1, m.div_ceil(2), m] {
            let some = Matrix::new(&left[..rows * k], rows, k);
            assert_eq!(product(some, Right::Packed(&packed[0])), defined[..rows * n]);
        }
    }
}

#[test]
fn non_finite_values_stay_non_finite_in_bfloat16() {
    let weight = vec![0.5f32; 32 * 81];
    let right = Packed::new(Right::Rounded(Matrix::new(&weight, 32, 81).transposed()));
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)]
    {
        let mut left = vec![1f32; 2 * 81];
        left[81 + 70] = bad;
        let found = product(Matrix::new(&left, 2, 81), Right::Packed(&right));
        assert!(found[..32].iter().all(|x| *x == 40.5));
        assert!(found[32..].iter().all(|x| !x.is_finite()), "{bad}: {:?}", &found[32..]);
        assert!(!bad.is_nan() || found[32..].iter().all(|x| x.is_nan()));
    }
}

/// FNV-1a of the bits of many products, f32, 8 bits and bfloat16, of every size and layout.
fn checksum_of_products() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (seed, [m, k, n]) in SIZES.into_iter().enumerate() {
        // Whole numbers over powers of two: values that no library of mathematics rounds.
        let exact = |count: usize, seed: usize| -> Vec<f32> {
            let value = |i: usize| (i * 7919 + seed * 104_729) % 4093;
            (0..count).map(|i| (value(i) as f32 - 2046.0) / 1024.0).collect()
        };
        let (left, right) = (exact(m * k, seed), exact(k * n, seed + 1));
        let left = Matrix::new(&left, m, k);
        let right = Matrix::new(&right, n, k).transposed();
        let plain = product(left, Right::Plain(right));
        assert_eq!(plain, product(left, Right::Packed(&Packed::new(right))));
        let quantized = product(left, Right::Quantized(&Quantized::new(Right::Plain(right))));
        let half = product(left, Right::Rounded(right));
        for byte in plain.iter().chain(&quantized).chain(&half).flat_map(|x| x.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// Whether this processor has the set, or a test emulates what it lacks.
fn can_run(set: InstructionSet) -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if set == InstructionSet::Amx {
        return amx::can_run();
    }
    set.is_available()
}

#[test]
fn every_instruction_set_gives_the_recorded_bits() {
    let set = InstructionSet::in_use();
    let recorded = if set == InstructionSet::Amx { AMX_CHECKSUM } else { CHECKSUM };
    assert_eq!(checksum_of_products(), recorded, "{set:?}");
    // A process has one set: the others are run by this test in a process of their own.
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    for set in InstructionSet::ALL.into_iter().filter(|set| can_run(*set)) {
        let mut test = Command::new(std::env::current_exe().expect("this program"));
        let out = test.env(VARIABLE, set.name()).output().expect("every test of this file");
        assert!(out.status.success(), "{}\n{}", set.name(), String::from_utf8_lossy(&out.stdout));
    }
}

#[test]
fn unknown_and_missing_instruction_sets_are_refused() {
    for name in ["sse9", "neon", "avx2"] {
        let is_available =
            InstructionSet::ALL.iter().any(|set| set.name() == name && set.is_available());
        let mut test = Command::new(std::env::current_exe().expect("this program"));
        test.args(["--exact", "sums_follow_the_defined_order_in_every_layout_and_batch"]);
        let out = test.env(VARIABLE, name).output().expect("a test");
        assert_eq!(out.status.success(), is_available, "{name}");
    }
}
