//! The little dense linear algebra that initialisation and features need, in double precision.

/// Eigenvalues (descending) and eigenvectors (rows) of a symmetric matrix, by Jacobi's rotations.
pub(crate) fn eigen_symmetric(matrix: &[f64], n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    debug_assert_eq!(matrix.len(), n * n);
    let mut a = matrix.to_vec();
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    let size: f64 = a.iter().map(|v| v * v).sum::<f64>().sqrt();
    for _ in 0..60 {
        let off: f64 =
            (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i * n + j].powi(2)).sum();
        if off.sqrt() <= 1e-14 * size {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let apq = a[p * n + q];
                if apq.abs() <= f64::MIN_POSITIVE {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (vectors[p * n + k], vectors[q * n + k]);
                    (vectors[p * n + k], vectors[q * n + k]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a[j * n + j].total_cmp(&a[i * n + i]));
    let values = order.iter().map(|i| a[i * n + i]).collect();
    let rows = order
        .iter()
        .map(|i| {
            let row = &vectors[i * n..(i + 1) * n];
            // A sign of its own would depend on rounding: the largest entry is made positive.
            let largest = row.iter().copied().max_by(|x, y| x.abs().total_cmp(&y.abs())).unwrap_or(1.0);
            row.iter().map(|v| v * largest.signum()).collect()
        })
        .collect();
    (values, rows)
}

/// `f` applied to the eigenvalues of a symmetric matrix.
pub fn map_eigenvalues(matrix: &[f64], n: usize, f: impl Fn(f64) -> f64) -> Vec<f64> {
    let (values, vectors) = eigen_symmetric(matrix, n);
    let mut out = vec![0.0; n * n];
    for (value, vector) in values.iter().zip(&vectors) {
        let scale = f(*value);
        for i in 0..n {
            for j in 0..n {
                out[i * n + j] += scale * vector[i] * vector[j];
            }
        }
    }
    out
}

/// `a · b` for a square matrix and a vector.
pub fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.chunks_exact(b.len()).map(|row| row.iter().zip(b).map(|(x, y)| x * y).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Rng};

    #[test]
    fn eigenvectors_give_the_matrix_back() {
        let n = 9;
        let mut rng = Rng::at(1, Purpose::Init, [0, 0]);
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = f64::from(rng.normal());
                (matrix[i * n + j], matrix[j * n + i]) = (value, value);
            }
        }
        let (values, vectors) = eigen_symmetric(&matrix, n);
        assert!(values.is_sorted_by(|a, b| a >= b));
        for (value, vector) in values.iter().zip(&vectors) {
            for (found, v) in times(&matrix, vector).iter().zip(vector) {
                assert!((found - value * v).abs() < 1e-10);
            }
        }
        let same = map_eigenvalues(&matrix, n, |v| v);
        assert!(same.iter().zip(&matrix).all(|(a, b)| (a - b).abs() < 1e-10));
    }

    #[test]
    fn known_eigenvalues() {
        let (values, vectors) = eigen_symmetric(&[2.0, 1.0, 1.0, 2.0], 2);
        assert!((values[0] - 3.0).abs() < 1e-12 && (values[1] - 1.0).abs() < 1e-12);
        assert!((vectors[0][0] - vectors[0][1]).abs() < 1e-12);
        assert_eq!(eigen_symmetric(&[0.0; 4], 2).0, [0.0, 0.0]);
    }
}
