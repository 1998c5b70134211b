//! The path of a mean through its checkpoints, and the area under it.
//!
//! Between two checkpoints the path is the cubic of each coordinate in the step that has, at a checkpoint, the slope of
//! the parabola through it and its neighbours. Straight lines (the mixture of the two checkpoints) lie below a concave
//! curve, the more so the fewer checkpoints there are: of two runs on one curve, the one with spacing .09 of Pass@1
//! would lose .003 to .005 of Pass@8 to the one with .03; cubics lose less than .001 (`simulation`).
//!
//! The area is the signed integral of the measure over Pass@1 along the path, clipped to a range. A path may turn back:
//! what it then covers a second time counts with its sign, so that no crossing has to be chosen, and the noise that
//! Pass@1 and the measure share at a checkpoint inside the range cancels.

/// Points of the path between two checkpoints.
const PIECES: usize = 16;

/// A path: Pass@1 and the measure at each step, the base first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    pub(super) steps: Vec<f64>,
    pub(super) points: Vec<(f64, f64)>,
}

impl Path {
    /// The path as straight pieces that follow its cubics.
    pub(super) fn refined(&self) -> Vec<(f64, f64)> {
        let Self { steps, points } = self;
        if points.len() < 3 {
            return points.clone();
        }
        let slopes: Vec<(f64, f64)> = (0..points.len()).map(|at| self.slope(at)).collect();
        let mut refined = vec![points[0]];
        for at in 0..points.len() - 1 {
            let width = steps[at + 1] - steps[at];
            let (from, to) = (points[at], points[at + 1]);
            for piece in 1..=PIECES {
                let u = piece as f64 / PIECES as f64;
                // Hermite's basis: the ends, and the slopes there.
                let end = u * u * (3.0 - 2.0 * u);
                let (left, right) = (u * (1.0 - u).powi(2) * width, -u * u * (1.0 - u) * width);
                let hermite = |a: f64, b: f64, first: f64, last: f64| {
                    a * (1.0 - end) + b * end + first * left + last * right
                };
                refined.push((
                    hermite(from.0, to.0, slopes[at].0, slopes[at + 1].0),
                    hermite(from.1, to.1, slopes[at].1, slopes[at + 1].1),
                ));
            }
        }
        refined
    }

    /// The slope at a checkpoint of the parabola through it and its neighbours, or at an end through the nearest three.
    fn slope(&self, at: usize) -> (f64, f64) {
        let middle = at.clamp(1, self.points.len() - 2);
        let [a, b, c] = [middle - 1, middle, middle + 1];
        let (left, right) = (self.steps[b] - self.steps[a], self.steps[c] - self.steps[b]);
        let slope = |coordinate: fn(&(f64, f64)) -> f64| {
            let [p, q, r] = [a, b, c].map(|index| coordinate(&self.points[index]));
            let (before, after) = ((q - p) / left, (r - q) / right);
            // Newton's divided differences: y = p + before (x - a) + bend (x - a)(x - b), differentiated at a, b or c.
            let bend = (after - before) / (left + right);
            match at {
                _ if at == a => before - bend * left,
                _ if at == c => after + bend * right,
                _ => before + bend * left,
            }
        };
        (slope(|point| point.0), slope(|point| point.1))
    }
}

/// The place of the largest Pass@1.
fn top(path: &[(f64, f64)]) -> usize {
    (0..path.len()).max_by(|a, b| path[*a].0.total_cmp(&path[*b].0)).unwrap_or(0)
}

/// The largest Pass@1 of a refined path.
pub(super) fn largest(path: &[(f64, f64)]) -> f64 {
    path.get(top(path)).map_or(f64::NAN, |point| point.0)
}

/// The signed area under a refined path up to its largest Pass@1, over the range from `low` to `high` of Pass@1.
pub(super) fn area(path: &[(f64, f64)], low: f64, high: f64) -> f64 {
    let piece = |ends: &[(f64, f64)]| {
        let ((x0, y0), (x1, y1)) = (ends[0], ends[1]);
        let (from, to) = (x0.clamp(low, high), x1.clamp(low, high));
        if from == to {
            return 0.0;
        }
        let at = |x: f64| y0 + (y1 - y0) * (x - x0) / (x1 - x0);
        // The trapezium of a straight piece, negative where Pass@1 falls.
        (to - from) * (at(from) + at(to)) / 2.0
    };
    path[..=top(path)].windows(2).map(piece).sum()
}

/// The measure where a refined path first reaches a Pass@1; none where it does not.
pub(super) fn value_at(path: &[(f64, f64)], x: f64) -> Option<f64> {
    if path.first()?.0 == x {
        return Some(path[0].1);
    }
    let crossing = path.windows(2).find(|ends| ends[0].0 < x && ends[1].0 >= x)?;
    let ((x0, y0), (x1, y1)) = (crossing[0], crossing[1]);
    Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &[f64], point: impl Fn(f64) -> (f64, f64)) -> Path {
        Path { steps: steps.to_vec(), points: steps.iter().map(|step| point(*step)).collect() }
    }

    #[test]
    fn parabolas_are_followed_whatever_the_distances_between_steps() {
        let curve = |t: f64| (0.2 + 0.1 * t - 0.01 * t * t, 0.8 + 0.05 * t - 0.04 * t * t);
        let fine = path(&[0.0, 0.5, 1.0, 2.0, 3.0], curve).refined();
        let coarse = path(&[0.0, 1.0, 3.0], curve).refined();
        let exact = |x: f64| {
            let t = 5.0 - (25.0 - (x - 0.2) / 0.01).sqrt();
            0.8 + 0.05 * t - 0.04 * t * t
        };
        for refined in [&fine, &coarse] {
            for (x, y) in refined {
                assert!((y - exact(*x)).abs() < 1e-12, "{x} {y}");
            }
            assert!((largest(refined) - 0.41).abs() < 1e-12);
            assert!((value_at(refined, 0.3).unwrap() - exact(0.3)).abs() < 2e-4);
            assert_eq!((value_at(refined, 0.1), value_at(refined, 0.42)), (None, None));
        }
        assert!((area(&fine, 0.25, 0.4) - area(&coarse, 0.25, 0.4)).abs() < 1e-4);
    }

    #[test]
    fn the_area_is_signed_and_stops_at_the_largest_accuracy() {
        // There and back on one line covers nothing twice; what comes after the top does not count.
        let line = [(0.2, 1.0), (0.4, 1.0), (0.3, 1.0), (0.5, 1.0), (0.1, 0.0)];
        assert!((area(&line, 0.2, 0.5) - 0.3).abs() < 1e-12);
        assert!((area(&line, 0.35, 0.45) - 0.1).abs() < 1e-12);
        // The way back at a lower value counts negatively, the second way forward again.
        let turning = [(0.2, 1.0), (0.4, 1.0), (0.3, 0.5), (0.5, 0.5)];
        let expected = 0.2 - 0.075 + 0.1;
        assert!((area(&turning, 0.2, 0.5) - expected).abs() < 1e-12);
    }
}
