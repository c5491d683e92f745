//! How a verdict and what it rests on look on screen.

use std::io::IsTerminal;

use cadet::judge::evaluate::Evaluation;
use cadet::judge::verdict::{Baseline, Colour, Future, Judgement};
use cadet_data::time::iso;

use crate::output::{self, count};

/// The verdict: its colour as a word, painted on a terminal, and a reason a line.
pub(crate) fn verdict(verdict: &Judgement) -> String {
    let word = verdict.colour.name().to_uppercase();
    let painted =
        match (std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(), verdict.colour) {
            (false, _) => word.clone(),
            (true, Colour::Green) => format!("\x1b[1;32m{word}\x1b[0m"),
            (true, Colour::Amber) => format!("\x1b[1;33m{word}\x1b[0m"),
            (true, Colour::Red) => format!("\x1b[1;31m{word}\x1b[0m"),
        };
    let indent = " ".repeat(word.len() + 2);
    let lines: Vec<String> =
        verdict.reasons.iter().map(|r| wrapped(r, 110 - indent.len(), &indent)).collect();
    format!("{painted}  {}\n", lines.join(&format!("\n{indent}")))
}

/// A sentence in lines of at most so many characters.
fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let (mut out, mut length) = (String::new(), 0);
    for word in text.split(' ') {
        let size = word.chars().count();
        if length > 0 && length + 1 + size > width {
            out += &format!("\n{indent}");
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out += word;
        length += size;
    }
    out
}

/// What the model and simpler ways reach on the same users, and on what came later.
pub(crate) fn measures(found: &Evaluation, baselines: &[Baseline], future: Option<&Future>) -> String {
    let gain = |g: cadet::judge::evaluate::Estimate| format!("{:+.4} ± {:.4}", 0.0 - g.value, 1.96 * g.error);
    let auc = |a: Option<cadet::judge::evaluate::Estimate>| {
        a.map_or("none".into(), |a| format!("{:.3} ± {:.3}", a.value, 1.96 * a.error))
    };
    let once = |a: Option<f64>| a.map_or("none".into(), |a| format!("{a:.3}"));
    let mut rows = vec![vec![
        "this model".to_owned(),
        auc(found.auc),
        gain(found.gain()),
        format!("{:.3}", found.calibration.error),
        once(found.exposure_auc.map(|a| a.mean)),
    ]];
    for b in baselines {
        let gained = b.gain.map_or("none".into(), gain);
        rows.push(vec![b.name.clone(), auc(b.auc), gained, String::new(), once(b.exposure_auc)]);
    }
    if let Some(f) = future {
        let name = format!("a model of the past, from {} on", iso(f.from).get(..10).unwrap_or_default());
        rows.push(vec![name, auc(f.auc), gain(f.gain), String::new(), String::new()]);
    }
    let head = format!("on {} test users", count(found.users));
    let mut text =
        output::table(&[&head, "AUC", "nats gained a pair", "calibration error", "AUC, users once"], &rows);
    text += "  ± is a 95 % interval, clustered by user. AUC: a held-out exposure against the population of exposures, where\n  \
             users count as often as they are shown something; chance is 0.5. Users once: every unexposed user counts once.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_below_each_other() {
        let found =
            verdict(&Judgement { colour: Colour::Amber, reasons: vec!["One.".into(), "Two.".into()] });
        assert_eq!(found, "AMBER  One.\n       Two.\n");
        assert_eq!(wrapped("aa bb cc", 5, "> "), "aa bb\n> cc");
    }
}
