//! Do the estimators find densities that are known?

use cadet::learn::estimator::{Estimator, Rates, Tensor};
use cadet::learn::sampler::{Base, Batch, Sampler};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::{Schedule, TrainConfig, Training, Unwatched};
use cadet::learn::workers::Workers;
use cadet::metrics::agreement;
use cadet::rng::{Purpose, Rng};
use cadet::{Exposures, ExposuresBuilder, Instances, TaskId};
use cadet_deep::{GaussianConfig, MafConfig};

/// A Gaussian in two dimensions.
#[derive(Clone, Copy)]
struct Truth {
    mean: [f32; 2],
    sd: [f32; 2],
    correlation: f32,
}

impl Truth {
    fn draw(&self, rng: &mut Rng) -> [f32; 2] {
        let (a, b) = (rng.normal(), rng.normal());
        let b = self.correlation * a + (1.0 - self.correlation.powi(2)).sqrt() * b;
        [self.mean[0] + self.sd[0] * a, self.mean[1] + self.sd[1] * b]
    }

    fn log_density(&self, x: &[f32]) -> f64 {
        let z = |i: usize| f64::from((x[i] - self.mean[i]) / self.sd[i]);
        let (a, b, r) = (z(0), z(1), f64::from(self.correlation));
        let rest = 1.0 - r * r;
        let determinant = f64::from(self.sd[0] * self.sd[1]) * rest.sqrt();
        -(a * a - 2.0 * r * a * b + b * b) / (2.0 * rest) - (std::f64::consts::TAU * determinant).ln()
    }
}

/// `count` draws for each task, and who was drawn for whom.
fn draw(truths: &[Truth], count: usize, seed: u64) -> (Instances, Exposures) {
    let mut rng = Rng::at(seed, Purpose::World, [0, 0]);
    let (mut rows, mut exposures) = (Vec::new(), ExposuresBuilder::new());
    for (task, truth) in truths.iter().enumerate() {
        for _ in 0..count {
            exposures.push(task as u32, (rows.len() / 2) as u32);
            rows.extend(truth.draw(&mut rng));
        }
    }
    let instances = rows.len() / 2;
    (Instances::new(2, rows).unwrap(), exposures.build(truths.len(), instances).unwrap())
}

fn embeddings(tasks: usize) -> TaskEmbeddings {
    let mut rng = Rng::at(1, Purpose::Init, [7, 7]);
    TaskEmbeddings::new(4, (0..4 * tasks).map(|_| rng.normal()).collect()).unwrap()
}

fn fit<E: Estimator + Send + Sync>(model: &mut E, truths: &[Truth], count: usize, epochs: usize) {
    let (x, exposures) = draw(truths, count, 1);
    let sampler =
        Sampler::new(&exposures, (0..truths.len() as u32).map(TaskId).collect(), Base::Exposures).unwrap();
    let config = TrainConfig {
        epochs,
        batch: 256,
        learning_rate: 5e-3,
        schedule: Schedule::Cosine,
        ..TrainConfig::paper()
    };
    Training { sampler: &sampler, x: &x, validation: None, config: &config }
        .run(model, None, &mut Unwatched)
        .unwrap();
}

/// What the model and the truth say of new draws: the density of every task at every place.
fn compare(model: &dyn Estimator, truths: &[Truth]) -> Vec<(f64, f64)> {
    let (x, exposures) = draw(truths, 1000, 2);
    let mut pairs = Vec::new();
    for (task, audience) in exposures.audiences() {
        let instances = audience.instances;
        let mut out = vec![0.0; instances.len()];
        model.responses(&x, &vec![task.0; instances.len()], instances, &mut out);
        let truth = truths[task.0 as usize];
        pairs.extend(instances.iter().zip(out).map(|(i, q)| (q.into(), truth.log_density(x.row(*i)))));
    }
    pairs
}

/// How many nats the model loses to the truth, in the mean.
fn lost(pairs: &[(f64, f64)]) -> f64 {
    pairs.iter().map(|(found, truth)| truth - found).sum::<f64>() / pairs.len() as f64
}

const LEANING: Truth = Truth { mean: [0.5, -0.5], sd: [1.0, 0.7], correlation: 0.8 };

#[test]
fn one_flow_finds_a_correlated_gaussian() {
    let mut flow = MafConfig { hidden: 16, ..MafConfig::default() }.init(2, &embeddings(1), 1).unwrap();
    fit(&mut flow, &[LEANING], 8192, 8);
    let pairs = compare(&flow, &[LEANING]);
    assert!(lost(&pairs).abs() < 0.02, "{} nats lost", lost(&pairs));
}

#[test]
fn a_conditional_flow_tells_two_tasks_apart() {
    let truths = [LEANING, Truth { mean: [-0.7, 0.6], sd: [0.6, 1.0], correlation: -0.6 }];
    let mut flow = MafConfig { hidden: 16, ..MafConfig::default() }.init(2, &embeddings(2), 1).unwrap();
    fit(&mut flow, &truths, 6144, 10);
    let pairs = compare(&flow, &truths);
    assert!(lost(&pairs).abs() < 0.03, "{} nats lost", lost(&pairs));
    let found = ratios(&flow, &truths);
    assert!(agreement(found.iter().copied()).correlation > 0.98, "{:?}", agreement(found.iter().copied()));
}

#[test]
fn a_conditional_gaussian_finds_two_gaussians() {
    let truths = [
        Truth { correlation: 0.0, ..LEANING },
        Truth { mean: [-0.7, 0.6], sd: [0.6, 1.2], correlation: 0.0 },
    ];
    let mut gaussian = GaussianConfig::default().init(2, &embeddings(2), 1).unwrap();
    fit(&mut gaussian, &truths, 4096, 6);
    let pairs = compare(&gaussian, &truths);
    assert!(lost(&pairs).abs() < 0.02, "{} nats lost", lost(&pairs));
    assert!(agreement(ratios(&gaussian, &truths).into_iter()).correlation > 0.99);
}

/// `log q_0 − log q_1` at places of both tasks: the model's and the true one.
fn ratios(model: &dyn Estimator, truths: &[Truth]) -> Vec<(f64, f64)> {
    let (x, _) = draw(truths, 500, 3);
    let instances = Vec::from_iter(0..x.len() as u32);
    let of = |task: u32| {
        let mut out = vec![0.0; x.len()];
        model.responses(&x, &vec![task; x.len()], &instances, &mut out);
        out
    };
    let found = of(0).into_iter().zip(of(1)).map(|(a, b)| f64::from(a - b));
    let truth = instances.iter().map(|i| truths[0].log_density(x.row(*i)) - truths[1].log_density(x.row(*i)));
    found.zip(truth).collect()
}

/// Ten random tasks over random rows.
fn any_batch(features: usize) -> (Instances, Batch) {
    let mut rng = Rng::at(3, Purpose::World, [0, 0]);
    let x = Instances::new(features, (0..500 * features).map(|_| rng.normal()).collect()).unwrap();
    let mut list = |limit: usize| (0..300).map(|_| rng.below(limit) as u32).collect::<Vec<_>>();
    (x, Batch { tasks: list(10), positives: list(500), negatives: list(500) })
}

const RATES: Rates = Rates { net: 1e-3, tasks: 1e-3 };

/// The checks that every model has to pass; `make` makes one with 5 features and 10 tasks from a seed.
fn behaves<E: Estimator + Clone>(make: impl Fn(u64) -> E) {
    let (x, batch) = any_batch(5);
    let responses = |model: &E| {
        let mut out = vec![0.0; batch.tasks.len()];
        model.responses(&x, &batch.tasks, &batch.positives, &mut out);
        out
    };
    let stepped = |seed: u64, rates: Rates, steps: usize| {
        let mut model = make(seed);
        for _ in 0..steps {
            model.step(&x, &batch, rates, &mut Workers::new(1));
        }
        model
    };

    // The same seed gives the same bytes, another seed does not.
    let model = stepped(1, RATES, 3);
    assert_eq!(model.parameters(), stepped(1, RATES, 3).parameters());
    assert_ne!(model.parameters(), stepped(2, RATES, 3).parameters());

    // Gradients reach every tensor, and nearly every number that is connected at all.
    let moved = |from: &[Tensor], to: &[Tensor]| -> Vec<(String, usize)> {
        let count = |a: &Tensor, b: &Tensor| a.values.iter().zip(&b.values).filter(|(a, b)| a != b).count();
        from.iter().zip(to).map(|(a, b)| (a.name.clone(), count(a, b))).collect()
    };
    let start = make(1).parameters();
    for (name, count) in moved(&start, &model.parameters()) {
        assert_eq!(count > 0, name != "fixed", "{name}: {count} numbers have moved");
    }

    // What has rate 0 is left alone.
    let tasks_only = stepped(1, Rates { net: 0.0, ..RATES }, 3).parameters();
    assert!(moved(&start, &tasks_only).iter().all(|(name, count)| (*count > 0) == (name == "tasks")));
    let net_only = stepped(1, Rates { tasks: 0.0, ..RATES }, 3).parameters();
    assert!(
        moved(&start, &net_only)
            .iter()
            .all(|(name, count)| (*count > 0) == (name != "tasks" && name != "fixed"))
    );
    assert_eq!(stepped(1, Rates { net: 0.0, tasks: 0.0 }, 1).parameters(), start);

    // A checkpoint goes on as if nothing had happened.
    let mut other = make(9);
    other.set_parameters(model.parameters()).unwrap();
    assert_eq!(responses(&other), responses(&model));
    let (steps, moments) = model.optimiser();
    other.set_optimiser(steps, moments).unwrap();
    let mut model = model;
    let loss = model.step(&x, &batch, RATES, &mut Workers::new(1));
    assert_eq!(other.step(&x, &batch, RATES, &mut Workers::new(1)), loss);
    assert_eq!(other.parameters(), model.parameters());

    // Order and company do not change a response by more than rounding.
    let apart: Vec<f32> = (0..20)
        .map(|i| {
            let mut out = [0.0];
            model.responses(&x, &batch.tasks[i..=i], &batch.positives[i..=i], &mut out);
            out[0]
        })
        .collect();
    for (a, b) in responses(&model).iter().zip(&apart) {
        assert!((a - b).abs() < 1e-3, "{a} and {b}");
    }

    // Bad checkpoints are refused.
    assert!(model.set_parameters(vec![]).is_err());
    assert!(model.set_optimiser(0, vec![]).is_err());
    assert_eq!(model.step(&x, &Batch::default(), RATES, &mut Workers::new(1)), 0.0);
}

#[test]
fn the_gaussian_behaves() {
    behaves(|seed| GaussianConfig { hidden: 16 }.init(5, &embeddings(10), seed).unwrap());
}

#[test]
fn the_flow_behaves() {
    behaves(|seed| {
        MafConfig { blocks: 3, hidden: 16, ..MafConfig::default() }.init(5, &embeddings(10), seed).unwrap()
    });
}
