//! How text and numbers are written: escaping, widths, and digits a reader wants to see.

/// Text made safe for element content and for quoted attributes.
///
/// Control characters are not allowed in XML even when escaped, so they become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Estimated width of `text` in pixels at font size `size`.
///
/// SVG cannot measure text, so margins come from this; it errs on the wide side because system
/// fonts differ.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '(' | ')' | 't' | 'f' | ' '
            | 'I' => 0.34,
            'm' | 'w' | 'M' | 'W' => 0.9,
            'A'..='Z' => 0.68,
            '0'..='9' => 0.6,
            '\u{2070}'..='\u{209f}' | '²' | '³' | '¹' => 0.4,
            '\u{2e80}'..='\u{ffff}' => 1.0,
            _ => 0.57,
        })
        .sum();
    em * size
}

/// `text` cut to fit `room` pixels, with an ellipsis where it was cut.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    // The prefix bounds the work and the bytes whatever the length of the text.
    let head: String = text.chars().take(400).collect();
    if head.len() == text.len() && width(&head, size) <= room {
        return head;
    }
    let room = room - width("…", size);
    let (mut out, mut used) = (String::new(), 0.0);
    for c in head.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), size);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// A number for a reader: four significant digits, thousands separated, M/B/T above a million,
/// powers of ten at the extremes.
///
/// ```
/// use cadet_plot::number;
/// assert_eq!(number(0.93124), "0.9312");
/// assert_eq!(number(12_345.0), "12,345");
/// assert_eq!(number(-2_500_000.0), "−2.5M");
/// assert_eq!(number(1.5e-7), "1.5×10⁻⁷");
/// ```
pub fn number(v: f64) -> String {
    if v.is_nan() {
        return "–".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "∞".into() } else { "−∞".into() };
    }
    let a = v.abs();
    if a == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e15).contains(&a) {
        let exponent = a.log10().floor() as i32;
        return scientific(v, exponent, 2, true);
    }
    if let Some((unit, suffix)) = magnitude(a) {
        return format!("{}{suffix}", trimmed(v / unit, significant(a / unit, 3)));
    }
    if v.fract() == 0.0 {
        return fixed(v, 0);
    }
    trimmed(v, significant(a, 4))
}

/// `v` with exactly `decimals` digits after the point, thousands separated, a true minus sign.
pub(crate) fn fixed(v: f64, decimals: usize) -> String {
    if !v.is_finite() {
        return number(v);
    }
    let digits = format!("{:.decimals$}", v.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = String::with_capacity(digits.len() + 8);
    if v < 0.0 && digits.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        out.push('−');
    }
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Decimals that suit all of `values` at once, so that a column or a row of labels lines up: three
/// significant digits for the largest, fewer if none of the values needs them.
pub(crate) fn decimals(values: impl Iterator<Item = f64> + Clone) -> usize {
    let largest = values.clone().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    let most = match largest {
        a if a >= 1000.0 => 0,
        a if a >= 100.0 => 1,
        a if a >= 10.0 => 2,
        a if a >= 0.1 || a == 0.0 => 3,
        a => (2 - a.log10().floor() as i32).clamp(3, 6) as usize,
    };
    let exact = |d: usize| {
        let unit = 10f64.powi(d as i32);
        values.clone().filter(|v| v.is_finite()).all(|v| ((v * unit).round() - v * unit).abs() < 1e-6)
    };
    (0..most).find(|d| exact(*d)).unwrap_or(most)
}

/// `text` broken at spaces into at most three lines of `room` pixels, if that is possible.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() == 3;
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ if full || width(word, size) > room => return None,
            _ => lines.push(word.into()),
        }
    }
    Some(lines)
}

/// `v` as m×10ⁿ with a given exponent.
pub(crate) fn scientific(v: f64, exponent: i32, decimals: usize, trim: bool) -> String {
    // Two steps keep 10^exponent away from under- and overflow.
    let mantissa = v / 10f64.powi(exponent / 2) / 10f64.powi(exponent - exponent / 2);
    let digits = if trim { trimmed(mantissa, decimals) } else { fixed(mantissa, decimals) };
    let power: String = exponent
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => c.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(c),
        })
        .collect();
    match digits.as_str() {
        "1" => format!("10{power}"),
        "−1" => format!("−10{power}"),
        _ => format!("{digits}×10{power}"),
    }
}

/// The unit and suffix for large plain numbers.
pub(crate) fn magnitude(a: f64) -> Option<(f64, &'static str)> {
    match a {
        a if a >= 1e12 => Some((1e12, "T")),
        a if a >= 1e9 => Some((1e9, "B")),
        a if a >= 1e6 => Some((1e6, "M")),
        _ => None,
    }
}

fn significant(a: f64, digits: i32) -> usize {
    (digits - 1 - a.log10().floor() as i32).clamp(0, 9) as usize
}

fn trimmed(v: f64, decimals: usize) -> String {
    let s = fixed(v, decimals);
    if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_string() } else { s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (v, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.5, "0.5"),
            (0.99999, "1"),
            (0.000_123_4, "0.0001234"),
            (-1234.5, "−1,234"),
            (999_999.0, "999,999"),
            (1e6, "1M"),
            (3.21e9, "3.21B"),
            (1e30, "10³⁰"),
            (-2.5e-20, "−2.5×10⁻²⁰"),
            (5e-324, "4.94×10⁻³²⁴"),
            (f64::MAX, "1.8×10³⁰⁸"),
            (f64::NAN, "–"),
            (f64::NEG_INFINITY, "−∞"),
        ] {
            assert_eq!(number(v), expected, "{v:e}");
        }
    }

    #[test]
    fn a_rounded_zero_has_no_sign() {
        assert_eq!(fixed(-0.0004, 3), "0.000");
        assert_eq!(fixed(-1234567.891, 2), "−1,234,567.89");
    }

    #[test]
    fn decimals_follow_the_largest() {
        assert_eq!(decimals([1.0, 20.0].into_iter()), 0);
        assert_eq!(decimals([0.9, 0.931].into_iter()), 3);
        assert_eq!(decimals([0.9, 0.5].into_iter()), 1);
        assert_eq!(decimals([123.4, f64::NAN].into_iter()), 1);
        assert_eq!(decimals([0.00012].into_iter()), 5);
    }

    #[test]
    fn escaping_covers_markup_and_control_characters() {
        assert_eq!(escape("a<b & \"c\" 'd'>\u{0}"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;\u{fffd}");
    }

    #[test]
    fn long_names_break_at_spaces() {
        let lines = wrap("without negative sampling", 12.0, 70.0).expect("fits in three lines");
        assert_eq!(lines, ["without", "negative", "sampling"]);
        assert_eq!(wrap("incomprehensibilities", 12.0, 70.0), None);
        assert_eq!(wrap("one two three four five six seven", 12.0, 40.0), None);
    }

    #[test]
    fn cut_text_fits() {
        let cut = fit(&"wide words ".repeat(1000), 12.0, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 100.0, "{cut}");
        assert_eq!(fit("short", 12.0, 100.0), "short");
    }
}
