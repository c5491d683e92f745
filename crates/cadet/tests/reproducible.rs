//! The same seed gives the same bytes: on any number of threads, and however often the run was interrupted.
#![allow(missing_docs)]

mod worlds;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cadet::Log;
use cadet::fit::{Observe, Stage};
use cadet::learn::estimator::{Estimator, Tensor};
use cadet::learn::trainer::{End, Idle, Progress, Signal, Update, Watch};
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::store::{self, Checkpoint};
use cadet::{Error, Result};
use worlds::*;

/// Every file of the saved model, apart from what the manifest says about time, threads and the machine.
fn bytes(model: &Model) -> BTreeMap<String, Vec<u8>> {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    store::save(model, &folder).unwrap();
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".safetensors") {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    assert_eq!(files.len(), 4);
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("train").unwrap();
    for history in ["history", "seed_history"] {
        manifest.get_mut(history).and_then(|h| h.as_object_mut()).map(|h| h.remove("seconds"));
    }
    files.insert("manifest.json".into(), manifest.to_string().into_bytes());
    files
}

fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>, when: &str) {
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "{name} differs {when}");
    }
}

/// Repeats make exposures weighted, so that every kind of draw is met.
fn given() -> Log {
    let world = tiny_world(3);
    assert!(!world.exposures.is_unweighted());
    log_of(&world)
}

fn learned() -> Log {
    Log { features: None, ..given() }
}

#[test]
fn threads_do_not_matter_and_seeds_do() {
    for (log, settings) in [
        // Batches of three chunks, the last one short.
        (given(), Settings { batch: Some(300), ..tiny_settings() }),
        (
            learned(),
            Settings { update: Update::Alternate, idle: Idle::Coast, patience: 1, ..tiny_settings() },
        ),
    ] {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bytes(&fit(log.clone(), &settings).unwrap()))
        };
        let one = on(1);
        assert_same(&on(1), &one, "in a second run");
        assert_same(&on(2), &one, "with 2 threads");
        assert_same(&on(3), &one, "with 3 threads");
        let other = bytes(&fit(log.clone(), &Settings { seed: 2, ..settings.clone() }).unwrap());
        assert_ne!(other["weights.safetensors"], one["weights.safetensors"]);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// As Ctrl-C does: by a signal in the middle of the next epoch, and the run ends in order.
    Asked,
    /// As a power cut does: right after a checkpoint.
    Killed,
}

/// Saves every epoch, goes on from what was saved, and ends the run after some epochs of a stage.
struct Onlooker {
    checkpoint: Checkpoint,
    stage: Stage,
    end: Option<(How, Stage, usize)>,
    asked: bool,
    epochs_seen: usize,
}

impl Onlooker {
    fn new(folder: &Path, settings: &Settings, end: Option<(How, Stage, usize)>) -> Self {
        let about = serde_json::to_string(settings).unwrap();
        let checkpoint = Checkpoint::of(&folder.join("model"), about);
        Self { checkpoint, stage: Stage::Features, end, asked: false, epochs_seen: 0 }
    }
}

impl Watch for Onlooker {
    fn batch(&mut self, epoch: usize, _: usize, _: usize, _: usize) -> Signal {
        let now = |(how, stage, after)| how == How::Asked && stage == self.stage && epoch > after;
        self.asked |= self.end.is_some_and(now);
        if self.asked { Signal::Stop } else { Signal::Continue }
    }

    fn epoch(&mut self, model: &dyn Estimator, progress: &Progress) -> Result<()> {
        self.epochs_seen += 1;
        self.checkpoint.save(self.stage.name(), model, progress)?;
        match self.end {
            Some((How::Killed, stage, after))
                if stage == self.stage && progress.history.epochs.len() == after =>
            {
                Err(Error::config("test", "killed"))
            }
            _ => Ok(()),
        }
    }
}

impl Observe for Onlooker {
    fn stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    fn resume(&mut self, stage: Stage, model: &mut dyn Estimator) -> Result<Option<Progress>> {
        self.checkpoint.load(stage.name(), model)
    }
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    interrupted_runs_go_on(&tiny_settings());
}

#[test]
fn so_it_does_where_embeddings_coast() {
    interrupted_runs_go_on(&Settings { idle: Idle::Coast, ..tiny_settings() });
}

fn interrupted_runs_go_on(settings: &Settings) {
    let whole = bytes(&fit(given(), settings).unwrap());
    for how in [How::Asked, How::Killed] {
        for (stage, after) in [(Stage::Seeds, 1), (Stage::Seeds, 3), (Stage::Ratio, 1), (Stage::Ratio, 2)] {
            let when = format!("after {how:?} in epoch {after} of {stage:?}");
            let folder = tempfile::tempdir().unwrap();
            let mut first = Onlooker::new(folder.path(), settings, Some((how, stage, after)));
            let ended = cadet::fit(given(), settings, &mut first);
            match how {
                How::Asked => {
                    let model = ended.unwrap();
                    assert_eq!(model.manifest().history.end, End::Interrupted, "{when}");
                    assert_ne!(bytes(&model)["weights.safetensors"], whole["weights.safetensors"], "{when}");
                }
                How::Killed => assert_eq!(ended.unwrap_err().to_string(), "test: killed", "{when}"),
            }
            assert!(first.checkpoint.exists());
            let mut second = Onlooker::new(folder.path(), settings, None);
            let model = cadet::fit(given(), settings, &mut second).unwrap();
            assert_same(&bytes(&model), &whole, &when);
            // It went on and did not start over.
            let all = settings.seed_epochs + settings.epochs;
            assert!(second.epochs_seen + first.epochs_seen <= all, "{when}: {} again", second.epochs_seen);
            second.checkpoint.remove().unwrap();
            assert!(!second.checkpoint.exists());
        }
    }
}

#[test]
fn a_finished_checkpoint_gives_the_model_without_training() {
    // Two epochs of patience end the run early, so that the best epoch is not the last one.
    let settings = Settings { patience: 2, epochs: 30, learning_rate: 3e-2, ..tiny_settings() };
    let folder = tempfile::tempdir().unwrap();
    let mut first = Onlooker::new(folder.path(), &settings, None);
    let model = cadet::fit(given(), &settings, &mut first).unwrap();
    assert_eq!(model.manifest().history.end, End::Early);
    assert!(model.manifest().history.best < model.manifest().history.epochs.len());
    let mut second = Onlooker::new(folder.path(), &settings, None);
    let again = cadet::fit(given(), &settings, &mut second).unwrap();
    assert_eq!(second.epochs_seen, 0);
    assert_same(&bytes(&again), &bytes(&model), "after resuming a finished run");
}

#[test]
fn a_checkpoint_of_other_settings_is_refused() {
    let settings = tiny_settings();
    let folder = tempfile::tempdir().unwrap();
    let mut first = Onlooker::new(folder.path(), &settings, Some((How::Killed, Stage::Seeds, 1)));
    cadet::fit(given(), &settings, &mut first).unwrap_err();
    for other in [Settings { seed: 9, ..settings.clone() }, Settings { hidden: vec![12], ..settings.clone() }]
    {
        let mut second = Onlooker::new(folder.path(), &other, None);
        let error = cadet::fit(given(), &other, &mut second).unwrap_err();
        assert!(matches!(error, Error::Store { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("seed-tasks.checkpoint") && text.contains("other data or settings"), "{text}");
    }
    // Even one that claims to be of this run is refused where its tensors do not fit.
    let other = Settings { hidden: vec![9, 7], ..settings.clone() };
    let mut second = Onlooker::new(folder.path(), &settings, None);
    let error = cadet::fit(given(), &other, &mut second).unwrap_err();
    assert!(error.to_string().contains("seed-tasks.checkpoint"), "{error}");
}

#[test]
fn stopping_in_the_first_epoch_leaves_a_usable_model() {
    let settings = tiny_settings();
    for stage in [Stage::Seeds, Stage::Ratio] {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Onlooker::new(folder.path(), &settings, Some((How::Asked, stage, 0)));
        let model = cadet::fit(given(), &settings, &mut watch).unwrap();
        assert_eq!(model.manifest().history.end, End::Interrupted);
        assert_eq!(model.manifest().history.epochs.len(), 1);
        let rows = familiarity(&model, &(0..300).collect::<Vec<_>>());
        assert!(rows.iter().flatten().all(|f| f.is_finite()));
        assert!(rows.iter().flatten().any(|f| *f != rows[0][0]));
        let place = folder.path().join("model");
        store::save(&model, &place).unwrap();
        assert_eq!(familiarity(&store::load(&place).unwrap(), &[0, 1]), familiarity(&model, &[0, 1]));
    }
}

#[test]
fn a_short_epoch_can_be_stopped_too() {
    // Fewer batches in an epoch than there are between two looks at the watch.
    let settings = Settings { batch: Some(4096), ..tiny_settings() };
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Onlooker::new(folder.path(), &settings, Some((How::Asked, Stage::Seeds, 1)));
    let model = cadet::fit(given(), &settings, &mut watch).unwrap();
    assert_eq!(model.manifest().history.end, End::Interrupted);
}

#[test]
fn a_damaged_checkpoint_is_an_error_and_no_panic() {
    let settings = Settings { epochs: 2, seed_epochs: 2, ..tiny_settings() };
    let folder = tempfile::tempdir().unwrap();
    cadet::fit(given(), &settings, &mut Onlooker::new(folder.path(), &settings, None)).unwrap();
    let path = folder.path().join("model.checkpoint").join("ratio-net.checkpoint");
    let good = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&good[..good.len().min(4096)]).into_owned();
    let at = text.find(r#"\"best\":"#).expect("history in the header") + r#"\"best\":"#.len();
    let resume = || {
        let mut watch = Onlooker::new(folder.path(), &settings, None);
        catch_unwind(AssertUnwindSafe(|| cadet::fit(given(), &settings, &mut watch).map(|_| ())))
    };
    // A best epoch that does not exist.
    for digit in [b'0', b'9'] {
        let mut bad = good.clone();
        bad[at] = digit;
        fs::write(&path, &bad).unwrap();
        let found = resume().unwrap_or_else(|_| panic!("panicked at best = {}", digit as char));
        assert!(found.unwrap_err().to_string().contains("ratio-net.checkpoint"), "best = {}", digit as char);
    }
    for length in [0, 4, 8, 100, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        let found = resume().unwrap_or_else(|_| panic!("panicked when cut to {length}"));
        let error = found.unwrap_err().to_string();
        let told = error.contains("ratio-net.checkpoint") && error.contains("delete it to start anew");
        assert!(told, "cut to {length}: {error}");
    }
    // One bit of a weight: without a checksum it would go on, and end elsewhere.
    for from_the_end in [1, 1000, good.len() / 3] {
        let mut bad = good.clone();
        bad[good.len() - from_the_end] ^= 1;
        fs::write(&path, &bad).unwrap();
        let error = resume().expect("a panic").unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}

#[test]
fn a_state_of_another_kind_comes_back_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("net");
    let checkpoint = Checkpoint::of(&model, "this run");
    assert!(checkpoint.load_state("net").unwrap().is_none());
    let tensors = vec![Tensor { name: "w".into(), shape: vec![1, 2, 1], values: vec![0.5, -3.0] }];
    checkpoint.save_state("net", tensors.clone(), "epoch 3").unwrap();
    assert_eq!(checkpoint.load_state("net").unwrap(), Some((tensors, "epoch 3".to_owned())));
    let error = Checkpoint::of(&model, "another run").load_state("net").unwrap_err().to_string();
    assert!(error.contains("net.checkpoint") && error.contains("other data or settings"), "{error}");
    let path = checkpoint.folder().join("net.checkpoint");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(checkpoint.load_state("net").unwrap_err().to_string().contains("damaged"));
    checkpoint.remove().unwrap();
    assert!(!checkpoint.exists());
}
