//! One curve by itself: its points, and the measure with its interval along it.

use super::data::Request;
use super::linear::{Contender, estimated, interval};
use super::path::{Path, largest, value_at};
use super::result::{BandPoint, BasePoint, Curve, CurvePoint};
use crate::Estimate;
use crate::inference::two_way::Parts;

/// Points of a band.
const POINTS: usize = 12;

/// The base with intervals over problems.
pub(super) fn base(base: &[(f64, f64)], request: &Request) -> BasePoint {
    let over_problems = |score: fn(&(f64, f64)) -> f64, most: f64, largest: f64| -> Estimate {
        let shared: Vec<f64> = base.iter().map(score).collect();
        let value = shared.iter().sum::<f64>() / base.len() as f64;
        // The base was not trained: problems alone vary.
        let parts = Parts { shared, models: Vec::new(), largest };
        interval(&parts.uncertainty(value), request, (0.0, most))
    };
    BasePoint {
        pass_at_1: over_problems(|score| score.0, 1.0, 1.0),
        value: over_problems(
            |score| score.1,
            request.measure.most(),
            request.measure.largest(base),
        ),
    }
}

pub(super) fn curve(one: &Contender, base: &[(f64, f64)], request: &Request) -> Curve {
    let path = one.path(base);
    let refined = path.refined();
    let (start, end) = (path.points[0].0, largest(&refined));
    let at = |index: usize| -> Option<BandPoint> {
        // Not the end itself, which a shift of the scores may leave without a crossing.
        let share = index as f64 / POINTS as f64;
        let measure = |paths: &[Path]| {
            let refined = paths[0].refined();
            let from = paths[0].points[0].0;
            let x = start + share * (end - start);
            if index == 0 { Some(paths[0].points[0].1) } else { value_at(&refined, x.max(from)) }
        };
        let found = estimated(&[one], base, &measure, request.measure.largest(base))?;
        Some(BandPoint {
            pass_at_1: start + share * (end - start),
            value: interval(&found, request, (0.0, request.measure.most())),
        })
    };
    let point = |(step, point): (&f64, &(f64, f64))| CurvePoint {
        step: *step,
        pass_at_1: point.0,
        value: point.1,
        gap: None,
    };
    Curve {
        objective: one.objective.clone(),
        configuration: one.configuration.clone(),
        seeds: one.seeds(),
        is_baseline: one.is_baseline,
        points: one.steps.iter().zip(&path.points[1..]).map(point).collect(),
        band: (0..POINTS).filter_map(at).collect(),
    }
}
