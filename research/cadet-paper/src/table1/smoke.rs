//! A generated folder in the shape of MovieLens and its knowledge graph: small, invented, and with something
//! to learn.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use cadet::Error;
use cadet::rng::{Purpose, Rng};

const USERS: usize = 200;
const FILMS: usize = 60;
const GENRES: [&str; 4] = ["Drama", "Comedy", "Action", "Musical"];
const AGES: [u32; 7] = [1, 18, 25, 35, 45, 50, 56];

/// Writes both into one folder. Each genre has its own age group, and users like films of theirs.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut rng = Rng::at(1, Purpose::World, [9, 0]);
    let (mut users, mut films, mut ratings) = (String::new(), String::new(), String::new());
    let ages: Vec<usize> = (0..USERS).map(|_| rng.below(AGES.len())).collect();
    for (user, age) in ages.iter().enumerate() {
        let (gender, job) = (["F", "M"][rng.below(2)], rng.below(21));
        writeln!(users, "{}::{gender}::{}::{job}::{:05}", user + 1, AGES[*age], rng.below(50))?;
    }
    for film in 0..FILMS {
        writeln!(films, "{}::Invented Film {film} (1999)::{}", film + 1, GENRES[film % GENRES.len()])?;
    }
    for (user, age) in ages.iter().enumerate() {
        for film in 0..FILMS {
            let likes = film % GENRES.len() == age % GENRES.len();
            if rng.unit() < if likes { 0.7 } else { 0.3 } {
                let stars = if likes { 3 + rng.below(3) } else { 1 + rng.below(4) };
                writeln!(ratings, "{}::{}::{stars}::{}", user + 1, film + 1, 1_000_000_000 + film)?;
            }
        }
    }
    let (mut entities, mut links, mut items) = (String::new(), String::new(), String::new());
    for film in 0..FILMS {
        writeln!(entities, "{film}\tfilm_{film}\tinvented:film_{film}")?;
        writeln!(items, "{film}\t{}\tfilm_{film}\tinvented:film_{film}", film + 1)?;
        writeln!(links, "{film}\t0\t{}", FILMS + film % GENRES.len())?;
        writeln!(links, "{film}\t1\t{}", FILMS + GENRES.len() + film % 7)?;
    }
    for other in 0..GENRES.len() + 7 {
        writeln!(entities, "{}\tthing_{other}\tinvented:thing_{other}", FILMS + other)?;
    }
    let files = [
        ("users.dat", users),
        ("movies.dat", films),
        ("ratings.dat", ratings),
        ("e_map.txt", format!("eid\tname\tentity\n{entities}")),
        ("i2kg_map.txt", format!("eid\tpid\tname\tentity\n{items}")),
        ("kg_final.txt", format!("entity_head\trelation\tentity_tail\n{links}")),
        ("r_map.txt", "id\tkb_relation\tname\n0\tinvented:genre\tgenre\n1\tinvented:maker\tmaker\n".into()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io(&path, e))?;
    }
    Ok(())
}
