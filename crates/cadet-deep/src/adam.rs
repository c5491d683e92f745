//! Adam, for a block of parameters or for one row of a table.

/// Decay of the mean of the gradients.
const BETA1: f32 = 0.9;
/// Decay of the mean of their squares.
const BETA2: f32 = 0.999;
/// Keeps the step finite where gradients vanish.
const EPSILON: f32 = 1e-8;

/// One step of Adam with the bias corrections of step `t`.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// Learning rate over the first correction.
    rate: f32,
    /// One over the root of the second correction.
    scale: f32,
}

impl Adam {
    /// The step numbered `t`, from 1.
    pub fn at(learning_rate: f32, t: u64) -> Self {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(t.max(1) as f64);
        Self {
            rate: (f64::from(learning_rate) / correction(BETA1)) as f32,
            scale: (1.0 / correction(BETA2).sqrt()) as f32,
        }
    }

    /// Moves `parameters` against `gradient` and keeps both moments; all have the same length.
    pub fn update(self, parameters: &mut [f32], gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
        for (((p, g), m), v) in parameters.iter_mut().zip(gradient).zip(m).zip(v) {
            *m += (1.0 - BETA1) * (g - *m);
            *v += (1.0 - BETA2) * (g * g - *v);
            *p -= self.rate * *m / (v.sqrt() * self.scale + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_as_long_as_the_rate() {
        let (mut p, mut m, mut v) = ([1.0, 1.0], [0.0; 2], [0.0; 2]);
        Adam::at(0.1, 1).update(&mut p, &[3.0, -0.02], &mut m, &mut v);
        assert!((p[0] - 0.9).abs() < 1e-5 && (p[1] - 1.1).abs() < 1e-5, "{p:?}");
    }
}
