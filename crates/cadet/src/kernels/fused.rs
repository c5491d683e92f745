//! The multi-layer perceptron behind the ratio net and the pre-embedding model, fused.
//!
//! ```text
//! z₁ = b₁ + Wx·x + We·e      h₁ = dropout(relu(z₁))
//! zₗ = bₗ + Wₗ·hₗ₋₁           hₗ = dropout(relu(zₗ))
//! f  = w·h_L + b
//! ```
//!
//! The first layer is split: `b₁ + We·e` is worked out once for the positive and the negative of a pair,
//! and when scoring once per task, `Wx·x` once per instance. Work goes in tiles of 32 pairs whose
//! activations stay in the first-level cache from the forward pass to the last gradient.

use super::gemm::{Consecutive, RowsAt, Then, add_outer, packed_times, rows_times};
use super::mlp::{Mlp, Output, padded};
use super::pointwise::{drop_units, mix, softplus_and_slopes};
use super::simd::{PAD, Simd, prefetch};
use super::{Floats, Kernel, dispatch};

const TILE_PAIRS: usize = 32;
const TILE_ROWS: usize = 2 * TILE_PAIRS;

/// Pairs of a batch: `task[i]` with its positive and its negative instance.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// Tasks.
    pub tasks: &'a [u32],
    /// Positives, `x ~ q_t`.
    pub positives: &'a [u32],
    /// Negatives, `x̃ ~ p`.
    pub negatives: &'a [u32],
    /// What is added to the responses of the positives and of the negatives; empty for nothing.
    pub offsets: [&'a [f32]; 2],
}

/// Rows of features, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Features<'a> {
    /// Numbers per row.
    pub width: usize,
    /// The numbers.
    pub values: &'a [f32],
}

/// Working memory of one thread.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// The gradient of `θ`, added up by [`Mlp::gradients`].
    pub gradient: Floats,
    from_tasks: Floats,
    activations: Vec<Floats>,
    delta: Floats,
    upstream: Floats,
    zeros: Floats,
}

impl Mlp {
    /// Working memory for one thread that trains.
    pub fn training_scratch(&self) -> Scratch {
        Scratch { gradient: Floats::zeros(self.theta.len()), ..self.scratch() }
    }

    /// Working memory for one thread that asks.
    pub fn scratch(&self) -> Scratch {
        let widest = self.layers.iter().map(|l| l.width).max().unwrap_or(PAD);
        let first = self.layers[0].width;
        Scratch {
            gradient: Floats::default(),
            from_tasks: Floats::zeros(TILE_PAIRS * first),
            activations: self.layers.iter().map(|l| Floats::zeros(TILE_ROWS * l.width)).collect(),
            delta: Floats::zeros(TILE_ROWS * widest),
            upstream: Floats::zeros(TILE_ROWS * widest.max(padded(self.shape.embedding))),
            zeros: Floats::zeros(widest.max(padded(self.shape.embedding))),
        }
    }

    /// Adds the gradients of `scale · Σ softplus(-f(x)) + softplus(f(x̃))` over the pairs to
    /// `scratch.gradient`, writes those of the tasks' rows to `task_gradient` (one row per pair), and
    /// returns the sum, unscaled. `noise` picks what dropout drops.
    #[allow(clippy::too_many_arguments)]
    pub fn gradients(
        &self,
        kernel: Kernel,
        x: Features<'_>,
        table: &[f32],
        pairs: Pairs<'_>,
        noise: u32,
        scale: f32,
        scratch: &mut Scratch,
        task_gradient: &mut [f32],
    ) -> f64 {
        let stride = self.shape.task_stride();
        let count = pairs.tasks.len();
        assert_eq!(x.width, self.shape.features);
        assert_eq!(scratch.gradient.len(), self.theta.len());
        assert_eq!((pairs.positives.len(), pairs.negatives.len()), (count, count));
        assert!(pairs.offsets.iter().all(|list| list.is_empty() || list.len() == count));
        assert_eq!(task_gradient.len(), count * stride);
        let (instances, tasks) = (x.values.len() / x.width, table.len() / stride);
        assert!(pairs.tasks.iter().all(|t| (*t as usize) < tasks));
        assert!(pairs.positives.iter().chain(pairs.negatives).all(|i| (*i as usize) < instances));
        let net = self;
        dispatch!(
            kernel,
            fn(
                net: &Mlp,
                x: Features<'_>,
                table: &[f32],
                pairs: Pairs<'_>,
                noise: u32,
                scale: f32,
                scratch: &mut Scratch,
                task_gradient: &mut [f32],
            ) -> f64,
            gradients
        )
    }

    /// `Wx·x` for rows of features: what an instance brings to the first layer, `first_width` floats each.
    pub fn instance_halves(&self, kernel: Kernel, rows: &[f32], out: &mut Vec<f32>) {
        let count = rows.len() / self.shape.features;
        assert_eq!(rows.len(), count * self.shape.features);
        out.resize(count * self.first_width(), 0.0);
        let net = self;
        dispatch!(kernel, fn(net: &Mlp, rows: &[f32], out: &mut [f32]), instance_halves);
    }

    /// `b₁ + We·e` for one row of the table of tasks.
    pub fn task_half(&self, kernel: Kernel, row: &[f32]) -> Vec<f32> {
        if self.shape.embedding == 0 {
            let first = self.layers[0];
            return self.theta[first.bias()..][..first.width].to_vec();
        }
        let mut half = Vec::new();
        self.task_halves(kernel, &row[..self.shape.task_stride()], &mut half);
        half
    }

    /// The same for rows of the table of tasks, one after the other.
    pub fn task_halves(&self, kernel: Kernel, rows: &[f32], out: &mut Vec<f32>) {
        let count = rows.len() / self.shape.task_stride();
        assert_eq!(rows.len(), count * self.shape.task_stride());
        out.resize(count * self.first_width(), 0.0);
        let (net, out) = (self, out.as_mut_slice());
        dispatch!(kernel, fn(net: &Mlp, rows: &[f32], out: &mut [f32]), task_halves);
    }

    /// Floats per half.
    pub fn first_width(&self) -> usize {
        self.layers[0].width
    }

    /// The response `f` of every instance half to one task.
    pub fn responses(
        &self,
        kernel: Kernel,
        halves: &[f32],
        task_half: &[f32],
        task_row: &[f32],
        scratch: &mut Scratch,
        out: &mut [f32],
    ) {
        assert_eq!(halves.len(), out.len() * self.first_width());
        assert_eq!(task_half.len(), self.first_width());
        assert!(task_row.len() >= self.shape.task_stride());
        let net = self;
        dispatch!(
            kernel,
            fn(
                net: &Mlp,
                halves: &[f32],
                task_half: &[f32],
                task_row: &[f32],
                scratch: &mut Scratch,
                out: &mut [f32],
            ),
            responses
        );
    }

    /// The last hidden layer `h_L` of every instance half, `trunk_width` floats each, added to nothing:
    /// what the heads of a pre-embedding model are linear in.
    pub fn trunk(
        &self,
        kernel: Kernel,
        halves: &[f32],
        task_half: &[f32],
        scratch: &mut Scratch,
        out: &mut [f32],
    ) {
        let count = halves.len() / self.first_width();
        assert_eq!(halves.len(), count * self.first_width());
        assert_eq!(task_half.len(), self.first_width());
        assert_eq!(out.len(), count * self.trunk_width());
        let net = self;
        dispatch!(
            kernel,
            fn(net: &Mlp, halves: &[f32], task_half: &[f32], scratch: &mut Scratch, out: &mut [f32]),
            trunk
        );
    }

    /// Floats per row of [`Mlp::trunk`].
    pub fn trunk_width(&self) -> usize {
        self.shape.last()
    }
}

/// `out[i] = values[rows[i]]` as pointers into a matrix of rows.
#[inline(always)]
fn point(values: &[f32], stride: usize, rows: &[u32], out: &mut [*const f32]) {
    for (out, row) in out.iter_mut().zip(rows) {
        *out = values[*row as usize * stride..].as_ptr();
    }
}

/// The rows of a matrix, one after the other.
#[inline(always)]
fn consecutive(values: &[f32], stride: usize) -> Consecutive {
    Consecutive { first: values.as_ptr(), stride }
}

/// The same row for all.
#[inline(always)]
fn same(row: *const f32) -> Consecutive {
    Consecutive { first: row, stride: 0 }
}

/// `We·e` of each pair: once for the positives, once more for the negatives.
#[derive(Clone, Copy)]
struct Twice {
    rows: Consecutive,
    count: usize,
}

impl RowsAt for Twice {
    #[inline(always)]
    fn row(self, r: usize) -> *const f32 {
        self.rows.row(if r < self.count { r } else { r - self.count })
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn gradients<V: Simd, const R: usize>(
    net: &Mlp,
    x: Features<'_>,
    table: &[f32],
    pairs: Pairs<'_>,
    noise: u32,
    scale: f32,
    scratch: &mut Scratch,
    task_gradient: &mut [f32],
) -> f64 {
    let stride = net.shape.task_stride();
    let mut loss = 0.0;
    for (n, task_gradient) in task_gradient.chunks_mut(TILE_PAIRS * stride).enumerate() {
        let range = n * TILE_PAIRS..(n * TILE_PAIRS + task_gradient.len() / stride);
        let tile = Pairs {
            tasks: &pairs.tasks[range.clone()],
            positives: &pairs.positives[range.clone()],
            negatives: &pairs.negatives[range.clone()],
            offsets: pairs.offsets.map(|list| list.get(range.clone()).unwrap_or(&[])),
        };
        let next = tile.tasks.len() + n * TILE_PAIRS..pairs.tasks.len().min((n + 2) * TILE_PAIRS);
        let next = [&pairs.positives[next.clone()], &pairs.negatives[next]];
        let noise = mix(noise ^ (n as u32).wrapping_mul(0x9e37_79b9));
        // SAFETY: the dispatcher chose `V`, and `Mlp::gradients` checked every index and size.
        loss += unsafe {
            tile_gradients::<V, R>(net, x, table, tile, next, noise, scale, scratch, task_gradient)
        };
    }
    loss
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile_gradients<V: Simd, const R: usize>(
    net: &Mlp,
    x: Features<'_>,
    table: &[f32],
    pairs: Pairs<'_>,
    next: [&[u32]; 2],
    noise: u32,
    scale: f32,
    scratch: &mut Scratch,
    task_gradient: &mut [f32],
) -> f64 {
    let shape = &net.shape;
    let stride = shape.task_stride();
    let (count, rows) = (pairs.tasks.len(), 2 * pairs.tasks.len());
    let theta = net.theta.as_ptr();
    let Scratch { gradient, from_tasks, activations, delta, upstream, zeros } = scratch;
    let grad = gradient.as_mut_ptr();
    let first = net.layers[0];

    let mut task_rows = [std::ptr::null(); TILE_PAIRS];
    point(table, stride, pairs.tasks, &mut task_rows);
    let task_rows = &task_rows[..count];
    let mut x_rows = [std::ptr::null(); TILE_ROWS];
    point(x.values, x.width, pairs.positives, &mut x_rows);
    point(x.values, x.width, pairs.negatives, &mut x_rows[count..]);
    let x_rows = &x_rows[..rows];
    // The next tile's rows are sent for, a part at a time: memory can only be asked for so much at once.
    let send_for = |part: usize| {
        for rows in next {
            rows.iter()
                .skip(part)
                .step_by(4)
                .for_each(|row| prefetch(&x.values[*row as usize * x.width..][..x.width]));
        }
    };

    // SAFETY: every pointer stays inside its matrix: all widths are padded, all buffers hold a tile.
    unsafe {
        // Forward. Rows 0..count are the positives, the rest the negatives.
        send_for(0);
        let bias = same(theta.add(first.bias()));
        let mut starts = Twice { rows: bias, count };
        if shape.embedding > 0 {
            let we = theta.add(first.at + shape.features * first.width);
            let out = from_tasks.as_mut_ptr();
            rows_times::<V, R>(count, task_rows, shape.embedding, bias, we, first.width, out, Then::Nothing);
            starts.rows = consecutive(from_tasks, first.width);
        }
        let wx = theta.add(first.at);
        let h = activations[0].as_mut_ptr();
        rows_times::<V, R>(rows, x_rows, shape.features, starts, wx, first.width, h, Then::Relu);
        send_for(1);
        drop_units(&mut activations[0][..rows * first.width], shape.dropout[0], noise);
        for (l, layer) in net.layers.iter().enumerate().skip(1) {
            let (before, after) = activations.split_at_mut(l);
            let h = before[l - 1].as_ptr();
            let bias = same(theta.add(layer.bias()));
            let (w, out) = (theta.add(layer.at), after[0].as_mut_ptr());
            packed_times::<V, R>(rows, h, layer.inputs, bias, w, layer.width, out, Then::Relu);
            let noise = mix(noise.wrapping_add(l as u32));
            drop_units(&mut after[0][..rows * layer.width], shape.dropout[l], noise);
        }

        // The responses, the loss, and its slope.
        let last = shape.last();
        let h = activations[activations.len() - 1].as_ptr();
        let mut outputs = [theta.wrapping_add(net.output_at); TILE_ROWS];
        if shape.output == Output::PerTask {
            outputs[..count].copy_from_slice(task_rows);
            outputs[count..rows].copy_from_slice(task_rows);
        }
        let mut slopes = [0.0f32; TILE_ROWS];
        apply_outputs::<V>(h, &outputs[..rows], last, &mut slopes[..rows]);
        for (offsets, slopes) in pairs.offsets.into_iter().zip(slopes.chunks_mut(count)) {
            slopes.iter_mut().zip(offsets).for_each(|(f, offset)| *f += offset);
        }
        let loss = softplus_and_slopes(&mut slopes, count, scale);

        // Backward through the output.
        send_for(2);
        let l = net.layers.len() - 1;
        let keep = |l: usize| 1.0 / (1.0 - shape.dropout[l]);
        if shape.output == Output::Shared {
            let grad_w = grad.add(net.output_at);
            for n in (0..last).step_by(V::LANES) {
                let mut sum = V::load(grad_w.add(n));
                for (r, slope) in slopes[..rows].iter().enumerate() {
                    sum = sum.fma(V::splat(*slope), V::load(h.add(r * last + n)));
                }
                sum.store(grad_w.add(n));
            }
            *grad_w.add(last) += slopes[..rows].iter().sum::<f32>();
        } else {
            for p in 0..count {
                let out = task_gradient.as_mut_ptr().add(p * stride);
                let (a, b) = (slopes[p], slopes[count + p]);
                for n in (0..last).step_by(V::LANES) {
                    let positive = V::load(h.add(p * last + n)).mul(V::splat(a));
                    let both = positive.fma(V::splat(b), V::load(h.add((count + p) * last + n)));
                    both.store(out.add(n));
                }
                std::slice::from_raw_parts_mut(out.add(last), PAD).fill(0.0);
                *out.add(last) = a + b;
            }
        }
        for (r, slope) in slopes[..rows].iter().enumerate() {
            let slope = V::splat(slope * keep(l));
            for n in (0..last).step_by(V::LANES) {
                let d = V::load(outputs[r].add(n)).mul(slope);
                d.gated(V::load(h.add(r * last + n))).store(delta.as_mut_ptr().add(r * last + n));
            }
        }

        // Backward through the hidden layers.
        for l in (1..net.layers.len()).rev() {
            let layer = net.layers[l];
            let below = consecutive(&activations[l - 1], layer.inputs);
            add_outer::<V, R>(rows, below, layer.inputs, delta.as_ptr(), layer.width, grad.add(layer.at));
            add_columns::<V>(delta.as_ptr(), rows, layer.width, grad.add(layer.bias()));
            let d = delta.as_ptr();
            let zero = same(zeros.as_ptr());
            let transposed = net.transposed.as_ptr().add(layer.transposed_at);
            let out = upstream.as_mut_ptr();
            packed_times::<V, R>(rows, d, layer.width, zero, transposed, layer.inputs, out, Then::Nothing);
            let scale = V::splat(keep(l - 1));
            for n in (0..rows * layer.inputs).step_by(V::LANES) {
                let gate = V::load(activations[l - 1].as_ptr().add(n));
                V::load(upstream.as_ptr().add(n)).mul(scale).gated(gate).store(delta.as_mut_ptr().add(n));
            }
        }

        // Backward into the first layer and the embeddings. Both rows of a pair share `We·e`.
        send_for(3);
        let width = first.width;
        add_outer::<V, R>(rows, x_rows, shape.features, delta.as_ptr(), width, grad.add(first.at));
        for n in (0..count * width).step_by(V::LANES) {
            let both = V::load(delta.as_ptr().add(n)).add(V::load(delta.as_ptr().add(count * width + n)));
            both.store(delta.as_mut_ptr().add(n));
        }
        add_columns::<V>(delta.as_ptr(), count, width, grad.add(first.bias()));
        if shape.embedding > 0 {
            let grad_we = grad.add(first.at + shape.features * width);
            add_outer::<V, R>(count, task_rows, shape.embedding, delta.as_ptr(), width, grad_we);
            let d = delta.as_ptr();
            let zero = same(zeros.as_ptr());
            let transposed = net.transposed.as_ptr().add(first.transposed_at);
            let out = task_gradient.as_mut_ptr();
            packed_times::<V, R>(count, d, width, zero, transposed, stride, out, Then::Nothing);
        }
        loss
    }
}

/// `out[r] = h[r] · output[r] + bias`, where an output row has its bias after its `width` weights.
///
/// # Safety
/// `h` has `out.len() · width` floats and every output row `width + 1`; `width` is a multiple of `PAD`.
#[inline(always)]
unsafe fn apply_outputs<V: Simd>(h: *const f32, output: impl RowsAt, width: usize, out: &mut [f32]) {
    let whole = out.len() / 8 * 8;
    // SAFETY: as promised.
    unsafe {
        for r in (0..whole).step_by(8) {
            let mut products = [V::splat(0.0); 8];
            for (i, product) in products.iter_mut().enumerate() {
                *product = products_of::<V>(h.add((r + i) * width), output.row(r + i), width);
            }
            for (i, sum) in V::sums(products).into_iter().enumerate() {
                out[r + i] = sum + *output.row(r + i).add(width);
            }
        }
        for (r, out) in out.iter_mut().enumerate().skip(whole) {
            let (h, output) = (h.add(r * width), output.row(r));
            *out = products_of::<V>(h, output, width).sum() + *output.add(width);
        }
    }
}

/// `out[i] += rows[i] · with`, for rows as long as `with`: a multiple of 16 floats.
pub fn add_products(kernel: Kernel, rows: &[f32], with: &[f32], out: &mut [f32]) {
    assert!(with.len().is_multiple_of(PAD) && rows.len() == out.len() * with.len());
    if !with.is_empty() {
        dispatch!(kernel, fn(rows: &[f32], with: &[f32], out: &mut [f32]), products);
    }
}

#[inline(always)]
fn products<V: Simd, const R: usize>(rows: &[f32], with: &[f32], out: &mut [f32]) {
    let width = with.len();
    let mut tiles = rows.chunks_exact(8 * width).zip(out.chunks_exact_mut(8));
    // SAFETY: the dispatcher chose `V`, and `add_products` checked the sizes.
    unsafe {
        for (rows, out) in &mut tiles {
            let mut products = [V::splat(0.0); 8];
            for (i, product) in products.iter_mut().enumerate() {
                *product = products_of::<V>(rows.as_ptr().add(i * width), with.as_ptr(), width);
            }
            out.iter_mut().zip(V::sums(products)).for_each(|(o, sum)| *o += sum);
        }
        let whole = out.len() / 8 * 8;
        for (row, out) in rows.chunks_exact(width).zip(out).skip(whole) {
            *out += products_of::<V>(row.as_ptr(), with.as_ptr(), width).sum();
        }
    }
}

/// Products of two rows, added up by lanes.
#[inline(always)]
unsafe fn products_of<V: Simd>(a: *const f32, b: *const f32, width: usize) -> V {
    // SAFETY: the caller has `width` floats in both, a multiple of `PAD`.
    unsafe {
        let mut sum = V::load(a).mul(V::load(b));
        for n in (V::LANES..width).step_by(V::LANES) {
            sum = sum.fma(V::load(a.add(n)), V::load(b.add(n)));
        }
        sum
    }
}

/// `sums += Σ_r d[r]`
///
/// # Safety
/// `d` has `rows · width` floats, `sums` has `width`, a multiple of `PAD`.
#[inline(always)]
unsafe fn add_columns<V: Simd>(d: *const f32, rows: usize, width: usize, sums: *mut f32) {
    for n in (0..width).step_by(V::LANES) {
        // SAFETY: as promised.
        unsafe {
            let mut sum = V::load(sums.add(n));
            for r in 0..rows {
                sum = sum.add(V::load(d.add(r * width + n)));
            }
            sum.store(sums.add(n));
        }
    }
}

#[inline(always)]
fn instance_halves<V: Simd, const R: usize>(net: &Mlp, rows: &[f32], out: &mut [f32]) {
    let (features, width) = (net.shape.features, net.first_width());
    let (count, x) = (rows.len() / features, consecutive(rows, features));
    let start = same(net.zeros.as_ptr());
    let w = net.theta[net.layers[0].at..].as_ptr();
    // SAFETY: the dispatcher chose `V`; the sizes were checked by the caller.
    unsafe { rows_times::<V, R>(count, x, features, start, w, width, out.as_mut_ptr(), Then::Nothing) };
}

#[inline(always)]
fn task_halves<V: Simd, const R: usize>(net: &Mlp, rows: &[f32], out: &mut [f32]) {
    let (first, stride) = (net.layers[0], net.shape.task_stride());
    let bias = &net.theta[first.bias()..][..first.width];
    let we = net.theta[first.at + net.shape.features * first.width..].as_ptr();
    let (count, e, start) = (rows.len() / stride, consecutive(rows, stride), same(bias.as_ptr()));
    let out = out.as_mut_ptr();
    // SAFETY: the dispatcher chose `V`; the sizes were checked by the caller.
    unsafe {
        rows_times::<V, R>(count, e, net.shape.embedding, start, we, first.width, out, Then::Nothing);
    }
}

/// Runs one tile of instance halves up to the last hidden layer and returns how many rows it has.
#[inline(always)]
fn tile_trunk<V: Simd, const R: usize>(
    net: &Mlp,
    halves: &[f32],
    task_half: &[f32],
    scratch: &mut Scratch,
) -> usize {
    let width = net.first_width();
    let rows = halves.len() / width;
    let theta = net.theta.as_ptr();
    // SAFETY: the dispatcher chose `V`; a tile fits the scratch, and all widths are padded.
    unsafe {
        let h = scratch.activations[0].as_mut_ptr();
        for n in (0..width).step_by(V::LANES) {
            let from_task = V::load(task_half.as_ptr().add(n));
            for at in (n..rows * width).step_by(width) {
                V::load(halves.as_ptr().add(at)).add(from_task).relu().store(h.add(at));
            }
        }
        for (l, layer) in net.layers.iter().enumerate().skip(1) {
            let (before, after) = scratch.activations.split_at_mut(l);
            let h = before[l - 1].as_ptr();
            let bias = same(theta.add(layer.bias()));
            let (w, out) = (theta.add(layer.at), after[0].as_mut_ptr());
            packed_times::<V, R>(rows, h, layer.inputs, bias, w, layer.width, out, Then::Relu);
        }
    }
    rows
}

#[inline(always)]
fn responses<V: Simd, const R: usize>(
    net: &Mlp,
    halves: &[f32],
    task_half: &[f32],
    task_row: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let last = net.shape.last();
    let output = match net.shape.output {
        Output::Shared => net.theta[net.output_at..].as_ptr(),
        Output::PerTask => task_row.as_ptr(),
    };
    for (halves, out) in halves.chunks(TILE_ROWS * net.first_width()).zip(out.chunks_mut(TILE_ROWS)) {
        tile_trunk::<V, R>(net, halves, task_half, scratch);
        let h = scratch.activations[scratch.activations.len() - 1].as_ptr();
        // SAFETY: the dispatcher chose `V`; an output row has `last` weights and its bias.
        unsafe { apply_outputs::<V>(h, same(output), last, out) };
    }
}

#[inline(always)]
fn trunk<V: Simd, const R: usize>(
    net: &Mlp,
    halves: &[f32],
    task_half: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let last = net.shape.last();
    for (halves, out) in halves.chunks(TILE_ROWS * net.first_width()).zip(out.chunks_mut(TILE_ROWS * last)) {
        tile_trunk::<V, R>(net, halves, task_half, scratch);
        out.copy_from_slice(&scratch.activations[scratch.activations.len() - 1][..out.len()]);
    }
}
