//! Angles of the rotary position embedding.

use std::f64::consts::TAU;
use std::sync::Mutex;

use super::architecture::{Growth, Rope, RopeScaling};
use crate::backend::{Angles, PackedSequences};
use tealight_divergence::elementary::{powf, sin_cos};

/// Inverse frequencies, and the table of cosines and sines as far as it was needed.
#[derive(Debug)]
pub(super) struct RopeTable {
    inverse_frequencies: Vec<f32>,
    /// The factor of cosines and sines.
    magnitude: f32,
    growth: Option<Growth>,
    table: Mutex<Table>,
}

/// `[positions, rotary_dim / 2]` each.
#[derive(Debug, Default)]
struct Table {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// Radians a position of every pair of values of a head that turns, `[rotary_dim / 2]`.
pub fn inverse_frequencies(rope: &Rope, rotary_dim: usize) -> Vec<f32> {
    let (dim, theta) = (rotary_dim as f64, rope.theta);
    let frequency = |i: usize| {
        // The reference computes in f32; a table in f64 would differ from it at long range.
        let plain = 1.0 / powf(theta as f32, (2 * i) as f32 / dim as f32);
        let wide = f64::from(plain);
        match &rope.scaling {
            None => plain,
            Some(RopeScaling::Linear { factor }) => (wide / factor) as f32,
            Some(RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_positions,
            }) => {
                // Rotations over the original context: pairs that turn often keep their frequency, slow ones are
                // divided by the factor, those between are interpolated.
                let turns = original_max_positions * wide / TAU;
                let keep = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let keep = keep.clamp(0.0, 1.0);
                (wide * (keep + (1.0 - keep) / factor)) as f32
            }
            Some(RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original_max_positions,
                ..
            }) => {
                // The dimension that makes so many turns over the original context.
                let place = |turns: f64| {
                    dim * (original_max_positions / (turns * TAU)).ln() / (2.0 * theta.ln())
                };
                // YaRN (arXiv 2309.00071): dimensions below `low` extrapolate, those above `high` interpolate
                // positions.
                let low = place(*beta_fast).floor().max(0.0);
                let high = place(*beta_slow).ceil().min(dim - 1.0);
                let ramp = (i as f64 - low) / (high - low).max(1e-3);
                let keep = 1.0 - ramp.clamp(0.0, 1.0);
                (wide * (keep + (1.0 - keep) / factor)) as f32
            }
            Some(RopeScaling::LongRope { short_factor, .. }) => (wide / short_factor[i]) as f32,
        }
    };
    (0..rotary_dim / 2).map(frequency).collect()
}

impl RopeTable {
    pub(super) fn new(rope: &Rope, rotary_dim: usize) -> Self {
        let magnitude = match &rope.scaling {
            Some(
                RopeScaling::Yarn { attention_factor, .. }
                | RopeScaling::LongRope { attention_factor, .. },
            ) => *attention_factor as f32,
            _ => 1.0,
        };
        let inverse_frequencies = inverse_frequencies(rope, rotary_dim);
        Self { inverse_frequencies, magnitude, growth: rope.growth, table: Mutex::default() }
    }

    /// The angles of all tokens.
    pub(super) fn angles(&self, packed: &PackedSequences) -> Angles {
        let half = self.inverse_frequencies.len();
        let needed = packed.longest();
        let mut table = self.table.lock().expect("no panic while the lock is held");
        for position in table.cos.len() / half..needed {
            let growth = self.growth.map_or(1.0, |growth| growth.at(position) as f32);
            let magnitude = self.magnitude * growth;
            for frequency in &self.inverse_frequencies {
                // A factor of cos and sin on queries and keys scales their product by its square: YaRN's temperature.
                let (sin, cos) = sin_cos(position as f32 * frequency);
                table.cos.push(cos * magnitude);
                table.sin.push(sin * magnitude);
            }
        }
        let gather = |table: &[f32]| {
            let rows = packed.positions().map(|position| position * half);
            rows.flat_map(|at| table[at..at + half].iter().copied()).collect()
        };
        Angles { cos: gather(&table.cos), sin: gather(&table.sin) }
    }
}
