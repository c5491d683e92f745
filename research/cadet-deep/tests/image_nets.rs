//! The image nets against burn's autodiff, and against themselves: precisions, kernels, threads,
//! interruptions.

use burn_tensor::activation::softplus;
use burn_tensor::module::{conv2d, max_pool2d};
use burn_tensor::ops::ConvOptions;
use burn_tensor::{Device, Gradients, Tensor, TensorData};
use cadet::learn::estimator::{Estimator, Rates, Tensor as Named};
use cadet::learn::sampler::Batch;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::rng::{Purpose, Rng};
use cadet::{Instances, Kernel};
use cadet_deep::kernels::{Engine, Precision};
use cadet_deep::net::{Grid, LayerConfig, Net, Norm};
use cadet_deep::{Augment, Contrast, DeepConfig, Negatives, Trunk};

const TASKS: usize = 5;
const EMBEDDING: usize = 6;
/// Not a multiple of 32, so that the last panel has empty lanes.
const PAIRS: usize = 37;
const SIDE: usize = 20;
const CHANNELS: usize = 2;

fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::at(seed, Purpose::World, [0, 0]);
    (0..len).map(|_| rng.normal()).collect()
}

fn config(negatives: Negatives, precision: Precision) -> DeepConfig {
    DeepConfig {
        trunk: Trunk::Cnn { side: SIDE, channels: CHANNELS, width: 6 },
        features: 10,
        negatives,
        augment: Augment::default(),
        precision,
    }
}

fn data() -> (Instances, Batch, TaskEmbeddings) {
    let width = SIDE * SIDE * CHANNELS;
    let x = Instances::new(width, random(50 * width, 1)).unwrap();
    let mut rng = Rng::at(2, Purpose::World, [0, 0]);
    let mut draw = |below: usize| (0..PAIRS).map(|_| rng.below(below) as u32).collect();
    let batch = Batch { tasks: draw(TASKS), positives: draw(50), negatives: draw(50) };
    (x, batch, TaskEmbeddings::new(EMBEDDING, random(TASKS * EMBEDDING, 3)).unwrap())
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), &device())
}

fn learned<const D: usize>(tensors: &[Named], name: &str, shape: [usize; D]) -> Tensor<D> {
    let found = tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name}"));
    tensor(found.values.clone(), shape).set_require_grad(true)
}

fn numbers<const D: usize>(t: Tensor<D>) -> Vec<f32> {
    t.into_data().try_into_vec().unwrap()
}

/// Numbers that a gradient is compared with, by the name of its parameter.
type Slopes = Vec<(String, Vec<f32>)>;

fn close(found: &Slopes, expected: &Slopes, tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (name, expected) in expected {
        let (_, found) = found.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(found.len(), expected.len(), "{name}");
        let size = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (i, (f, e)) in found.iter().zip(expected).enumerate() {
            assert!((f - e).abs() < tolerance * size.max(1e-2), "{name} {i}: {f} {e}, of at most {size}");
        }
    }
}

/// After one step of Adam the first moment is a tenth of the gradient.
fn of_model(model: &mut Contrast, x: &Instances, batch: &Batch) -> (f64, Slopes) {
    let loss = model.step(x, batch, Rates { net: 1e-3, tasks: 1e-3 }, &mut Workers::new(1));
    let moments = model.optimiser().1.into_iter();
    let first = moments.filter_map(|t| Some((t.name.strip_suffix(".m")?.to_owned(), t.values)));
    (loss, first.map(|(name, m)| (name, m.iter().map(|m| 10.0 * m).collect())).collect())
}

/// `[outputs, kernel·kernel, inputs]` as burn wants it, `[outputs, inputs, kernel, kernel]`, and back.
fn as_burn(weight: Tensor<3>, kernel: usize) -> Tensor<4> {
    let [outputs, rest, last] = weight.dims();
    let inputs = rest * last / (kernel * kernel);
    weight.reshape([outputs, kernel, kernel, inputs]).permute([0, 3, 1, 2])
}

fn batch_norm(y: Tensor<4>, epsilon: f32) -> Tensor<4> {
    let [n, channels, h, w] = y.dims();
    let rows = y.permute([1, 0, 2, 3]).reshape([channels, n * h * w]);
    let mean = rows.clone().mean_dim(1);
    let centred = rows - mean;
    let variance = centred.clone().square().mean_dim(1);
    let normal = centred / (variance + epsilon).sqrt();
    normal.reshape([channels, n, h, w]).permute([1, 0, 2, 3])
}

fn images(rows: Vec<f32>, count: usize, side: usize, channels: usize) -> Tensor<4> {
    tensor(rows, [count, side, side, channels]).permute([0, 3, 1, 2])
}

/// The trunk and `u(x)` in burn: `[rows, features]`.
fn burn_features(parameters: &[(String, Tensor<3>)], x: Tensor<4>) -> Tensor<2> {
    let get = |name: &str| parameters.iter().find(|(n, _)| n == name).unwrap().1.clone();
    let shapes = [[4, 2, 1], [4, 2, 1], [5, 1, 0], [1, 1, 0]];
    let mut z = x;
    for (i, [kernel, stride, pad]) in shapes.into_iter().enumerate() {
        let weight = as_burn(get(&format!("trunk.{i}.weight")), kernel);
        let y = conv2d(z, weight, None, ConvOptions::new([stride; 2], [pad; 2], [1; 2], 1));
        let channels = y.dims()[1];
        let column = |name: &str| get(&format!("trunk.{i}.{name}")).reshape([1, channels, 1, 1]);
        z = batch_norm(y, 1e-5) * column("gain") + column("shift");
        if i < 3 {
            z = burn_tensor::activation::relu(z);
        }
    }
    let [n, channels, ..] = z.dims();
    let weight = get("trunk.4.weight");
    let [outputs, ..] = weight.dims();
    z.reshape([n, channels]).matmul(weight.reshape([outputs, channels]).transpose())
        + get("trunk.4.bias").reshape([1, outputs])
}

/// Loss and gradients of the whole net by autodiff; weights `[row][task]` of positives and negatives are
/// given.
fn of_burn(
    model: &Contrast,
    x: &Instances,
    instances: &[u32],
    positive: Vec<f32>,
    negative: Vec<f32>,
    product: bool,
) -> (f64, Slopes) {
    let saved = model.parameters();
    let is_learned = |t: &&Named| !t.name.ends_with(".mean") && !t.name.ends_with(".variance");
    let parameters: Vec<(String, Tensor<3>)> = saved
        .iter()
        .filter(is_learned)
        .map(|t| (t.name.clone(), learned(&saved, &t.name, [t.shape[0], t.shape[1], t.shape[2]])))
        .collect();
    let get = |name: &str| {
        let t = parameters.iter().find(|(n, _)| n == name).unwrap().1.clone();
        let [rows, _, width] = t.dims();
        t.reshape([rows, width])
    };
    let rows: Vec<f32> = instances.iter().flat_map(|i| x.row(*i)).copied().collect();
    let u = burn_features(&parameters, images(rows, instances.len(), SIDE, CHANNELS));
    let (count, width) = (instances.len(), u.dims()[1]);
    let f = if product {
        let v = get("tasks").matmul(get("task.weight")) + get("task.bias");
        u.matmul((v * get("output.weight")).transpose()) + get("output.bias")
    } else {
        let heads = get("tasks");
        let tasks = heads.dims()[0];
        let (h, b) = (heads.clone().slice([0..tasks, 0..width]), heads.slice([0..tasks, width..width + 1]));
        u.matmul(h.transpose()) + b.transpose()
    };
    let (positive, negative) = (tensor(positive, [count, TASKS]), tensor(negative, [count, TASKS]));
    let loss = (softplus(f.clone().neg(), 1.0) * positive + softplus(f, 1.0) * negative).sum();
    let value: f32 = loss.clone().into_scalar();
    let gradients: Gradients = loss.backward();
    let slope = |(name, t): &(String, Tensor<3>)| (name.clone(), numbers(t.grad(&gradients).unwrap()));
    (value.into(), parameters.iter().map(slope).collect())
}

/// Who is a positive and a negative of what, written out pair by pair.
fn pair_weights(negatives: Negatives, batch: &Batch) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
    let mut instances = batch.positives.clone();
    if negatives != Negatives::Batch {
        instances.extend(&batch.negatives);
    }
    let (mut positive, mut negative) =
        (vec![0.0; instances.len() * TASKS], vec![0.0; instances.len() * TASKS]);
    let n = PAIRS as f32;
    for (i, task) in batch.tasks.iter().enumerate() {
        let task = *task as usize;
        positive[i * TASKS + task] += 1.0 / n;
        match negatives {
            Negatives::Drawn => negative[(PAIRS + i) * TASKS + task] += 1.0 / n,
            Negatives::Population => {
                (PAIRS..2 * PAIRS).for_each(|j| negative[j * TASKS + task] += 1.0 / (n * n));
            }
            Negatives::Batch => (0..PAIRS)
                .filter(|j| *j != i)
                .for_each(|j| negative[j * TASKS + task] += 1.0 / (n * (n - 1.0))),
        }
    }
    (instances, positive, negative)
}

#[test]
fn the_ratio_net_has_burns_gradients_for_all_negatives() {
    let (x, batch, tasks) = data();
    for negatives in [Negatives::Drawn, Negatives::Population, Negatives::Batch] {
        let mut ratio = config(negatives, Precision::F32).ratio(&tasks, 4).unwrap();
        let (instances, positive, negative) = pair_weights(negatives, &batch);
        let (expected, slopes) = of_burn(ratio.model(), &x, &instances, positive, negative, true);
        let (found, own) = of_model(ratio.model_mut(), &x, &batch);
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        close(&own, &slopes, 1e-4);
    }
}

#[test]
fn the_pre_embedding_model_has_burns_gradients() {
    let (x, batch, _) = data();
    let mut heads = config(Negatives::Batch, Precision::F32).heads(TASKS, 4).unwrap();
    let (instances, positive, negative) = pair_weights(Negatives::Batch, &batch);
    let (expected, slopes) = of_burn(heads.model(), &x, &instances, positive, negative, false);
    let (found, own) = of_model(heads.model_mut(), &x, &batch);
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    close(&own, &slopes, 1e-4);
}

/// Deep SVDD's kinds of layers: no affine norm, a leaky slope, pooling that leaves a column over; then a bias
/// alone, and every position enlarged.
fn pooled([between, outputs]: [usize; 2], second: [usize; 3]) -> Vec<LayerConfig> {
    let norm = Some(Norm { affine: false, epsilon: 1e-4 });
    let first = LayerConfig { slope: 0.1, pool: 2, norm, ..LayerConfig::conv([3, 1, 1], between) };
    let second = LayerConfig { bias: true, norm: None, enlarge: 2, ..LayerConfig::conv(second, outputs) };
    vec![first, second]
}

#[test]
fn pooling_enlarging_leaky_slopes_and_biases_have_burns_gradients() {
    pooled_has_burns_gradients(7, [5, 7], [2, 2, 1]);
}

/// Two blocks of channels under several taps, and positions that no tap meets.
#[test]
fn many_channels_and_strides_beyond_the_kernel_have_burns_gradients() {
    pooled_has_burns_gradients(11, [40, 7], [2, 3, 0]);
}

/// Convolutions that take fewer products (`toom.rs`): one tile and several, those that reach beyond the
/// output, padding, and strides that share the taps out evenly and not.
#[test]
fn convolutions_with_fewer_products_have_burns_gradients() {
    for (side, widths, shape) in [
        (16, [40, 70], [5, 1, 0]),
        (20, [128, 128], [5, 1, 2]),
        (22, [64, 64], [4, 1, 0]),
        (24, [64, 64], [3, 1, 1]),
        (32, [64, 128], [4, 2, 1]),
        (32, [64, 128], [5, 2, 2]),
    ] {
        pooled_has_burns_gradients(side, widths, shape);
    }
}

/// Fewer products, too, are added up in an order that depends on shapes alone, lanes do not meet, and kernels
/// agree.
#[test]
fn fewer_products_give_the_same_bytes_on_any_number_of_threads_and_alone() {
    let grid = Grid { height: 16, width: 16, channels: 3 };
    let x = random(PAIRS * grid.len(), 5);
    let run = |threads: usize, kernel: Kernel| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let engine = Engine::new(Precision::F32).unwrap().with_kernel(kernel);
            let mut rng = Rng::at(6, Purpose::Init, [0, 0]);
            let mut net = Net::new("net", grid, &pooled([40, 70], [5, 1, 0]), engine, &mut rng).unwrap();
            let mut passes = net.passes();
            let row = |i: usize| &x[i * grid.len()..][..grid.len()];
            net.load(&mut passes, PAIRS, |i, out| out.copy_from_slice(row(i)));
            net.forward(&mut passes, 1.0);
            let slopes = random(PAIRS * net.output().len(), 7);
            net.set_output_gradient(&mut passes, &slopes);
            net.backward(&mut passes);
            let slopes: Slopes = net.learned().map(|p| (p.name().to_owned(), p.slope())).collect();
            let mut rows = vec![0.0; PAIRS * net.output().len()];
            net.infer(&mut passes);
            net.rows(&passes, &mut rows);
            let mut alone = vec![0.0; net.output().len()];
            net.load(&mut passes, 1, |_, out| out.copy_from_slice(row(PAIRS - 1)));
            net.infer(&mut passes);
            net.rows(&passes, &mut alone);
            assert_eq!(alone, rows[rows.len() - alone.len()..]);
            (slopes, rows)
        })
    };
    let kernels = Kernel::available();
    let (expected, _) = run(1, kernels[0]);
    for kernel in kernels {
        let (slopes, rows) = run(1, kernel);
        assert!((slopes.clone(), rows) == run(3, kernel));
        close(&slopes, &expected, 1e-4);
    }
}

fn pooled_has_burns_gradients(side: usize, [between, outputs]: [usize; 2], shape: [usize; 3]) {
    let (count, channels) = (PAIRS, 3);
    let grid = Grid { height: side, width: side, channels };
    let x = random(count * grid.len(), 5);
    let engine = Engine::new(Precision::F32).unwrap();
    let mut net = Net::new(
        "net",
        grid,
        &pooled([between, outputs], shape),
        engine,
        &mut Rng::at(6, Purpose::Init, [0, 0]),
    )
    .unwrap();
    let mut passes = net.passes();
    net.load(&mut passes, count, |i, out| out.copy_from_slice(&x[i * grid.len()..][..grid.len()]));
    net.forward(&mut passes, 1.0);
    let output = net.output();
    let mut found = vec![0.0; count * output.len()];
    net.rows(&passes, &mut found);

    let saved = net.saved();
    let first = learned(&saved, "net.0.weight", [between, 1, 27]);
    let second = learned(&saved, "net.1.weight", [outputs, shape[0] * shape[0], between]);
    let bias = learned(&saved, "net.1.bias", [1, 1, outputs]);
    let options = |stride, pad| ConvOptions::new([stride; 2], [pad; 2], [1; 2], 1);
    let y = conv2d(images(x, count, side, channels), as_burn(first.clone(), 3), None, options(1, 1));
    let t = batch_norm(y, 1e-4);
    let z = burn_tensor::activation::leaky_relu(t, 0.1);
    let z = max_pool2d(z, burn_tensor::ops::MaxPoolOptions::new([2; 2]));
    let y = conv2d(z, as_burn(second.clone(), shape[0]), None, options(shape[1], shape[2]));
    let z = burn_tensor::activation::relu(y + bias.clone().reshape([1, outputs, 1, 1]));
    let [_, _, height, width] = z.dims();
    let z = z.reshape([count, outputs, height, 1, width, 1]).repeat(&[1, 1, 1, 2, 1, 2]);
    let z = z.reshape([count, outputs, 2 * height, 2 * width]).permute([0, 2, 3, 1]);
    let expected = numbers(z.clone());
    assert_eq!(expected.len(), found.len());
    let size = expected.iter().fold(1.0, |size: f32, e| size.max(e.abs()));
    for (f, e) in found.iter().zip(&expected) {
        assert!((f - e).abs() < 1e-5 * size, "{f} {e}, of at most {size}");
    }

    let slopes = random(expected.len(), 7);
    let gradients =
        (z * tensor(slopes.clone(), [count, output.height, output.width, outputs])).sum().backward();
    net.set_output_gradient(&mut passes, &slopes);
    net.backward(&mut passes);
    let own: Slopes = net.learned().map(|p| (p.name().to_owned(), p.slope())).collect();
    let theirs = [("net.0.weight", &first), ("net.1.weight", &second), ("net.1.bias", &bias)];
    let theirs = theirs.map(|(name, t)| (name.to_owned(), numbers(t.grad(&gradients).unwrap()))).to_vec();
    close(&own, &theirs, 1e-4);
}

#[test]
fn every_kernel_gives_the_same_gradients() {
    let (x, batch, tasks) = data();
    let slopes = |kernel: Kernel| {
        let mut ratio = config(Negatives::Batch, Precision::F32).ratio(&tasks, 4).unwrap();
        ratio.model_mut().use_kernel(kernel);
        of_model(ratio.model_mut(), &x, &batch)
    };
    let kernels = Kernel::available();
    let (loss, expected) = slopes(kernels[0]);
    for kernel in &kernels[1..] {
        let (found, own) = slopes(*kernel);
        assert!((found - loss).abs() < 1e-5, "{}: {found} {loss}", kernel.name());
        close(&own, &expected, 1e-4);
    }
}

/// bfloat16 keeps 8 bits, so each factor of a product is off by up to 1 in 256. The whole net's gradients go
/// through ten such products and through batch norm; their blocks stay within 15 % of single precision's in
/// length and direction.
#[test]
fn bf16_is_close_to_f32() {
    let (x, batch, tasks) = data();
    let Ok(mut half) = config(Negatives::Batch, Precision::Bf16).ratio(&tasks, 4) else {
        eprintln!("no AMX here: nothing compared");
        return;
    };
    let mut full = config(Negatives::Batch, Precision::F32).ratio(&tasks, 4).unwrap();
    let (expected, slopes) = of_model(full.model_mut(), &x, &batch);
    let (found, own) = of_model(half.model_mut(), &x, &batch);
    assert!((found - expected).abs() < 0.01, "{found} {expected}");
    for ((name, found), (_, expected)) in own.iter().zip(&slopes) {
        let apart: f32 = found.iter().zip(expected).map(|(f, e)| (f - e).powi(2)).sum();
        let size: f32 = expected.iter().map(|e| e * e).sum();
        assert!(apart.sqrt() < 0.15 * size.sqrt(), "{name}: {} of {}", apart.sqrt(), size.sqrt());
    }
}

/// One product: the error is at most 1 in 128 of the sum of the factors' sizes.
#[test]
fn a_bf16_layer_is_as_exact_as_its_rounding() {
    let grid = Grid { height: 6, width: 6, channels: 40 };
    let layers = [LayerConfig { bias: false, ..LayerConfig::linear(50) }; 2];
    let layers =
        [LayerConfig { kernel: 3, pad: 1, stride: 2, ..layers[0] }, LayerConfig { kernel: 2, ..layers[1] }];
    let x: Vec<f32> = random(PAIRS * grid.len(), 8);
    let run = |precision, layers: &[LayerConfig]| {
        let engine = Engine::new(precision).ok()?;
        let mut net = Net::new("net", grid, layers, engine, &mut Rng::at(9, Purpose::Init, [0, 0])).unwrap();
        let mut passes = net.passes();
        net.load(&mut passes, PAIRS, |i, out| out.copy_from_slice(&x[i * grid.len()..][..grid.len()]));
        net.forward(&mut passes, 0.0);
        let mut rows = vec![0.0; PAIRS * net.output().len()];
        net.rows(&passes, &mut rows);
        Some(rows)
    };
    // Inputs are about 1, and weights below 1/√360 in the first layer: 360 of them sum up to at most 19.
    for (layers, limit) in [(&layers[..1], 19.0 / 128.0), (&layers[..], 0.05)] {
        let (Some(half), Some(full)) = (run(Precision::Bf16, layers), run(Precision::F32, layers)) else {
            return;
        };
        for (h, f) in half.iter().zip(&full) {
            assert!((h - f).abs() < limit, "{h} {f}");
        }
        assert!(half != full);
    }
}

fn precisions() -> Vec<Precision> {
    let both = [Precision::F32, Precision::Bf16];
    both.into_iter().filter(|p| Engine::new(*p).is_ok()).collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bytes_and_so_does_an_interrupted_run() {
    let (x, batch, tasks) = data();
    let other = Batch { tasks: batch.positives.iter().map(|p| p % TASKS as u32).collect(), ..batch.clone() };
    for precision in precisions() {
        let config =
            DeepConfig { augment: Augment { pad: 2, flip: true }, ..config(Negatives::Drawn, precision) };
        let rates = [
            Rates { net: 1e-3, tasks: 1e-3 },
            Rates { net: 0.0, tasks: 1e-3 },
            Rates { net: 1e-3, tasks: 0.0 },
        ];
        let run = |threads: usize, stop: bool| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut ratio = config.ratio(&tasks, 4).unwrap();
                for (i, rates) in rates.into_iter().enumerate() {
                    if stop && i == 1 {
                        let (steps, moments) = ratio.model().optimiser();
                        let parameters = ratio.model().parameters();
                        ratio = config.ratio(&tasks, 4).unwrap();
                        ratio.model_mut().set_parameters(parameters).unwrap();
                        ratio.model_mut().set_optimiser(steps, moments).unwrap();
                    }
                    let batch = if i == 1 { &other } else { &batch };
                    ratio.model_mut().step(&x, batch, rates, &mut Workers::new(1));
                }
                (ratio.model().parameters(), ratio.model().features(&x))
            })
        };
        let once = run(1, false);
        assert!(once == run(2, false) && once == run(3, true));
    }
}

#[test]
fn what_has_no_rate_stays() {
    let (x, batch, tasks) = data();
    let mut ratio = config(Negatives::Batch, Precision::F32).ratio(&tasks, 4).unwrap();
    let before = ratio.model().parameters();
    ratio.model_mut().step(&x, &batch, Rates { net: 0.0, tasks: 1e-3 }, &mut Workers::new(1));
    let after = ratio.model().parameters();
    for (b, a) in before.iter().zip(&after) {
        assert_eq!(b == a, b.name != "tasks", "{}", b.name);
    }
    ratio.model_mut().step(&x, &batch, Rates { net: 1e-3, tasks: 0.0 }, &mut Workers::new(1));
    for (b, a) in after.iter().zip(ratio.model().parameters()) {
        assert_eq!(*b == a, b.name == "tasks", "{}", b.name);
    }
}

#[test]
fn a_row_scores_the_same_alone_and_among_others() {
    let (x, _, tasks) = data();
    let ratio = config(Negatives::Batch, Precision::Auto).ratio(&tasks, 4).unwrap();
    let all = ratio.model().features(&x);
    let familiarity = ratio.familiarity(&all, &ratio.embeddings().unwrap()).unwrap();
    let mut alone = [0.0];
    ratio.model().responses(&x, &[3], &[41], &mut alone);
    assert_eq!(alone[0], familiarity[41 * TASKS + 3]);
}

#[test]
fn two_sided_features_are_the_mean_over_an_image_and_its_mirror_image() {
    let (x, _, tasks) = data();
    let mirrored: Vec<f32> = x
        .values()
        .chunks_exact(SIDE * CHANNELS)
        .flat_map(|line| line.chunks_exact(CHANNELS).rev().flatten())
        .copied()
        .collect();
    let turned = Instances::new(x.width(), mirrored).unwrap();
    let instances: Vec<u32> = (0..x.len() as u32).collect();
    for flip in [true, false] {
        let augment = Augment { pad: 2, flip };
        let config = DeepConfig { augment, ..config(Negatives::Batch, Precision::F32) };
        let ratio = config.ratio(&tasks, 4).unwrap();
        let model = ratio.model();
        let (plain, other) = (model.features(&x), model.features(&turned));
        assert!(plain.iter().zip(&other).any(|(a, b)| (a - b).abs() > 1e-3));
        let both = model.two_sided_features_of(&x, &instances);
        assert_eq!(both == plain, !flip);
        let expected = plain.iter().zip(&other).map(|(a, b)| if flip { 0.5 * (a + b) } else { *a });
        both.iter().zip(expected).for_each(|(found, e)| assert!((found - e).abs() < 1e-6, "{found} {e}"));
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let (_, _, tasks) = data();
    let small = DeepConfig {
        trunk: Trunk::Cnn { side: 12, channels: 3, width: 8 },
        ..config(Negatives::Batch, Precision::F32)
    };
    let error = small.ratio(&tasks, 1).unwrap_err().to_string();
    assert!(error.contains("20 × 20"), "{error}");
    let ratio = config(Negatives::Batch, Precision::F32).ratio(&tasks, 1).unwrap();
    let other = TaskEmbeddings::new(EMBEDDING + 1, vec![0.0; EMBEDDING + 1]).unwrap();
    assert!(ratio.familiarity(&[0.0; 10], &other).is_err());
}
