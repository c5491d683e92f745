//! TransH (Wang et al. 2014): a relation moves its head to its tail within a hyperplane.
//!
//! `d(h, r, t) = ‖h⊥ + r − t⊥‖²` with `x⊥ = x − (wᵀx)w`; loss `max(0, margin + d(true) − d(corrupted))`.

/// Lanes that are added up side by side: sums have this order on every machine.
const LANES: usize = 16;

/// `Σ aᵢbᵢ`
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// `sums += scale · values`
#[inline(always)]
pub(super) fn add_scaled(sums: &mut [f32], scale: f32, values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += scale * value);
}

/// Where a head lands relative to its tail, kept for the way back.
#[derive(Debug, Clone)]
pub(super) struct Translation {
    /// `h − t`
    difference: Vec<f32>,
    /// `wᵀ(h − t)`
    along: f32,
    /// `h⊥ + r − t⊥`, and on the way back its gradient.
    residual: Vec<f32>,
}

impl Translation {
    pub(super) fn new(width: usize) -> Self {
        Self { difference: vec![0.0; width], along: 0.0, residual: vec![0.0; width] }
    }

    /// `‖h⊥ + r − t⊥‖²` for a normal `w` of length 1.
    #[inline(always)]
    pub(super) fn distance(&mut self, h: &[f32], r: &[f32], w: &[f32], t: &[f32]) -> f32 {
        for ((d, h), t) in self.difference.iter_mut().zip(h).zip(t) {
            *d = h - t;
        }
        self.along = dot(w, &self.difference);
        for (((e, d), r), w) in self.residual.iter_mut().zip(&self.difference).zip(r).zip(w) {
            *e = d - self.along * w + r;
        }
        dot(&self.residual, &self.residual)
    }

    /// Adds the gradients of `slope · distance`: `dr` and `dw`, and `dh` that of the head; the tail's is
    /// `−dh`.
    #[inline(always)]
    pub(super) fn gradient(&mut self, slope: f32, w: &[f32], dh: &mut [f32], dr: &mut [f32], dw: &mut [f32]) {
        self.residual.iter_mut().for_each(|e| *e *= 2.0 * slope);
        let g = &self.residual;
        let s = dot(w, g);
        for ((dh, g), w) in dh.iter_mut().zip(g).zip(w) {
            *dh += g - s * w;
        }
        for (dr, g) in dr.iter_mut().zip(g) {
            *dr += g;
        }
        for ((dw, g), d) in dw.iter_mut().zip(g).zip(&self.difference) {
            *dw -= s * d + self.along * g;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cadet::rng::{Purpose, Rng};

    /// `gradient` beside the slope of `f`, number by number.
    pub(in super::super) fn compare(f: impl Fn(&[f32]) -> f32, at: &[f32], gradient: &[f32]) {
        const STEP: f32 = 1e-2;
        for k in 0..at.len() {
            let moved = |step: f32| {
                let mut at = at.to_vec();
                at[k] += step;
                f(&at)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!((slope - gradient[k]).abs() < 2e-3 * (1.0 + slope.abs()), "{k}: {slope} {}", gradient[k]);
        }
    }

    #[test]
    fn gradients_match_differences() {
        const WIDTH: usize = 19;
        let mut rng = Rng::at(1, Purpose::Graph, [0, 0]);
        let [h, r, w, t] = [(); 4].map(|_| (0..WIDTH).map(|_| 0.3 * rng.normal()).collect::<Vec<f32>>());
        let distance =
            |h: &[f32], r: &[f32], w: &[f32], t: &[f32]| Translation::new(WIDTH).distance(h, r, w, t);
        let [mut dh, mut dr, mut dw] = [(); 3].map(|_| vec![0.0; WIDTH]);
        let mut translation = Translation::new(WIDTH);
        translation.distance(&h, &r, &w, &t);
        translation.gradient(1.5, &w, &mut dh, &mut dr, &mut dw);
        let minus: Vec<f32> = dh.iter().map(|d| -d).collect();
        compare(|h| 1.5 * distance(h, &r, &w, &t), &h, &dh);
        compare(|t| 1.5 * distance(&h, &r, &w, t), &t, &minus);
        compare(|r| 1.5 * distance(&h, r, &w, &t), &r, &dr);
        compare(|w| 1.5 * distance(&h, &r, w, &t), &w, &dw);
    }
}
