//! Every kernel against a plain scalar net in double precision, and that net against finite differences.

use super::mlp::Matrix;
use super::pointwise::{exp_negative, log_one_plus};
use super::*;
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};

/// The net as the equations say it, one number at a time.
struct Plain {
    shape: Shape,
    /// Per layer: weights `[inputs][width]`, bias.
    layers: Vec<(Vec<Vec<f64>>, Vec<f64>)>,
    output: (Vec<f64>, f64),
}

impl Plain {
    fn of(net: &Mlp) -> Self {
        let matrices = net.matrices();
        let read = |m: &Matrix| -> Vec<Vec<f64>> {
            net.read(m).chunks(m.shape[1]).map(|row| row.iter().map(|v| f64::from(*v)).collect()).collect()
        };
        let depth = net.shape().hidden.len();
        let layers =
            (0..depth).map(|l| (read(&matrices[2 * l]), read(&matrices[2 * l + 1]).remove(0))).collect();
        let output = match net.shape().output {
            Output::Shared => {
                let weights = read(&matrices[2 * depth]).into_iter().map(|row| row[0]).collect();
                (weights, read(&matrices[2 * depth + 1])[0][0])
            }
            Output::PerTask => (Vec::new(), 0.0),
        };
        Plain { shape: net.shape().clone(), layers, output }
    }

    /// The numbers of a matrix, in the order of `Mlp::matrices`, to be changed.
    fn matrix(&mut self, m: usize) -> Vec<&mut f64> {
        let depth = self.layers.len();
        match m {
            _ if m < 2 * depth && m.is_multiple_of(2) => self.layers[m / 2].0.iter_mut().flatten().collect(),
            _ if m < 2 * depth => self.layers[m / 2].1.iter_mut().collect(),
            _ if m == 2 * depth => self.output.0.iter_mut().collect(),
            _ => vec![&mut self.output.1],
        }
    }

    fn response(&self, x: &[f32], row: &[f64]) -> f64 {
        let mut h: Vec<f64> =
            x.iter().map(|v| f64::from(*v)).chain(row[..self.shape.embedding].to_vec()).collect();
        for (w, b) in &self.layers {
            h = (0..b.len())
                .map(|n| (b[n] + h.iter().zip(w).map(|(h, w)| h * w[n]).sum::<f64>()).max(0.0))
                .collect();
        }
        let last = row.len() - 16;
        match self.shape.output {
            Output::Shared => self.output.1 + h.iter().zip(&self.output.0).map(|(h, w)| h * w).sum::<f64>(),
            Output::PerTask => row[last] + h.iter().zip(row).map(|(h, w)| h * w).sum::<f64>(),
        }
    }
}

fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

struct Case {
    net: Mlp,
    x: Instances,
    table: Vec<f32>,
    tasks: Vec<u32>,
    positives: Vec<u32>,
    negatives: Vec<u32>,
    offsets: [Vec<f32>; 2],
}

impl Case {
    fn new(shape: Shape, pairs: usize, seed: u64) -> Self {
        let mut rng = Rng::at(seed, Purpose::Init, [0, 0]);
        let (features, stride) = (shape.features, shape.task_stride());
        let used = match shape.output {
            Output::Shared => shape.embedding,
            Output::PerTask => shape.hidden[shape.hidden.len() - 1],
        };
        let mut net = Mlp::zeros(shape);
        for matrix in net.matrices() {
            let values: Vec<f32> =
                (0..matrix.shape[0] * matrix.shape[1]).map(|_| rng.normal() * 0.3).collect();
            net.write(&matrix, &values);
        }
        net.update(|_| {});
        let tasks = 5;
        let mut table = vec![0.0; tasks * stride];
        for row in table.chunks_mut(stride) {
            row[..used].iter_mut().for_each(|v| *v = rng.normal() * 0.5);
            if net.shape().output == Output::PerTask {
                row[stride - 16] = rng.normal();
            }
        }
        let x = Instances::new(features, (0..features * 40).map(|_| rng.normal()).collect()).unwrap();
        let mut draw = |n: usize| (0..pairs).map(|_| rng.below(n) as u32).collect::<Vec<_>>();
        let (tasks, positives, negatives) = (draw(tasks), draw(40), draw(40));
        let offsets = [0, 1].map(|_| (0..pairs).map(|_| rng.normal()).collect());
        Case { net, x, table, tasks, positives, negatives, offsets }
    }

    fn loss(&self, plain: &Plain, table: &[f64]) -> f64 {
        let stride = self.net.shape().task_stride();
        (0..self.tasks.len())
            .map(|i| {
                let row = &table[self.tasks[i] as usize * stride..][..stride];
                let offset = |side: usize| f64::from(self.offsets[side].get(i).copied().unwrap_or(0.0));
                softplus(-plain.response(self.x.row(self.positives[i]), row) - offset(0))
                    + softplus(plain.response(self.x.row(self.negatives[i]), row) + offset(1))
            })
            .sum::<f64>()
            / self.tasks.len() as f64
    }

    /// Mean loss, its gradient by θ, its gradient by the table.
    fn gradients(&self, kernel: Kernel) -> (f64, Vec<f32>, Vec<f32>) {
        let stride = self.net.shape().task_stride();
        let mut scratch = self.net.training_scratch();
        let mut per_pair = vec![f32::NAN; self.tasks.len() * stride];
        let pairs = Pairs {
            tasks: &self.tasks,
            positives: &self.positives,
            negatives: &self.negatives,
            offsets: [&self.offsets[0], &self.offsets[1]],
        };
        let scale = 1.0 / self.tasks.len() as f32;
        let loss = self.net.gradients(
            kernel,
            (&self.x).into(),
            &self.table,
            pairs,
            7,
            scale,
            &mut scratch,
            &mut per_pair,
        );
        let mut table = vec![0.0; self.table.len()];
        for (task, row) in self.tasks.iter().zip(per_pair.chunks(stride)) {
            for (sum, value) in table[*task as usize * stride..].iter_mut().zip(row) {
                *sum += value;
            }
        }
        (loss / self.tasks.len() as f64, scratch.gradient.to_vec(), table)
    }
}

fn shapes() -> Vec<Shape> {
    let ratio = |features, embedding, hidden: &[usize]| Shape {
        features,
        embedding,
        hidden: hidden.to_vec(),
        dropout: vec![0.0; hidden.len()],
        output: Output::Shared,
    };
    let heads = |features, hidden: &[usize]| Shape { output: Output::PerTask, ..ratio(features, 0, hidden) };
    vec![
        ratio(100, 16, &[32, 32, 16]),
        ratio(7, 3, &[5]),
        ratio(33, 20, &[48, 17, 40, 8]),
        ratio(1, 1, &[1, 1]),
        heads(100, &[32, 32, 16]),
        heads(9, &[20]),
    ]
}

#[test]
fn responses_equal_the_plain_net_and_one_row_equals_many() {
    for (s, shape) in shapes().into_iter().enumerate() {
        let case = Case::new(shape, 3, s as u64);
        let plain = Plain::of(&case.net);
        let stride = case.net.shape().task_stride();
        for kernel in Kernel::available() {
            let mut halves = Vec::new();
            case.net.instance_halves(kernel, case.x.values(), &mut halves);
            let mut scratch = case.net.scratch();
            for row in case.table.chunks(stride) {
                let half = case.net.task_half(kernel, row);
                let exact: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
                let mut many = vec![0.0; case.x.len()];
                case.net.responses(kernel, &halves, &half, row, &mut scratch, &mut many);
                for (i, many) in many.iter().enumerate() {
                    let expected = plain.response(case.x.row(i as u32), &exact);
                    let close = (f64::from(*many) - expected).abs() <= 1e-5 * expected.abs().max(1.0);
                    assert!(close, "{kernel:?} {many} {expected}");
                    let (mut half_of_one, mut one) = (Vec::new(), [0.0]);
                    case.net.instance_halves(kernel, case.x.row(i as u32), &mut half_of_one);
                    case.net.responses(kernel, &half_of_one, &half, row, &mut scratch, &mut one);
                    assert_eq!(one[0].to_bits(), many.to_bits(), "{kernel:?}");
                }
            }
        }
    }
}

#[test]
fn products_are_added_and_one_row_equals_many() {
    let mut rng = Rng::at(1, Purpose::Init, [7, 7]);
    for width in [16, 48] {
        let rows: Vec<f32> = (0..19 * width).map(|_| rng.normal()).collect();
        let with: Vec<f32> = (0..width).map(|_| rng.normal()).collect();
        for kernel in Kernel::available() {
            let mut many = vec![1.0f32; 19];
            add_products(kernel, &rows, &with, &mut many);
            for (row, found) in rows.chunks_exact(width).zip(&many) {
                let exact: f64 = row.iter().zip(&with).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                assert!((f64::from(*found) - 1.0 - exact).abs() < 1e-5, "{kernel:?} {found} {exact}");
                let mut one = [1.0];
                add_products(kernel, row, &with, &mut one);
                assert_eq!(one[0].to_bits(), found.to_bits(), "{kernel:?}");
                // Users and items may change places.
                let mut turned = [1.0];
                add_products(kernel, &with, row, &mut turned);
                assert_eq!(turned[0].to_bits(), found.to_bits(), "{kernel:?}");
            }
        }
    }
}

#[test]
fn gradients_equal_finite_differences_of_the_plain_net() {
    // In double precision with a step this small, a kink of the ReLU is practically never in between.
    const STEP: f64 = 1e-6;
    for (s, shape) in shapes().into_iter().enumerate() {
        let case = Case::new(shape, 45, 10 + s as u64);
        let mut plain = Plain::of(&case.net);
        let mut table: Vec<f64> = case.table.iter().map(|v| f64::from(*v)).collect();
        let loss = case.loss(&plain, &table);
        // Slopes of the loss by every parameter of the plain net, matrix by matrix, and by the table.
        let mut slopes = Vec::new();
        for m in 0..case.net.matrices().len() {
            let mut of_matrix = Vec::new();
            let count = plain.matrix(m).len();
            for i in (0..count).step_by(count / 300 + 1) {
                let mut at = |by: f64| {
                    *plain.matrix(m)[i] += by;
                    case.loss(&plain, &table)
                };
                let (up, down) = (at(STEP), at(-2.0 * STEP));
                at(STEP);
                of_matrix.push((i, (up - down) / (2.0 * STEP)));
            }
            slopes.push(of_matrix);
        }
        let mut by_table = Vec::new();
        for i in 0..table.len() {
            table[i] += STEP;
            let up = case.loss(&plain, &table);
            table[i] -= 2.0 * STEP;
            by_table.push((up - case.loss(&plain, &table)) / (2.0 * STEP));
            table[i] += STEP;
        }
        for kernel in Kernel::available() {
            let (found_loss, theta, by_task) = case.gradients(kernel);
            assert!((found_loss - loss).abs() < 1e-5 * loss, "{kernel:?} {found_loss} {loss}");
            let mut gradient = case.net.clone();
            gradient.update(|g| g.copy_from_slice(&theta));
            let close = |found: f32, slope: f64| (f64::from(found) - slope).abs() <= 1e-5;
            let mut inside = 0;
            for (matrix, slopes) in gradient.matrices().iter().zip(&slopes) {
                let found = gradient.read(matrix);
                inside += found.iter().filter(|g| **g != 0.0).count();
                for (i, slope) in slopes {
                    let found = found[*i];
                    assert!(close(found, *slope), "{kernel:?} {} {i}: {found}, {slope}", matrix.name);
                }
            }
            for (found, slope) in by_task.iter().zip(&by_table) {
                assert!(close(*found, *slope), "{kernel:?} task: {found}, {slope}");
            }
            assert_eq!(theta.iter().filter(|g| **g != 0.0).count(), inside, "padding must stay 0");
        }
    }
}

#[test]
fn kernels_agree_on_gradients_with_dropout() {
    for (s, mut shape) in shapes().into_iter().enumerate() {
        shape.dropout.iter_mut().enumerate().for_each(|(l, d)| *d = [0.5, 0.3, 0.2, 0.1][l]);
        let case = Case::new(shape, 100, 20 + s as u64);
        let (loss, theta, table) = case.gradients(Kernel::Portable);
        for kernel in Kernel::available() {
            let other = case.gradients(kernel);
            assert!((loss - other.0).abs() < 1e-5 * loss.abs());
            for (a, b) in theta.iter().zip(&other.1).chain(table.iter().zip(&other.2)) {
                assert!((a - b).abs() <= 1e-5, "{kernel:?} {a} {b}");
            }
        }
    }
}

#[test]
fn dropout_drops_its_share_and_keeps_the_mean() {
    // A net whose first layer copies x = 1 to every unit and whose output adds the units up.
    let (width, pairs) = (64, 2_000);
    let shape =
        Shape { features: 1, embedding: 1, hidden: vec![width], dropout: vec![0.3], output: Output::Shared };
    let mut net = Mlp::zeros(shape);
    let [weight, _, output, _] = &net.matrices()[..] else { panic!("two layers") };
    net.write(&weight.clone(), &[vec![1.0; width], vec![0.0; width]].concat());
    net.write(&output.clone(), &vec![1.0; width]);
    net.update(|_| {});
    let case = Case {
        x: Instances::new(1, vec![1.0]).unwrap(),
        table: vec![0.0; 16],
        tasks: vec![0; pairs],
        positives: vec![0; pairs],
        negatives: vec![0; pairs],
        offsets: [vec![], vec![]],
        net,
    };
    for kernel in Kernel::available() {
        // Responses are about 64, so the loss of a pair is the response of its negative.
        let mean = case.gradients(kernel).0 / width as f64;
        assert!((mean - 1.0).abs() < 0.01, "{kernel:?} {mean}");
    }
}

#[inline(always)]
fn sums_both_ways<V: simd::Simd, const R: usize>(values: &[f32]) -> [[f32; 8]; 2] {
    assert!(values.len() >= 8 * V::LANES);
    // SAFETY: the dispatcher chose `V`, and there are eight vectors of values.
    unsafe {
        let vectors: [V; 8] = std::array::from_fn(|i| V::load(values.as_ptr().add(i * V::LANES)));
        let mut one_by_one = [0.0; 8];
        for (sum, vector) in one_by_one.iter_mut().zip(vectors) {
            *sum = vector.sum();
        }
        [V::sums(vectors), one_by_one]
    }
}

#[test]
fn eight_sums_at_once_are_those_one_by_one() {
    let mut rng = Rng::at(3, Purpose::Init, [0, 0]);
    for kernel in Kernel::available() {
        for _ in 0..50 {
            let values: Vec<f32> = (0..8 * simd::PAD).map(|_| rng.normal()).collect();
            let values = &values[..];
            let [together, one_by_one] =
                dispatch!(kernel, fn(values: &[f32]) -> [[f32; 8]; 2], sums_both_ways);
            assert_eq!(together.map(f32::to_bits), one_by_one.map(f32::to_bits), "{}", kernel.name());
        }
    }
}

#[test]
fn exp_and_log_are_close_to_the_library() {
    for i in 0..20_000 {
        let x = -(i as f32) * 0.004;
        let exact = f64::from(x).exp();
        assert!((f64::from(exp_negative(x)) - exact).abs() <= 3e-7 * exact, "exp {x}");
        let u = i as f32 / 20_000.0;
        assert!((f64::from(log_one_plus(u)) - f64::from(u).ln_1p()).abs() <= 2e-7, "log {u}");
    }
    assert!(exp_negative(-1e30) < 2e-38 && exp_negative(f32::NEG_INFINITY) >= 0.0);
}

#[test]
fn adam_equals_its_equations() {
    let config = AdamConfig::default();
    let (mut p, mut m, mut v) = ([1.0f32, -2.0], [0.0; 2], [0.0; 2]);
    let (mut p64, mut m64, mut v64) = ([1.0f64, -2.0], [0.0f64; 2], [0.0f64; 2]);
    for t in 1..=20u64 {
        let g = [0.3 * t as f32, -0.01];
        Adam::at(config, 0.05, t).update(Kernel::Portable, &mut p, &g, &mut m, &mut v);
        for i in 0..2 {
            m64[i] = 0.9 * m64[i] + 0.1 * f64::from(g[i]);
            v64[i] = 0.999 * v64[i] + 0.001 * f64::from(g[i]).powi(2);
            let (mh, vh) = (m64[i] / (1.0 - 0.9f64.powi(t as i32)), v64[i] / (1.0 - 0.999f64.powi(t as i32)));
            p64[i] -= 0.05 * mh / (vh.sqrt() + 1e-8);
            assert!((f64::from(p[i]) - p64[i]).abs() < 1e-4, "step {t}: {} {}", p[i], p64[i]);
        }
    }
}

#[test]
fn steps_that_were_missed_are_steps_without_a_gradient() {
    let config = AdamConfig::default();
    let (start, m, v) = ([0.5f32, -1.0, 0.0, 0.2], [0.3f32, -1e-4, 0.0, 1e-7], [0.2f32, 1e-7, 0.0, 1e-15]);
    // From the first steps, whose corrections are large, to late ones; gaps shorter and longer than a row
    // coasts.
    for (first, gap) in [(1, 1), (1, 30), (3, 500), (40, 7), (900, 135), (5_000, 137), (5_000, 3_000)] {
        let (mut p, mut m_then, mut v_then) = (start, m, v);
        let mut coasting = Coasting::new(config);
        for t in first - 1..first + gap {
            // The rate falls along the way.
            let adam = Adam::at(config, 0.05 / (1.0 + t as f32 / 1_000.0), t);
            coasting.push(adam);
            // The first of the steps is behind the row.
            if t >= first {
                adam.update(Kernel::Portable, &mut p, &[0.0; 4], &mut m_then, &mut v_then);
            }
        }
        assert!(coasting.late(coasting.steps()).is_none());
        for kernel in Kernel::available() {
            let (mut table, mut moments) =
                ([[9.0; 4], start].concat(), [[9.0; 8].as_slice(), &m, &v].concat());
            catch_up(kernel, &mut table, &mut moments, 4, &[(1, coasting.late(1).unwrap())]);
            assert_eq!((&table[..4], &moments[..8]), (&[9.0; 4][..], &[9.0; 8][..]));
            let near = |a: f32, b: f32, share: f32| (a - b).abs() <= 3e-7 + share * b.abs();
            for i in 0..4 {
                // Where gradients are as small as ε, it counts, and is not quite the same in every step.
                let share = if i == 3 { 0.03 } else { 1e-3 };
                let (found, expected) = (table[4 + i] - start[i], p[i] - start[i]);
                assert!(near(found, expected, share), "{first}, {gap}, {i}: {found} {expected}");
                assert!(near(moments[8 + i], m_then[i], 1e-3) && near(moments[12 + i], v_then[i], 1e-3));
            }
        }
        assert!((p[0] - start[0]).abs() > 1e-3 && (p[3] - start[3]).abs() > 1e-3);
    }
}
