//! TUP (Cao et al. 2019): a user is moved to an item by the preference they meet in.
//!
//! `a = softmax(½ (u + i)ᵀpₖ)`, `r = Σ aₖpₖ`, `w = Σ aₖwₖ` at length 1, `d(u, i) = ‖u⊥ + r − i⊥‖²`; loss
//! `−ln σ(d(u, not seen) − d(u, seen))`.

use super::transh::{Translation, add_scaled, dot};

/// The preferences that users and items share, or their gradients.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Preferences {
    /// How each moves a user, one after the other.
    pub(super) vectors: Vec<f32>,
    /// The normals of their hyperplanes, one after the other.
    pub(super) normals: Vec<f32>,
}

impl Preferences {
    /// As many, all 0.
    pub(super) fn zeros(&self) -> Self {
        Self { vectors: vec![0.0; self.vectors.len()], normals: vec![0.0; self.normals.len()] }
    }
}

/// A user and an item in the preference they meet in, kept for the way back.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    /// `u + i`
    sum: Vec<f32>,
    attention: Vec<f32>,
    r: Vec<f32>,
    w: Vec<f32>,
    /// The length of `w` before it was made 1.
    size: f32,
    translation: Translation,
    /// How much the distance would grow with each attention.
    pull: Vec<f32>,
    dh: Vec<f32>,
    dr: Vec<f32>,
    dw: Vec<f32>,
    dsum: Vec<f32>,
}

impl Meeting {
    pub(super) fn new(preferences: usize, width: usize) -> Self {
        let zeros = || vec![0.0; width];
        Self {
            sum: zeros(),
            attention: vec![0.0; preferences],
            r: zeros(),
            w: zeros(),
            size: 0.0,
            translation: Translation::new(width),
            pull: vec![0.0; preferences],
            dh: zeros(),
            dr: zeros(),
            dw: zeros(),
            dsum: zeros(),
        }
    }

    /// `‖u⊥ + r − i⊥‖²`
    #[inline(always)]
    pub(super) fn distance(&mut self, preferences: &Preferences, user: &[f32], item: &[f32]) -> f32 {
        let width = self.sum.len();
        for ((s, u), i) in self.sum.iter_mut().zip(user).zip(item) {
            *s = u + i;
        }
        for (a, p) in self.attention.iter_mut().zip(preferences.vectors.chunks_exact(width)) {
            *a = 0.5 * dot(&self.sum, p);
        }
        softmax(&mut self.attention);
        self.r.fill(0.0);
        self.w.fill(0.0);
        let rows = preferences.vectors.chunks_exact(width).zip(preferences.normals.chunks_exact(width));
        for (a, (p, n)) in self.attention.iter().zip(rows) {
            add_scaled(&mut self.r, *a, p);
            add_scaled(&mut self.w, *a, n);
        }
        self.size = dot(&self.w, &self.w).sqrt().max(1e-6);
        self.w.iter_mut().for_each(|w| *w /= self.size);
        self.translation.distance(user, &self.r, &self.w, item)
    }

    /// Adds the gradients of `slope · distance` to those of the user, the item and the preferences.
    #[inline(always)]
    pub(super) fn gradient(
        &mut self,
        slope: f32,
        preferences: &Preferences,
        user: &mut [f32],
        item: &mut [f32],
        gradients: &mut Preferences,
    ) {
        let width = self.sum.len();
        for buffer in [&mut self.dh, &mut self.dr, &mut self.dw, &mut self.dsum] {
            buffer.fill(0.0);
        }
        self.translation.gradient(slope, &self.w, &mut self.dh, &mut self.dr, &mut self.dw);
        // Through w = v / ‖v‖, only what is across w counts.
        let along = dot(&self.w, &self.dw);
        self.dw.iter_mut().zip(&self.w).for_each(|(dw, w)| *dw = (*dw - along * w) / self.size);
        let mut mean = 0.0;
        let rows = preferences.vectors.chunks_exact(width).zip(preferences.normals.chunks_exact(width));
        for ((a, pull), (p, n)) in self.attention.iter().zip(&mut self.pull).zip(rows) {
            *pull = dot(&self.dr, p) + dot(&self.dw, n);
            mean += a * *pull;
        }
        let rows = preferences.vectors.chunks_exact(width);
        let grads = gradients.vectors.chunks_exact_mut(width).zip(gradients.normals.chunks_exact_mut(width));
        for ((a, pull), (p, (dp, dn))) in self.attention.iter().zip(&self.pull).zip(rows.zip(grads)) {
            let pull = 0.5 * a * (pull - mean);
            add_scaled(dp, *a, &self.dr);
            add_scaled(dp, pull, &self.sum);
            add_scaled(dn, *a, &self.dw);
            add_scaled(&mut self.dsum, pull, p);
        }
        let towards = self.dsum.iter().zip(&self.dh);
        for ((user, item), (ds, dh)) in user.iter_mut().zip(item).zip(towards) {
            *user += ds + dh;
            *item += ds - dh;
        }
    }
}

#[inline(always)]
fn softmax(values: &mut [f32]) {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    values.iter_mut().for_each(|v| *v = (*v - largest).exp());
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|v| *v /= sum);
}

#[cfg(test)]
mod tests {
    use super::super::transh::tests::compare;
    use super::*;
    use cadet::rng::{Purpose, Rng};

    #[test]
    fn gradients_match_differences() {
        const WIDTH: usize = 19;
        const COUNT: usize = 3;
        let mut rng = Rng::at(2, Purpose::Graph, [0, 0]);
        let mut some = |count: usize| (0..count).map(|_| 0.4 * rng.normal()).collect::<Vec<f32>>();
        let (user, item) = (some(WIDTH), some(WIDTH));
        let preferences = Preferences { vectors: some(COUNT * WIDTH), normals: some(COUNT * WIDTH) };
        let distance = |preferences: &Preferences, user: &[f32], item: &[f32]| {
            1.5 * Meeting::new(COUNT, WIDTH).distance(preferences, user, item)
        };
        let mut gradients = preferences.zeros();
        let (mut du, mut di) = (vec![0.0; WIDTH], vec![0.0; WIDTH]);
        let mut meeting = Meeting::new(COUNT, WIDTH);
        meeting.distance(&preferences, &user, &item);
        meeting.gradient(1.5, &preferences, &mut du, &mut di, &mut gradients);
        compare(|user| distance(&preferences, user, &item), &user, &du);
        compare(|item| distance(&preferences, &user, item), &item, &di);
        let with = |vectors: &[f32]| Preferences { vectors: vectors.to_vec(), ..preferences.clone() };
        compare(|p| distance(&with(p), &user, &item), &preferences.vectors, &gradients.vectors);
        let with = |normals: &[f32]| Preferences { normals: normals.to_vec(), ..preferences.clone() };
        compare(|n| distance(&with(n), &user, &item), &preferences.normals, &gradients.normals);
    }
}
