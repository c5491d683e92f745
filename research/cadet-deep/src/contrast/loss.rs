//! Algorithm 1's loss over all pairs of a batch's instances and tasks, with its slopes.

use cadet::internals::{Vectorised, softplus_and_slope, vectorised};
use cadet::learn::sampler::Batch;
use rayon::prelude::*;

use super::Negatives;
use crate::kernels::{BLOCK, Engine, LANES, Lanes, Operand, Part, Role};

/// What the pairs of one batch weigh in the loss.
///
/// Instance n has a task of its own. It is a positive of that task with weight `positive`, a negative of task
/// t with weight `negative · share[t]`, and of its own task with `own` besides.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    tasks: Vec<u32>,
    positive: Vec<f32>,
    negative: Vec<f32>,
    own: Vec<f32>,
    share: Vec<f32>,
}

impl Weights {
    pub(super) fn new(negatives: Negatives, batch: &Batch, tasks: usize) -> Self {
        let count = batch.tasks.len();
        let one = 1.0 / count as f32;
        let mut share = vec![0.0; tasks];
        let mut weights = Self {
            tasks: batch.tasks.clone(),
            positive: vec![one; count],
            negative: vec![0.0; count],
            own: vec![0.0; count],
            share: vec![],
        };
        let each = match negatives {
            Negatives::Drawn | Negatives::Population => {
                weights.tasks.extend_from_slice(&batch.tasks);
                weights.positive.resize(2 * count, 0.0);
                let drawn = negatives == Negatives::Drawn;
                weights.own.resize(2 * count, if drawn { one } else { 0.0 });
                weights.negative.resize(2 * count, if drawn { 0.0 } else { 1.0 });
                one * one
            }
            Negatives::Batch => {
                // A positive is no negative of itself; alone it has none.
                let each = one / (count.max(2) - 1) as f32;
                weights.negative.fill(1.0);
                weights.own.fill(-each);
                each
            }
        };
        batch.tasks.iter().for_each(|t| share[*t as usize] += each);
        weights.share = share;
        weights
    }
}

/// The loss of a batch, the gradient of its responses, and that of the tasks' biases.
pub(super) fn loss_and_slopes(
    engine: Engine,
    weights: &Weights,
    biases: &[f32],
    responses: &[Lanes],
    gradient: &mut Operand,
) -> (f64, Vec<f32>) {
    let channels = biases.len();
    let parts = gradient.parts(Role::Gradient, responses.len() / channels, 1, channels);
    let panel = |(p, (mut part, responses)): (usize, (Part<'_>, &[Lanes]))| {
        let lanes = weights.lanes(p);
        let (mut loss, mut of_biases) = (0.0, vec![0.0; channels]);
        let mut rows = [Lanes::ZERO; BLOCK];
        for block in 0..channels / BLOCK {
            for (i, slopes) in rows.iter_mut().enumerate() {
                let t = block * BLOCK + i;
                let share = weights.share.get(t).copied().unwrap_or(0.0);
                let row =
                    ResponseRow { responses: &responses[t], bias: biases[t], task: t as u32, share, slopes };
                loss += vectorised(engine.kernel(), LossOf { row, lanes: &lanes });
                of_biases[t] = slopes.0.iter().sum();
            }
            part.put(engine, Role::Gradient, channels, 0, block, &rows);
        }
        (loss, of_biases)
    };
    let panels: Vec<(f64, Vec<f32>)> =
        parts.into_par_iter().zip(responses.par_chunks(channels)).enumerate().map(panel).collect();
    let mut of_biases = vec![0.0; channels];
    for (_, of_panel) in &panels {
        of_biases.iter_mut().zip(of_panel).for_each(|(sum, v)| *sum += v);
    }
    (panels.iter().map(|(loss, _)| loss).sum(), of_biases)
}

/// What the instances of a panel weigh; empty lanes weigh nothing.
struct PanelWeights {
    tasks: [u32; LANES],
    positive: Lanes,
    negative: Lanes,
    own: Lanes,
}

impl Weights {
    fn lanes(&self, panel: usize) -> PanelWeights {
        let lane = |list: &[f32]| {
            Lanes(std::array::from_fn(|n| list.get(panel * LANES + n).copied().unwrap_or(0.0)))
        };
        PanelWeights {
            tasks: std::array::from_fn(|n| self.tasks.get(panel * LANES + n).copied().unwrap_or(u32::MAX)),
            positive: lane(&self.positive),
            negative: lane(&self.negative),
            own: lane(&self.own),
        }
    }
}

/// The responses of a panel to one task.
struct ResponseRow<'a> {
    responses: &'a Lanes,
    bias: f32,
    task: u32,
    share: f32,
    slopes: &'a mut Lanes,
}

/// Finds the loss of one task's responses, and their slopes.
struct LossOf<'a> {
    row: ResponseRow<'a>,
    lanes: &'a PanelWeights,
}

impl Vectorised for LossOf<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let Self { row, lanes } = self;
        let mut losses = Lanes::ZERO;
        for n in 0..LANES {
            let z = row.responses.0[n] + row.bias;
            let is_own = if lanes.tasks[n] == row.task { 1.0 } else { 0.0 };
            let positive = lanes.positive.0[n] * is_own;
            let both = positive + lanes.negative.0[n] * row.share + lanes.own.0[n] * is_own;
            let (softplus, slope) = softplus_and_slope(z);
            // softplus(−z) = softplus(z) − z
            losses.0[n] = both * softplus - positive * z;
            row.slopes.0[n] = both * slope - positive;
        }
        losses.0.iter().map(|v| f64::from(*v)).sum()
    }
}
