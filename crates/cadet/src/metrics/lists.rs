//! How good are lists, beside being relevant? Diversity, novelty, coverage, concentration, repeats.
//!
//! What cannot be measured (a list of one has no pairs, nothing was shown) is `None`, never a made-up number.

/// Mean distance over the pairs of a list, each pair once; `None` of fewer than two items.
///
/// `distance(a, b)` is between the `a`-th and the `b`-th item of the list.
pub fn intra_list_diversity(len: usize, distance: impl Fn(usize, usize) -> f64) -> Option<f64> {
    let pairs = (0..len).flat_map(|a| (0..a).map(move |b| (a, b)));
    let sum: f64 = pairs.map(|(a, b)| distance(a, b)).sum();
    (len > 1).then(|| sum / (len * (len - 1) / 2) as f64)
}

/// Mean self-information of what was shown, in bits: `-log2` of the share of users who had seen the item
/// before.
///
/// `seen_by` holds for each shown item how many of the `users` had seen it. One is added above and below, so
/// that an item nobody had seen counts as rarer than any other, and not as infinitely rare.
pub fn novelty(seen_by: impl IntoIterator<Item = u64>, users: u64) -> Option<f64> {
    let bits = |seen: u64| ((users + 1) as f64 / (seen.min(users) + 1) as f64).log2();
    mean(seen_by.into_iter().map(bits))
}

/// Share of the items that were shown at all, from how often each was shown.
pub fn coverage(shown: &[u64]) -> Option<f64> {
    mean(shown.iter().map(|n| f64::from(u8::from(*n > 0))))
}

/// How unevenly showings fall on items: 0 where all are shown alike, near 1 where one gets everything.
pub fn gini(shown: &[u64]) -> Option<f64> {
    let mut sorted = shown.to_vec();
    sorted.sort_unstable();
    let total: f64 = sorted.iter().map(|n| *n as f64).sum();
    let ranked = sorted.iter().zip(1u32..).map(|(n, rank)| f64::from(rank) * *n as f64).sum::<f64>();
    let n = sorted.len() as f64;
    (total > 0.0).then(|| 2.0 * ranked / (n * total) - (n + 1.0) / n)
}

/// Share of what was shown that its user had seen before, from the exact counts.
pub fn repeat_rate(times_seen: impl IntoIterator<Item = u32>) -> Option<f64> {
    mean(times_seen.into_iter().map(|n| f64::from(u8::from(n > 0))))
}

/// Share of what was shown that is fresh to its user: a familiarity below `level`, 0 for "rarer in the item's
/// audience than in the population". Unknown familiarities (NaN) are left out.
pub fn fresh_share(familiarity: impl IntoIterator<Item = f32>, level: f32) -> Option<f64> {
    mean(familiarity.into_iter().filter(|f| !f.is_nan()).map(|f| f64::from(u8::from(f < level))))
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0u64), |(sum, count), f| (sum + f, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|f| (f - expected).abs() < 1e-12), "{found:?} {expected}");
    }

    #[test]
    fn diversity_by_hand() {
        // scipy.spatial.distance.pdist([[0, 0], [3, 4], [0, 8]]).mean()  # (5 + 8 + 5) / 3
        let places = [[0.0f64, 0.0], [3.0, 4.0], [0.0, 8.0]];
        let distance = |a: usize, b: usize| {
            ((places[a][0] - places[b][0]).powi(2) + (places[a][1] - places[b][1]).powi(2)).sqrt()
        };
        close(intra_list_diversity(3, distance), 6.0);
        assert_eq!(intra_list_diversity(1, distance), None);
        assert_eq!(intra_list_diversity(0, distance), None);
    }

    #[test]
    fn novelty_by_hand() {
        // -np.log2((np.array([0, 3, 7]) + 1) / (7 + 1)).mean()  # (3 + 1 + 0) / 3
        close(novelty([0, 3, 7], 7), 4.0 / 3.0);
        // More users than there are is a mistake of the caller, not a negative surprise.
        close(novelty([9], 7), 0.0);
        assert_eq!(novelty([], 7), None);
    }

    #[test]
    fn coverage_and_gini_by_hand() {
        close(coverage(&[0, 2, 5, 0]), 0.5);
        // x = np.sort([1, 0, 4, 3]); n = 4
        // (2 * np.arange(1, n + 1) - n - 1) @ x / (n * x.sum())  # 14/32
        close(gini(&[1, 0, 4, 3]), 0.4375);
        close(gini(&[5, 5, 5]), 0.0);
        close(gini(&[0, 0, 0, 9]), 0.75);
        assert_eq!((gini(&[0, 0]), gini(&[]), coverage(&[])), (None, None, None));
    }

    #[test]
    fn repeats_and_fresh_ones_by_hand() {
        close(repeat_rate([0, 1, 7, 0]), 0.5);
        assert_eq!(repeat_rate([]), None);
        close(fresh_share([-1.0, 0.0, 2.0, f32::NAN], 0.0), 1.0 / 3.0);
        assert_eq!(fresh_share([f32::NAN], 0.0), None);
    }

    proptest! {
        #[test]
        fn gini_is_half_the_relative_mean_difference(shown in prop::collection::vec(0u64..50, 1..30)) {
            let n = shown.len() as f64;
            let total: u64 = shown.iter().sum();
            let pairs = shown.iter().flat_map(|a| shown.iter().map(move |b| a.abs_diff(*b) as f64));
            let by_pairs = pairs.sum::<f64>() / (2.0 * n * total as f64);
            match gini(&shown) {
                Some(found) => prop_assert!((found - by_pairs).abs() < 1e-9),
                None => prop_assert_eq!(total, 0),
            }
        }
    }
}
