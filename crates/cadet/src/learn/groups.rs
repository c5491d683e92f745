//! Which tasks are alike? k-means on whatever places them, the same for every number of threads.

use rayon::prelude::*;

use crate::learn::tasks::TaskEmbeddings;
use crate::rng::{Purpose, Rng};

/// The group of each task, at most `k` of them.
pub fn groups(embeddings: &TaskEmbeddings, k: usize, seed: u64) -> Vec<u32> {
    const ROUNDS: usize = 12;
    const SAMPLE: usize = 20_000;
    let (n, width) = (embeddings.len(), embeddings.width());
    if n == 0 {
        return Vec::new();
    }
    let k = k.clamp(1, n.min(SAMPLE));
    let mut rng = Rng::at(seed, Purpose::Reference, [3, 0]);
    let mut order: Vec<u32> = (0..n as u32).collect();
    rng.shuffle(&mut order);
    let sample = &order[..n.min(SAMPLE)];
    let mut centres: Vec<f32> = sample[..k].iter().flat_map(|t| embeddings.row(*t).to_vec()).collect();
    let nearest = |centres: &[f32], row: &[f32]| -> u32 {
        let distance = |c: &[f32]| c.iter().zip(row).map(|(c, v)| (c - v).powi(2)).sum::<f32>();
        let all = centres.chunks_exact(width).map(distance).enumerate();
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(c, _)| c as u32)
    };
    for _ in 0..ROUNDS {
        let homes: Vec<u32> = sample.par_iter().map(|t| nearest(&centres, embeddings.row(*t))).collect();
        let mut sums = vec![0.0f64; k * width];
        let mut counts = vec![0usize; k];
        for (task, home) in sample.iter().zip(&homes) {
            counts[*home as usize] += 1;
            let sum = &mut sums[*home as usize * width..][..width];
            sum.iter_mut().zip(embeddings.row(*task)).for_each(|(s, v)| *s += f64::from(*v));
        }
        for (c, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            for i in c * width..(c + 1) * width {
                centres[i] = (sums[i] / *count as f64) as f32;
            }
        }
    }
    (0..n as u32).into_par_iter().map(|t| nearest(&centres, embeddings.row(t))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_items_are_grouped() {
        let rows =
            (0..60).flat_map(|t| [if t % 2 == 0 { 5.0 } else { -5.0 } + (t as f32) * 0.01, 0.0]).collect();
        let found = groups(&TaskEmbeddings::new(2, rows).unwrap(), 2, 1);
        assert!(found.iter().enumerate().all(|(t, g)| *g == found[t % 2]));
        assert_ne!(found[0], found[1]);
    }
}
