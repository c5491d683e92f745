//! How fast is cadet? The Rust side of `run.py`: one work per call, one JSON line on stdout.

mod images;
mod read;
mod scale;
mod score;
mod train;
mod watch;
mod world;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Trains the MovieLens-sized ratio net
    Train(train::Train),
    /// Trains the appendix's image net
    Images(images::Images),
    /// Scores every user for every item with the weights of net.safetensors
    Score(score::Score),
    /// Reads an exposure file into compressed rows
    Read(read::Read),
    /// Generates a large log and trains on it for an epoch
    Scale(scale::Scale),
}

fn main() -> anyhow::Result<()> {
    let work = Args::parse().work;
    let threads = match &work {
        Work::Train(train) => train.threads,
        Work::Images(images) => images.threads,
        Work::Score(score) => score.threads,
        Work::Read(read) => read.threads,
        Work::Scale(scale) => scale.threads,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut line = pool.install(|| match work {
        Work::Train(train) => train.run(),
        Work::Images(images) => images.run(),
        Work::Score(score) => score.run(),
        Work::Read(read) => read.run(),
        Work::Scale(scale) => scale.run(),
    })?;
    line["threads"] = threads.into();
    line["peak_rss_bytes"] = cadet_data::cost::peak_rss_bytes().into();
    #[allow(clippy::print_stdout)]
    {
        println!("{line}");
    }
    Ok(())
}
