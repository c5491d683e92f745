//! A generated image world whose answer is known: training separates images of a task's classes from the
//! rest.

use cadet::learn::estimator::Estimator;
use cadet::learn::init::Initialiser;
use cadet::learn::init::learned::Learned;
use cadet::learn::init::random::random;
use cadet::learn::sampler::{Base, Sampler};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::{Schedule, TrainConfig, Training, Unwatched, Update};
use cadet::log::exposures::TaskId;
use cadet::metrics::auc;
use cadet::rng::{Purpose, Rng};
use cadet::{Exposures, ExposuresBuilder, Instances};
use cadet_deep::init::Discriminant;
use cadet_deep::{Augment, Contrast, DeepConfig, DeepRatio, Negatives, Trunk};

const SIDE: usize = 20;
const CLASSES: usize = 4;
const IMAGES: usize = 480;

/// The two classes that a task is active for.
const TASKS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

struct World {
    x: Instances,
    classes: Vec<usize>,
    exposures: Exposures,
}

/// Bars that lie across or along, bright or dark at the top: a class each. Every image is exposed to one
/// active task.
fn world(seed: u64) -> World {
    let mut rng = Rng::at(seed, Purpose::World, [0, 0]);
    let (mut pixels, mut classes, mut builder) = (vec![], vec![], ExposuresBuilder::new());
    for i in 0..IMAGES {
        let class = rng.below(CLASSES);
        let phase = rng.below(4);
        for y in 0..SIDE {
            for x in 0..SIDE {
                let along = if class.is_multiple_of(2) { x } else { y };
                let bar = if ((along + phase) / 2).is_multiple_of(2) { 0.7 } else { -0.7 };
                let light = if (class / 2 == 0) == (y < SIDE / 2) { 0.5 } else { -0.5 };
                pixels.push(bar + light + rng.normal());
            }
        }
        let active: Vec<usize> = (0..TASKS.len()).filter(|t| TASKS[*t].contains(&class)).collect();
        builder.push(active[rng.below(active.len())] as u32, i as u32);
        classes.push(class);
    }
    let x = Instances::new(SIDE * SIDE, pixels).unwrap();
    World { x, classes, exposures: builder.build(TASKS.len(), IMAGES).unwrap() }
}

fn config(negatives: Negatives) -> DeepConfig {
    DeepConfig {
        trunk: Trunk::Cnn { side: SIDE, channels: 1, width: 8 },
        features: 32,
        negatives,
        augment: Augment { pad: 1, flip: false },
        ..DeepConfig::images(1)
    }
}

fn settings(update: Update) -> TrainConfig {
    let schedule = Schedule::Cosine;
    TrainConfig { epochs: 6, batch: 48, learning_rate: 3e-3, schedule, update, ..TrainConfig::paper() }
}

fn fit(model: &mut Contrast, world: &World, update: Update) {
    let tasks = (0..TASKS.len() as u32).map(TaskId).collect();
    let sampler = Sampler::new(&world.exposures, tasks, Base::Exposures).unwrap();
    Training { sampler: &sampler, x: &world.x, validation: None, config: &settings(update) }
        .run(model, None, &mut Unwatched)
        .unwrap();
}

/// The mean over tasks of the AUC of active against other images, on a world not trained on.
fn quality(ratio: &DeepRatio, tasks: &TaskEmbeddings, fresh: &World) -> f64 {
    let scores = ratio.familiarity(&ratio.model().features(&fresh.x), tasks).unwrap();
    let of_task = |(t, active): (usize, &[usize; 2])| {
        let (mut inside, mut outside) = (vec![], vec![]);
        for (class, row) in fresh.classes.iter().zip(scores.chunks_exact(TASKS.len())) {
            if active.contains(class) { inside.push(row[t]) } else { outside.push(row[t]) }
        }
        auc(&inside, &outside).unwrap()
    };
    TASKS.iter().enumerate().map(of_task).sum::<f64>() / TASKS.len() as f64
}

#[test]
fn the_ratio_separates_active_images_with_drawn_and_with_batch_negatives() {
    let (known, fresh) = (world(1), world(2));
    let start = random(TASKS.len(), 8, 1.0, 3).unwrap();
    for (negatives, update) in [(Negatives::Batch, Update::Joint), (Negatives::Drawn, Update::Joint)] {
        let mut ratio = config(negatives).ratio(&start, 4).unwrap();
        let before = quality(&ratio, &start, &fresh);
        fit(ratio.model_mut(), &known, update);
        let after = quality(&ratio, &ratio.embeddings().unwrap(), &fresh);
        assert!(before < 0.65 && after > 0.85, "{negatives:?}: {before} {after}");
    }
}

#[test]
fn learned_embeddings_tell_tasks_apart_by_the_classes_they_share() {
    let known = world(1);
    let mut heads = config(Negatives::Batch).heads(TASKS.len(), 4).unwrap();
    fit(heads.model_mut(), &known, Update::Joint);
    let features = heads.model().features(&known.x);
    let means = heads.mean_responses(&features, &known.exposures).unwrap();
    assert_eq!((means.len(), means.width()), (TASKS.len(), TASKS.len()));
    let started = |way: &dyn Initialiser| way.start(&known.exposures, 8, 1.0).unwrap();
    let learned = started(&Learned { heads: heads.model(), x: &known.x });
    let discerned = started(&Discriminant { heads: heads.model(), x: &known.x });
    // A ratio knows the tasks too, whatever its own embeddings were when it began.
    let mut ratio = config(Negatives::Batch).ratio(&random(TASKS.len(), 8, 1.0, 3).unwrap(), 4).unwrap();
    fit(ratio.model_mut(), &known, Update::Joint);
    let relearned = started(&Learned { heads: ratio.model(), x: &known.x });
    for embeddings in [means, learned, discerned, relearned] {
        let centre = embeddings.centre();
        let (mut sharing, mut apart) = (vec![], vec![]);
        for (a, first) in TASKS.iter().enumerate() {
            for (b, second) in TASKS.iter().enumerate().take(a) {
                let shares = first.iter().any(|class| second.contains(class));
                let cosine = embeddings.cosine(a as u32, b as u32, &centre);
                if shares { sharing.push(cosine) } else { apart.push(cosine) }
            }
        }
        let lowest = sharing.iter().copied().fold(f32::MAX, f32::min);
        let highest = apart.iter().copied().fold(f32::MIN, f32::max);
        assert!(lowest > highest, "{sharing:?} {apart:?}");
    }
    // Responses of a head are those of the trained model.
    let mut found = [0.0];
    heads.model().responses(&known.x, &[2], &[7], &mut found);
    assert_eq!(found[0], heads.responses(&features)[7 * TASKS.len() + 2]);
}
