//! What happens to single numbers: the loss and its slope, and dropout. Plain arithmetic that the compiler
//! turns into vectors once it is inlined into a kernel, the same bits with every instruction set.

use super::simd::PAD;

/// Turns responses (positives first, then as many negatives) into the slopes of the loss, times
/// `scale`, and returns the loss.
///
/// Both come from `u = exp(-|z|)`: softplus(±z) = max(±z, 0) + log1p(u), and the slope is a sigmoid.
#[inline(always)]
pub(super) fn softplus_and_slopes<const N: usize>(z: &mut [f32; N], positives: usize, scale: f32) -> f64 {
    let mut losses = [0.0f32; N];
    for (r, (z, loss)) in z.iter_mut().zip(&mut losses).enumerate() {
        let sign = if r < positives { -1.0 } else { 1.0 };
        let v = sign * *z;
        let u = exp_negative(-v.abs());
        // `max` drops what is not a number; the last term brings it back.
        *loss = v.max(0.0) + log_one_plus(u) + 0.0 * v;
        let s = 1.0 / (1.0 + u);
        *z = sign * scale * if v >= 0.0 { s } else { u * s };
    }
    losses[..2 * positives].iter().map(|l| f64::from(*l)).sum()
}

/// `softplus(z) = ln(1 + exp z)` and its slope, the sigmoid; inlined, so that a caller's loop becomes
/// vectors.
#[inline(always)]
pub fn softplus_and_slope(z: f32) -> (f32, f32) {
    let u = exp_negative(-z.abs());
    let s = 1.0 / (1.0 + u);
    // `max` drops what is not a number; the last term brings it back.
    (z.max(0.0) + log_one_plus(u) + 0.0 * z, if z >= 0.0 { s } else { u * s })
}

/// `exp(x)` for x ≤ 0, to about 2 units in the last place; plain arithmetic that vectorises.
#[inline(always)]
pub(super) fn exp_negative(x: f32) -> f32 {
    let x = x.max(-87.0);
    let n = (x * std::f32::consts::LOG2_E + 0.5).floor();
    // ln 2 in two parts, so that the remainder keeps its digits.
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let poly = 1.987_569_1e-4;
    let poly = poly * r + 1.398_199_9e-3;
    let poly = poly * r + 8.333_452e-3;
    let poly = poly * r + 4.166_579_6e-2;
    let poly = poly * r + 1.666_666_5e-1;
    let poly = poly * r + 0.5;
    let value = poly * r * r + r + 1.0;
    value * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

/// `ln(1 + u)` for u in [0, 1], by the series of 2·atanh(u / (2 + u)).
#[inline(always)]
pub(super) fn log_one_plus(u: f32) -> f32 {
    let s = u / (2.0 + u);
    let q = s * s;
    let series = 1.0 / 13.0;
    let series = series * q + 1.0 / 11.0;
    let series = series * q + 1.0 / 9.0;
    let series = series * q + 1.0 / 7.0;
    let series = series * q + 1.0 / 5.0;
    let series = series * q + 1.0 / 3.0;
    2.0 * s * (series * q + 1.0)
}

/// A hash of 32 bits (two multiply-xorshift rounds).
#[inline(always)]
pub(super) fn mix(mut value: u32) -> u32 {
    value ^= value >> 16;
    value = value.wrapping_mul(0x7feb_352d);
    value ^= value >> 15;
    value = value.wrapping_mul(0x846c_a68b);
    value ^ (value >> 16)
}

/// Drops each unit with probability `share` and scales up the rest.
///
/// Which ones is a hash of `noise` and the unit's place, 16 bits a unit: the same on every machine.
#[inline(always)]
pub(super) fn drop_units(units: &mut [f32], share: f32, noise: u32) {
    if share == 0.0 {
        return;
    }
    let threshold = (share * 65536.0) as u32;
    let keep = 1.0 / (1.0 - share);
    for (b, block) in units.chunks_exact_mut(2 * PAD).enumerate() {
        let (low, high) = block.split_at_mut(PAD);
        for n in 0..PAD {
            let bits = mix(noise.wrapping_add((b * PAD + n) as u32).wrapping_mul(0x9e37_79b9));
            low[n] = if bits & 0xffff < threshold { 0.0 } else { low[n] * keep };
            high[n] = if bits >> 16 < threshold { 0.0 } else { high[n] * keep };
        }
    }
}
