//! W3: every user for every item, with the weights that the peers use.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cadet::learn::estimator::Tensor;
use cadet::learn::ratio::{Ratio, RatioConfig};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::log::exposures::TaskId;
use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::watch::{Stopwatch, median};
use crate::world;

#[derive(clap::Args)]
pub(crate) struct Score {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    #[arg(long, default_value_t = 5)]
    passes: usize,
}

impl Score {
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        let x = world::users(&self.data)?;
        let ratio = load(&self.data.join("net.safetensors"), x.width())?;
        let tasks: Vec<TaskId> = (0..ratio.embeddings()?.len() as u32).map(TaskId).collect();
        let (mut passes, mut sum) = (Vec::new(), 0.0);
        for pass in 0..self.passes.max(1) + 1 {
            let (matrix, watch) = Stopwatch::time(|| -> cadet::Result<_> {
                let halves = ratio.halves(&x)?;
                Ok(ratio.matrix(&tasks, &halves))
            });
            sum = matrix?.iter().map(|score| f64::from(*score)).sum();
            // The first one warms up, as the peers do.
            if pass > 0 {
                passes.push((watch.wall, watch.cpu));
            }
        }
        Ok(json!({
            "work": "score",
            "peer": "cadet",
            "kernel": ratio.kernel().name(),
            "pairs": x.len() * tasks.len(),
            "wall_seconds": median(passes.iter().map(|p| p.0).collect()),
            "cpu_seconds": median(passes.iter().map(|p| p.1).collect()),
            "checksum": sum,
            "passes": passes,
        }))
    }
}

/// The net of `net.safetensors`: PyTorch keeps `[outputs, inputs]`, cadet `[inputs, outputs]`.
fn load(path: &Path, features: usize) -> anyhow::Result<Ratio> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let file = SafeTensors::deserialize(&bytes)?;
    let read = |name: &str| -> anyhow::Result<(Vec<usize>, Vec<f32>)> {
        let view = file.tensor(name)?;
        let numbers = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Ok((view.shape().to_vec(), numbers.collect()))
    };
    let (shape, embeddings) = read("e")?;
    let mut tensors = vec![Tensor::matrix("tasks", shape[0], shape[1], embeddings)];
    let mut hidden = Vec::new();
    for layer in 1..=4 {
        let (shape, weights) = read(&format!("w{layer}"))?;
        let (outputs, inputs) = (shape[0], shape[1]);
        let transposed = (0..inputs * outputs).map(|i| weights[i % outputs * inputs + i / outputs]).collect();
        let name = if layer == 4 { "output".to_owned() } else { format!("layer{layer}") };
        tensors.push(Tensor::matrix(format!("{name}.weight"), inputs, outputs, transposed));
        tensors.push(Tensor::matrix(format!("{name}.bias"), 1, outputs, read(&format!("b{layer}"))?.1));
        hidden.push(outputs);
    }
    hidden.pop();
    let net = RatioConfig { dropout: vec![0.0; hidden.len()], hidden };
    let start = TaskEmbeddings::new(shape[1], tensors[0].values.clone())?;
    let mut ratio = net.init(features, &start, 1)?;
    ratio.set_parameters(tensors)?;
    Ok(ratio)
}
