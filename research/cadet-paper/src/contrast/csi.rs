//! CSI on CIFAR10, a net for each task: a row of Table 2.

use std::path::PathBuf;

use anyhow::Result;
use cadet::TaskId;
use cadet::metrics::auc;
use cadet::store::Checkpoint;
use cadet_deep::csi::{Scorer, describe_turns};
use cadet_deep::{CsiConfig, device};
use serde::{Deserialize, Serialize};

use super::{Common, about, create, images, learn};
use crate::images::tasks::{ActiveTasks, validating};
use crate::journal::Journal;
use crate::output::{Bar, print, write_file};

/// The paper's figures for k = 1, 2, 3, 4.
const PAPER: [f64; 4] = [94.28, 62.53, 55.78, 53.78];

/// CSI on the active-category tasks of CIFAR10 (ResNet-18, turned images), a training for each task.
///
/// Prints the AUC of each task's active classes among the test images and writes their mean, for k = 1 into
/// raw-k1.csv. A run that was stopped goes on after its last whole epoch when it is started again.
///
/// Example: cadet-paper csi --data cifar-10 --k 1 --device cuda --out results
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Where results are written [default: research/results/csi; with --smoke nowhere].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How many classes are active in a task.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    k: u8,
    /// Only these tasks, numbered from 0 in the order of their classes; all where none is given.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tasks: Vec<usize>,
    /// Images in a batch; each is in it with four turns.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..))]
    batch: u32,
}

/// What is remembered of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outcome {
    task: usize,
    classes: Vec<u8>,
    images: usize,
    first_loss: f64,
    last_loss: f64,
    auc: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let common = &args.common;
    let device = device::open(&common.device)?;
    let generated = common.smoke.then(tempfile::tempdir).transpose()?;
    let out = match (&args.out, &generated) {
        (Some(out), _) => out.clone(),
        (None, Some(folder)) => folder.path().join("results"),
        (None, None) => PathBuf::from("research/results/csi"),
    };
    let set = common.read()?;
    let tasks = ActiveTasks::new(set.train.categories, args.k.into())?;
    // Images that validate other methods are left out: CSI learns from the same ones as they do.
    let validates = validating(set.train.len(), set.train.len(), common.seed);
    let exposures = tasks.expose(&set.train.labels, set.train.len(), common.seed)?;
    let exposures = exposures.filter(|_, image| !validates[image.0 as usize]);
    let audience = |task: usize| exposures.audience(TaskId(task as u32)).instances;
    if let Some(unknown) = args.tasks.iter().find(|task| **task >= tasks.len()) {
        let why = format!("there are {}, numbered from 0, found {unknown}", tasks.len());
        return Err(cadet::Error::config("--tasks", why).into());
    }
    let wanted: Vec<usize> =
        (0..tasks.len()).filter(|task| args.tasks.is_empty() || args.tasks.contains(task)).collect();
    tasks.check_audiences(&wanted, &exposures, 2)?;
    let config = CsiConfig { simclr: common.config() };
    let training = common.training(args.batch);
    let epochs = training.schedule.epochs;
    let about = about("csi", &format!("k {} {config:?} {training:?}", args.k), &set);
    create(&out)?;
    let mut journal: Journal<Outcome> = Journal::open(&out.join(format!("csi-k{}.journal", args.k)), &about)?;

    let (train, test) = (images(&set.train)?, images(&set.test)?);
    let everything: Vec<u32> = (0..test.len() as u32).collect();
    let per_epoch = |of: &[u32]| (of.len() / training.batch).max(1);
    let batches = wanted.iter().map(|task| per_epoch(audience(*task)) * epochs).sum::<usize>();
    let bar = Bar::counting(format!("csi k={}", args.k), "batches", batches as u64);
    for task in &wanted {
        let (classes, exposed) = (tasks.categories(*task), audience(*task));
        if journal.entries().iter().any(|o| o.task == *task) {
            bar.skip((per_epoch(exposed) * epochs) as u64);
            continue;
        }
        let checkpoint = Checkpoint::of(&out.join(format!("csi-k{}-{task}", args.k)), about.as_str());
        let mut learner = config.init(train.channels(), training.clone(), &device)?;
        let losses = learn(&mut learner, train, exposed, epochs, &checkpoint, &bar)?;
        let width = config.simclr.projection;
        let seen = describe_turns(&learner, train, exposed, &mut |_| {});
        let scorer = Scorer::new(&seen, width, &device)?;
        let scores = scorer.score(&describe_turns(&learner, test, &everything, &mut |_| {}), width)?;
        let (active, others): (Vec<_>, Vec<_>) =
            scores.iter().zip(&set.test.labels).partition(|(_, label)| classes.contains(label));
        let [active, others] = [active, others].map(|l| l.iter().map(|(s, _)| **s).collect::<Vec<f32>>());
        let auc = auc(&active, &others).ok_or(cadet::Error::Diverged { epoch: epochs, loss: f64::NAN })?;
        journal.append(vec![Outcome {
            task: *task,
            classes,
            images: exposed.len(),
            first_loss: losses.first().copied().unwrap_or(f64::NAN),
            last_loss: losses.last().copied().unwrap_or(f64::NAN),
            auc,
        }])?;
        checkpoint.remove()?;
    }
    bar.finish();
    report(args, &out, journal.entries(), tasks.len(), epochs)
}

fn report(args: &Args, out: &std::path::Path, done: &[Outcome], all: usize, epochs: usize) -> Result<()> {
    let k = args.k;
    let mean = done.iter().map(|o| o.auc).sum::<f64>() / done.len().max(1) as f64;
    let dataset = if args.common.smoke { "letters" } else { "cifar10" };
    let raw = format!(
        "dataset,method,mode,init,input,k,test_k,seed,auc\n\
         {dataset},csi,separate,none,raw,{k},{k},{},{mean:.6}\n",
        args.common.seed
    );
    write_file(&out.join(format!("raw-k{k}.csv")), &raw)?;
    let mut text = String::from("task  classes  images  loss             AUC\n");
    for o in done {
        let classes: String = o.classes.iter().map(ToString::to_string).collect();
        text += &format!(
            "{:<5} {classes:<8} {:<7} {:<6.3} to {:<6.3} {:.2}\n",
            o.task,
            o.images,
            o.first_loss,
            o.last_loss,
            100.0 * o.auc
        );
    }
    let paper = PAPER.get(usize::from(k) - 1).filter(|_| !args.common.smoke);
    let paper = paper.map_or_else(String::new, |p| format!(" (the paper: {p:.2})"));
    text += &format!(
        "CSI, k = {k}, {} of {all} tasks, {epochs} epochs: mean AUC {:.2}{paper}\n",
        done.len(),
        100.0 * mean
    );
    print(&text)
}
