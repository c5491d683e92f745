//! Which items have the same audience? The two directions in which items' embeddings differ most, as a map.

use cadet::TaskId;
use cadet::ask::Ask;
use cadet::judge::calibrate::quantile;
use cadet_plot::{Axis, Map, Spot, number};

/// Items on the map, the largest.
const MOST: usize = 2_000;
/// Rounds in which an axis settles.
const ROUNDS: usize = 40;

/// The items of a model: side by side where the same users see them.
pub fn of_items(ask: &Ask, title: impl Fn(TaskId) -> String, size: (f64, f64)) -> Map {
    let model = ask.model();
    let mut items = model.scored();
    items.sort_by_key(|item| (std::cmp::Reverse(model.seen().audience_size(*item)), item.0));
    items.truncate(MOST);
    let mut rows = Vec::new();
    let width = ask.directions(items.iter().copied().map(Some), &mut rows);
    let (axes, shares) = principal(&mut rows, width);
    let repeats = |item: TaskId| {
        let shown: u64 = model.seen().audience(item).map(|(_, e)| u64::from(e.count)).sum();
        1.0 - model.seen().audience_size(item) as f64 / shown.max(1) as f64
    };
    let repeated: Vec<f64> = items.iter().map(|item| repeats(*item)).collect();
    // Where nothing is shown twice, how familiar all users are with an item says more.
    let is_repeated = repeated.iter().any(|share| *share > 0.005);
    let spots = items.iter().zip(rows.chunks(width.max(1))).zip(&repeated).map(|((item, row), repeats)| {
        let users = model.seen().audience_size(*item);
        let known = 1.0 - f64::from(quantile(model.knots(*item), 0.0));
        let [x, y] = [0, 1].map(|k| f64::from(dot(row, &axes[k])));
        Spot {
            id: model.items().name(item.0).to_string(),
            name: title(*item),
            note: format!(
                "{} users\nfamiliar to {:.0} % of all, {:.0} % repeats",
                number(users as f64),
                100.0 * known,
                100.0 * repeats
            ),
            at: (x, y),
            weight: users as f64,
            value: 100.0 * if is_repeated { *repeats } else { known },
        }
    });
    let axis =
        |k: usize, name: &str| Axis::new(format!("{name} axis, {:.0} % of the spread", 100.0 * shares[k]));
    Map {
        x: axis(0, "first"),
        y: axis(1, "second"),
        value: Axis::new(if is_repeated { "shows that are repeats" } else { "users who find it familiar" })
            .unit("%"),
        spots: spots.collect(),
        size,
        ..Map::default()
    }
}

/// The two directions in which rows differ most, and their shares of all difference; rows are seen from their
/// middle afterwards.
fn principal(rows: &mut [f32], width: usize) -> ([Vec<f32>; 2], [f64; 2]) {
    let mut axes = [vec![0.0; width], vec![0.0; width]];
    if width < 2 || rows.is_empty() {
        return (axes, [0.0; 2]);
    }
    let count = (rows.len() / width) as f32;
    let mut middle = vec![0.0; width];
    rows.chunks(width).for_each(|row| middle.iter_mut().zip(row).for_each(|(m, v)| *m += v / count));
    rows.chunks_mut(width).for_each(|row| row.iter_mut().zip(&middle).for_each(|(v, m)| *v -= m));
    let all: f64 = rows.iter().map(|v| f64::from(v * v)).sum();
    let mut shares = [0.0; 2];
    for k in 0..2 {
        // Any start but one at right angles to the axis: uneven, and the same every time.
        let mut axis: Vec<f32> = (0..width).map(|i| 1.0 + (i * 7 % 11) as f32 / 11.0).collect();
        for _ in 0..ROUNDS {
            if k == 1 {
                let along = dot(&axis, &axes[0]);
                axis.iter_mut().zip(&axes[0]).for_each(|(v, a)| *v -= along * a);
            }
            let mut next = vec![0.0; width];
            for row in rows.chunks(width) {
                let along = dot(row, &axis);
                next.iter_mut().zip(row).for_each(|(n, v)| *n += along * v);
            }
            let length = dot(&next, &next).sqrt();
            if length <= f32::EPSILON {
                break;
            }
            next.iter_mut().for_each(|v| *v /= length);
            axis = next;
        }
        let spread: f64 = rows.chunks(width).map(|row| f64::from(dot(row, &axis)).powi(2)).sum();
        shares[k] = if all > 0.0 { spread / all } else { 0.0 };
        axes[k] = axis;
    }
    (axes, shares)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_are_those_of_the_spread() {
        // Wide along (1, 1, 0), less along (0, 0, 1), hardly along (1, -1, 0).
        let mut rows: Vec<f32> = Vec::new();
        for i in 0..60 {
            let (a, b) = ((i as f32 * 0.7).sin() * 5.0, (i as f32 * 1.9).cos() * 2.0);
            let c = (i as f32 * 3.1).sin() * 0.1;
            rows.extend([3.0 + a + c, a - c, b]);
        }
        let (axes, shares) = principal(&mut rows, 3);
        assert!((axes[0][0] - axes[0][1]).abs() < 0.05 && axes[0][2].abs() < 0.1, "{axes:?}");
        assert!(axes[1][2].abs() > 0.99, "{axes:?}");
        assert!(dot(&axes[0], &axes[1]).abs() < 1e-3);
        assert!(shares[0] > shares[1] && shares[0] + shares[1] > 0.99 && shares[0] + shares[1] < 1.001);
    }

    #[test]
    fn nothing_to_spread_is_no_axis() {
        assert_eq!(principal(&mut [], 4).1, [0.0; 2]);
        assert_eq!(principal(&mut [1.0; 8], 4).1, [0.0; 2]);
    }
}
