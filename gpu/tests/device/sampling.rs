//! Samples on a device against exact sums in f64: the whole distribution, every filter, ties, a real vocabulary.

use candle_core::{DType, Device, Result, Tensor};
use tealight_gpu::kernels::{self, SampleArgs};

use crate::common::{device, flat, values};

/// Tokens and log-probabilities for every number of `uniform`, from row 0, or from a row each.
fn sample(
    logits: &Tensor,
    rows: Option<&[u32]>,
    uniform: &[f32],
    draw: SampleArgs,
) -> Result<(Vec<u32>, Vec<f64>)> {
    let device = logits.device();
    let uniform = Tensor::new(uniform, device)?;
    let tokens = Tensor::zeros(uniform.elem_count(), DType::U32, device)?;
    let logp = uniform.zeros_like()?;
    kernels::sample(logits, rows, &uniform, draw, [&tokens, &logp])?;
    Ok((tokens.to_vec1()?, flat(&logp)))
}

/// The masses that the filters leave, by sorting, in f64.
fn filtered_masses(logits: &[f32], draw: SampleArgs) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mass = |x: &f32| (f64::from(x - top) / draw.temperature).exp();
    let mut masses: Vec<f64> = logits.iter().map(mass).collect();
    let mut order: Vec<usize> = (0..masses.len()).collect();
    order.sort_by(|a, b| masses[*b].total_cmp(&masses[*a]).then(a.cmp(b)));
    if draw.top_k > 0 {
        order.truncate(draw.top_k);
    }
    let goal = draw.top_p * order.iter().map(|id| masses[*id]).sum::<f64>();
    let mut sum = 0.0;
    order.retain(|id| {
        let is_below = draw.top_p == 1.0 || sum < goal;
        sum += masses[*id];
        is_below && masses[*id] >= draw.min_p
    });
    for (id, mass) in masses.iter_mut().enumerate() {
        if !order.contains(&id) {
            *mass = 0.0;
        }
    }
    masses
}

/// Holds the tokens that are drawn from one row to where its distribution function crosses `uniform`.
fn check(logits: &[f32], draw: SampleArgs, tolerance: f64) {
    let masses = filtered_masses(logits, draw);
    let total: f64 = masses.iter().sum();
    let count = 16;
    let uniform: Vec<f32> = (0..count).map(|i| (i as f32 + 0.5) / count as f32).collect();
    let row = Tensor::new(logits, &device()).and_then(|x| x.unsqueeze(0)).expect("a row");
    let rows = vec![0; count];
    let (tokens, logp) = sample(&row, Some(&rows), &uniform, draw).expect("samples");
    for ((token, logp), goal) in tokens.into_iter().zip(logp).zip(uniform) {
        let (token, goal) = (token as usize, f64::from(goal));
        assert!(masses[token] > 0.0, "{draw:?}: token {token} is cut off");
        assert!((logp - (masses[token] / total).ln()).abs() < 1e-4, "{draw:?}: {logp}");
        let before: f64 = masses[..token].iter().sum::<f64>() / total;
        let after = before + masses[token] / total;
        assert!(
            before <= goal + tolerance && goal <= after + tolerance,
            "{draw:?}: {before} {goal} {after}"
        );
    }
}

const WHOLE: SampleArgs = SampleArgs { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 };

#[test]
fn samples_are_where_the_distribution_function_crosses() {
    let (logits, _) = values(&[3, 700], 2.3, DType::F32);
    let logits = (logits * 2.0).and_then(|x| x.to_vec2::<f32>()).expect("rows");
    let all = [
        WHOLE,
        SampleArgs { temperature: 0.3, ..WHOLE },
        SampleArgs { top_k: 1, ..WHOLE },
        SampleArgs { top_k: 37, temperature: 2.0, ..WHOLE },
        SampleArgs { top_k: 700, ..WHOLE },
        SampleArgs { top_p: 1e-6, ..WHOLE },
        SampleArgs { top_p: 0.3, ..WHOLE },
        SampleArgs { top_p: 0.97, ..WHOLE },
        SampleArgs { min_p: 0.03, ..WHOLE },
        SampleArgs { min_p: 0.999_99, ..WHOLE },
        SampleArgs { temperature: 1.5, top_k: 90, top_p: 0.9, min_p: 0.2 },
        SampleArgs { temperature: 1.5, top_k: 90, top_p: 0.5, min_p: 0.01 },
    ];
    for draw in all {
        for row in &logits {
            check(row, draw, 1e-5);
        }
    }
}

#[test]
fn of_equally_likely_tokens_the_first_are_kept() {
    // Masses 1/4, 1/2, 1/4 in turn: every limit falls among equal ones.
    let logits: Vec<f32> = (0..999).map(|i| [0.25f32, 0.5, 0.25][i % 3].ln()).collect();
    for draw in [
        SampleArgs { top_k: 10, ..WHOLE },
        SampleArgs { top_k: 500, ..WHOLE },
        SampleArgs { top_p: 0.301, ..WHOLE },
        SampleArgs { top_p: 0.801, ..WHOLE },
        SampleArgs { top_k: 500, top_p: 0.601, min_p: 0.1, ..WHOLE },
        SampleArgs { min_p: 0.6, ..WHOLE },
    ] {
        check(&logits, draw, 1e-5);
    }
    let first = sample(
        &Tensor::new(&logits[..], &device()).and_then(|x| x.unsqueeze(0)).expect("a row"),
        None,
        &[0.9],
        SampleArgs { temperature: 0.0, top_k: 3, ..WHOLE },
    );
    assert_eq!(first.expect("greedy").0, [1]);
}

/// As many tokens as a row of a real model has, all of them likely: sums of many small masses.
#[test]
fn filters_of_a_real_vocabulary_keep_the_sorted_top() {
    let width = 151_936;
    let (logits, _) = values(&[1, width], 1.7, DType::F32);
    let logits = flat(&logits);
    let masses: Vec<f64> = logits.iter().map(|x| x.exp()).collect();
    let logits: Vec<f32> = logits.iter().map(|x| *x as f32).collect();
    let row = Tensor::new(&logits[..], &device()).and_then(|x| x.unsqueeze(0)).expect("a row");
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by(|a, b| masses[*b].total_cmp(&masses[*a]).then(a.cmp(b)));
    for (draw, count) in [
        (SampleArgs { top_k: 100_000, ..WHOLE }, 100_000),
        (SampleArgs { top_k: 50, ..WHOLE }, 50),
        (
            SampleArgs { min_p: 0.5, ..WHOLE },
            masses.iter().filter(|x| **x >= 0.5 * masses[order[0]]).count(),
        ),
    ] {
        let total: f64 = order[..count].iter().map(|id| masses[*id]).sum();
        let (tokens, logp) = sample(&row, None, &[0.37], draw).expect("samples");
        let token = tokens[0] as usize;
        let rank = order.iter().position(|id| *id == token).expect("a token");
        assert!(rank < count + 2, "{draw:?}: rank {rank} of {count}");
        assert!((logp[0] - (masses[token] / total).ln()).abs() < 1e-4, "{draw:?}");
        let mut sorted = order[..count].to_vec();
        sorted.sort_unstable();
        let before = sorted.iter().take_while(|id| **id < token).map(|id| masses[*id]).sum::<f64>();
        let after = before + masses[token];
        let (low, high) = (before / total - 5e-5, after / total + 5e-5);
        assert!(low <= 0.37 && 0.37 <= high, "{draw:?}: {low} to {high}");
    }
    let (tokens, _) =
        sample(&row, None, &[0.5], SampleArgs { temperature: 0.0, ..WHOLE }).expect("one");
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    assert_eq!(Some(tokens[0] as usize), logits.iter().position(|x| *x == top));
}

#[test]
fn rows_are_sampled_in_any_order_and_infinite_logits_are_reported() {
    let logits = Tensor::new(&[[0f32, 30.0, 0.0], [30.0, 0.0, 0.0], [0.0, 0.0, 30.0]], &device());
    let logits = logits.expect("rows");
    let sampled =
        |rows: Option<&[u32]>, count: usize| sample(&logits, rows, &vec![0.5; count], WHOLE);
    assert_eq!(sampled(Some(&[2, 0, 0, 1]), 4).expect("four").0, [2, 1, 1, 0]);
    assert_eq!(sampled(None, 3).expect("a row each").0, [1, 0, 2]);
    assert!(
        sampled(None, 2).is_err()
            && sampled(Some(&[3]), 1).is_err()
            && sampled(Some(&[0, 1]), 1).is_err()
    );
    for bad in [f32::NAN, f32::INFINITY] {
        let logits = Tensor::new(&[[0f32, bad, 1.0], [0.0, 1.0, 2.0]], &device()).expect("rows");
        let filters = SampleArgs { top_k: 2, top_p: 0.9, min_p: 0.1, ..WHOLE };
        for draw in [WHOLE, filters, SampleArgs { temperature: 0.0, ..WHOLE }] {
            let (tokens, logp) = sample(&logits, None, &[0.5; 2], draw).expect("said");
            assert!(tokens[0] == 0 && logp[0].is_nan() && logp[1].is_finite(), "{draw:?}");
        }
    }
    let none = Tensor::full(f32::NEG_INFINITY, (1, 4), &device()).expect("no token");
    assert!(sample(&none, None, &[0.5], WHOLE).expect("said").1[0].is_nan());
    // Tokens that may not be drawn at the end of a row, and a number as close to 1 as there is.
    let padded = Tensor::new(&[[0f32, 0.0, f32::NEG_INFINITY]], &Device::Cpu).expect("a row");
    let padded = padded.to_device(&device()).expect("there");
    assert_eq!(sample(&padded, None, &[1f32.next_down()], WHOLE).expect("one").0, [1]);
}
