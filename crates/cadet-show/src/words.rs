//! How do numbers and tables read as text?

/// Lines up columns: numbers on the right, text on the left. Without any heading there is no header.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let column = |c: usize| rows.iter().map(move |r| r[c].as_str());
    let is_number =
        |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) || cell == "none";
    let right: Vec<bool> = (0..header.len()).map(|c| c > 0 && column(c).all(is_number)).collect();
    let width = |c: usize| column(c).chain([header[c]]).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut out = String::from("  ");
        for ((cell, width), right) in cells.iter().zip(&widths).zip(&right) {
            let space = " ".repeat(width - cell.chars().count());
            let (left, right) = if *right { (space.as_str(), "") } else { ("", space.as_str()) };
            out.push_str(&format!("{left}{cell}{right}  "));
        }
        out.trim_end().to_owned() + "\n"
    };
    let mut out = String::new();
    if header.iter().any(|h| !h.is_empty()) {
        let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        out.push_str(&line(header));
        out.push_str(&line(&rule.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    rows.iter().for_each(|row| out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>())));
    out
}

/// 1234567 → "1,234,567".
pub fn count(n: impl TryInto<u64>) -> String {
    let digits = n.try_into().unwrap_or(0).to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// (2, "item") → "2 items".
pub fn many(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(0);
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// 0.05 → "5".
pub fn percent(share: f64) -> String {
    // Six digits hide what binary fractions add.
    format!("{}", (share * 1e8).round() / 1e6)
}

/// Bytes in the unit that suits them.
pub fn bytes(n: u64) -> String {
    let (value, unit) = match n {
        n if n >= 1 << 30 => (n as f64 / f64::from(1 << 30), "GiB"),
        n if n >= 1 << 20 => (n as f64 / f64::from(1 << 20), "MiB"),
        n => (n as f64 / 1024.0, "KiB"),
    };
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tables_line_up() {
        assert_eq!(
            [count(0u64), count(999u64), count(1_000u64), count(1_234_567u64)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(bytes(3 << 20), "3.0 MiB");
        let shown =
            table(&["item", "AUC"], &[vec!["a".into(), "0.5".into()], vec!["long".into(), "0.75".into()]]);
        assert_eq!(shown, "  item   AUC\n  ────  ────\n  a      0.5\n  long  0.75\n");
    }
}
