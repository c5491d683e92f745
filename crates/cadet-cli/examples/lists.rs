//! How fast is `cadet rerank`? Writes a model and 100,000 lists of 100 items to measure it on.
//!
//! ```text
//! cargo build --release -p cadet-cli --bins --examples
//! target/release/examples/lists /tmp/lists
//! time target/release/cadet rerank /tmp/lists/model /tmp/lists/lists.parquet --threads 2 -o /tmp/lists/out.parquet
//! ```
#![allow(clippy::print_stdout)]

use std::path::Path;

use cadet::fit::fit;
use cadet::learn::trainer::Unwatched;
use cadet::rng::{Purpose, Rng};
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use cadet::{IdRef, store};
use cadet_data::{Kind, TableWriter, Values};

const USERS: usize = 100_000;
const ITEMS: usize = 2_000;
const LENGTH: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let folder = Path::new(&out);
    std::fs::create_dir_all(folder)?;
    let world =
        WorldConfig { users: USERS, items: ITEMS, exposures: 2_000_000, ..WorldConfig::default() }.make()?;
    let settings = Settings { epochs: 1, seed_epochs: 1, ..Settings::default() };
    let model = fit(world.log()?, &settings, &mut Unwatched)?;
    store::save(&model, &folder.join("model"))?;
    let columns = [("user_id", Kind::Id), ("item_id", Kind::Id), ("relevance", Kind::F32)];
    for name in ["lists.parquet", "lists.csv"] {
        let mut writer = TableWriter::create(&folder.join(name), None, &columns)?;
        let mut items: Vec<u32> = (0..ITEMS as u32).collect();
        for user in 0..USERS as u32 {
            let mut rng = Rng::at(1, Purpose::Simulation, [9, u64::from(user)]);
            // The first hundred of a shuffle, without shuffling the rest.
            for i in 0..LENGTH {
                let other = i + rng.below(ITEMS - i);
                items.swap(i, other);
            }
            let names: Vec<IdRef<'_>> = items[..LENGTH].iter().map(|i| model.items().name(*i)).collect();
            let relevance: Vec<f32> = (0..LENGTH).map(|_| rng.unit() as f32).collect();
            let users = vec![model.users().name(user); LENGTH];
            writer.write(&[Values::Id(&users), Values::Id(&names), Values::F32(&relevance)])?;
        }
        writer.finish()?;
    }
    println!("{USERS} lists of {LENGTH} items and a model of {ITEMS} items: {out}");
    Ok(())
}
