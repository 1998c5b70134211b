//! Angles of the rotary position embedding.

use std::sync::Mutex;

use super::Architecture;
use crate::backend::{Angles, PackedSequences};

/// Inverse frequencies, and the table of cosines and sines as far as it was needed.
#[derive(Debug)]
pub(super) struct RopeTable {
    inverse_frequencies: Vec<f32>,
    table: Mutex<Table>,
}

/// `[positions, D / 2]` each.
#[derive(Debug, Default)]
struct Table {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// Radians a position of every pair of values of a head, `[head_dim / 2]`.
pub(crate) fn inverse_frequencies(architecture: &Architecture) -> Vec<f32> {
    let dim = architecture.head_dim as f64;
    let frequency = |i: usize| {
        // The reference computes in f32; a table in f64 would differ from it at long range.
        let plain = 1.0 / (architecture.rope_theta as f32).powf((2 * i) as f32 / dim as f32);
        match &architecture.rope_scaling {
            None => plain,
            Some(scaling) => {
                let plain = f64::from(plain);
                let turns = scaling.original_max_positions * plain / std::f64::consts::TAU;
                let (low, high) = (scaling.low_freq_factor, scaling.high_freq_factor);
                let keep = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                (plain * (keep + (1.0 - keep) / scaling.factor)) as f32
            }
        }
    };
    (0..architecture.head_dim / 2).map(frequency).collect()
}

impl RopeTable {
    pub(super) fn new(architecture: &Architecture) -> Self {
        Self { inverse_frequencies: inverse_frequencies(architecture), table: Mutex::default() }
    }

    /// The angles of all tokens.
    pub(super) fn angles(&self, packed: &PackedSequences) -> Angles {
        let half = self.inverse_frequencies.len();
        let needed = packed.longest();
        let mut table = self.table.lock().expect("no panic while the lock is held");
        for position in table.cos.len() / half..needed {
            for frequency in &self.inverse_frequencies {
                let (sin, cos) = (position as f32 * frequency).sin_cos();
                table.cos.push(cos);
                table.sin.push(sin);
            }
        }
        let gather = |table: &[f32]| {
            let rows = packed.positions().map(|position| position * half);
            rows.flat_map(|at| table[at..at + half].iter().copied()).collect()
        };
        Angles { cos: gather(&table.cos), sin: gather(&table.sin) }
    }
}
