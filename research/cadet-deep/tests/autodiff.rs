//! The core's fused kernels against burn's autodiff: the same loss, the same gradients.

use burn_tensor::activation::{relu, softplus};
use burn_tensor::{Device, Int, Tensor, TensorData};
use cadet::Instances;
use cadet::learn::contrastive::Contrastive;
use cadet::learn::estimator::{Estimator, Rates, Tensor as Named};
use cadet::learn::heads::Heads;
use cadet::learn::ratio::RatioConfig;
use cadet::learn::sampler::Batch;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::rng::{Purpose, Rng};

// Hidden widths and the embedding fill whole vectors, so that the optimiser's state has no padding but the
// last bias's.
const FEATURES: usize = 21;
const HIDDEN: [usize; 3] = [32, 32, 16];
const EMBEDDING: usize = 16;
const TASKS: usize = 9;
const PAIRS: usize = 300;

fn data() -> (Instances, Batch) {
    let mut rng = Rng::at(3, Purpose::World, [0, 0]);
    let x = Instances::new(FEATURES, (0..50 * FEATURES).map(|_| rng.normal()).collect()).unwrap();
    let mut draw = |below: usize| (0..PAIRS).map(|_| rng.below(below) as u32).collect();
    let batch = Batch { tasks: draw(TASKS), positives: draw(50), negatives: draw(50) };
    (x, batch)
}

/// The gradients of the net and of the tasks' rows: after one step of Adam the first moment is a tenth of
/// them.
fn of_kernels(model: &mut Contrastive, x: &Instances, batch: &Batch) -> (f64, Vec<f32>, Vec<f32>) {
    let loss = model.step(x, batch, Rates { net: 1e-3, tasks: 1e-3 }, &mut Workers::new(1));
    let moments = model.optimiser().1;
    let of = |name: &str| {
        moments.iter().find(|t| t.name == name).unwrap().values.iter().map(|m| 10.0 * m).collect()
    };
    (loss, of("net.m"), of("tasks.mv"))
}

struct Net {
    /// Weight and bias of every layer, in order.
    layers: Vec<Tensor<2>>,
    tasks: Tensor<2>,
}

fn net(parameters: &[Named]) -> Net {
    let device = Device::flex().autodiff();
    let tensor = |t: &Named| {
        let data = TensorData::new(t.values.clone(), [t.shape[0], t.shape[1]]);
        Tensor::<2>::from_data(data, &device).set_require_grad(true)
    };
    let (tasks, layers) = parameters.split_last().unwrap();
    Net { layers: layers.iter().map(tensor).collect(), tasks: tensor(tasks) }
}

fn rows(x: &Instances, of: &[u32]) -> Tensor<2> {
    let values: Vec<f32> = of.iter().flat_map(|i| x.row(*i)).copied().collect();
    Tensor::from_data(TensorData::new(values, [of.len(), x.width()]), &Device::flex().autodiff())
}

fn hidden(layers: &[Tensor<2>], mut h: Tensor<2>) -> Tensor<2> {
    for layer in layers.chunks_exact(2) {
        h = relu(h.matmul(layer[0].clone()) + layer[1].clone());
    }
    h
}

fn compare(kernel: (f64, Vec<f32>, Vec<f32>), net: Net, loss: Tensor<1>, stride: usize, places: &[usize]) {
    let (found, of_net, of_tasks) = kernel;
    let expected: f32 = loss.clone().into_scalar();
    assert!((found - f64::from(expected)).abs() < 1e-5, "{found} {expected}");
    let gradients = loss.backward();
    let numbers = |t: &Tensor<2>| t.grad(&gradients).unwrap().into_data().try_into_vec::<f32>().unwrap();
    let expected: Vec<f32> = net.layers.iter().flat_map(numbers).collect();
    assert!(of_net.len() >= expected.len());
    for (i, (found, expected)) in of_net.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 1e-5, "net {i}: {found} {expected}");
    }
    assert!(
        expected.iter().filter(|g| g.abs() > 1e-4).count() > expected.len() / 4,
        "most gradients are not 0"
    );
    let expected = numbers(&net.tasks);
    for (task, row) in expected.chunks_exact(places.len()).enumerate() {
        for (place, expected) in places.iter().zip(row) {
            let found = of_tasks[task * 2 * stride + place];
            assert!((found - expected).abs() < 1e-5, "task {task}: {found} {expected}");
        }
    }
}

#[test]
fn the_ratio_net() {
    let (x, batch) = data();
    let mut rng = Rng::at(4, Purpose::World, [0, 0]);
    let tasks =
        TaskEmbeddings::new(EMBEDDING, (0..TASKS * EMBEDDING).map(|_| rng.normal()).collect()).unwrap();
    let config = RatioConfig { hidden: HIDDEN.to_vec(), dropout: vec![0.0; 3] };
    let ratio = config.init(FEATURES, &tasks, 1).unwrap();
    let net = net(&ratio.parameters());
    let indices: Vec<i64> = batch.tasks.iter().map(|t| i64::from(*t)).collect();
    let device = Device::flex().autodiff();
    let e =
        net.tasks.clone().select(0, Tensor::<1, Int>::from_data(TensorData::new(indices, [PAIRS]), &device));
    let (inner, output) = net.layers.split_at(6);
    let f = |of: &[u32]| {
        let h = hidden(inner, Tensor::cat(vec![rows(&x, of), e.clone()], 1));
        h.matmul(output[0].clone()) + output[1].clone()
    };
    let loss = (softplus(f(&batch.positives).neg(), 1.0) + softplus(f(&batch.negatives), 1.0)).mean();
    let places: Vec<usize> = (0..EMBEDDING).collect();
    compare(ratio.trained(1, |model| of_kernels(model, &x, &batch)).1, net, loss, EMBEDDING, &places);
}

#[test]
fn the_pre_embedding_model() {
    let (x, batch) = data();
    let config = RatioConfig { hidden: HIDDEN.to_vec(), dropout: vec![0.0; 3] };
    let heads = Heads::init(&config, FEATURES, TASKS, 1).unwrap();
    let net = net(&heads.parameters());
    let indices: Vec<i64> = batch.tasks.iter().map(|t| i64::from(*t)).collect();
    let device = Device::flex().autodiff();
    let head =
        net.tasks.clone().select(0, Tensor::<1, Int>::from_data(TensorData::new(indices, [PAIRS]), &device));
    let one = Tensor::<2>::ones([PAIRS, 1], &device);
    let f = |of: &[u32]| {
        let h = Tensor::cat(vec![hidden(&net.layers, rows(&x, of)), one.clone()], 1);
        (h * head.clone()).sum_dim(1)
    };
    let loss = (softplus(f(&batch.positives).neg(), 1.0) + softplus(f(&batch.negatives), 1.0)).mean();
    let places: Vec<usize> = (0..=HIDDEN[2]).collect();
    compare(heads.trained(1, |model| of_kernels(model, &x, &batch)).1, net, loss, HIDDEN[2] + 16, &places);
}
