//! `cadet inspect`: what is in a model, and where it came from.

use anyhow::Result;
use cadet::{TaskId, store};

use crate::args::{Global, Inspect};
use crate::output::{self, count};

pub(crate) fn run(args: &Inspect, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    let m = model.manifest();
    if global.json {
        return output::print_json(m);
    }
    let s = &m.settings;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let init = match model.pre_embedding() {
        Some(pre) => {
            format!("learned from {} seed tasks ({:?})", pre.seeds.len(), s.seed_choice).to_lowercase()
        }
        None => "random".into(),
    };
    let best = m.history.epochs.get(m.history.best.wrapping_sub(1));
    let mut rows = vec![
        row("made by", format!("cadet {} ({} kernel), folder version {}", m.cadet, m.kernel, m.version)),
        row("trained on", m.data.sources.join(", ")),
        row("data", format!("{} exposures ({} events)", count(m.data.exposures), count(m.data.events))),
        row(
            "users",
            format!(
                "{}{} × {} features{}",
                count(m.data.users),
                match model.users().len() - model.trained_users() {
                    0 => String::new(),
                    n => format!(", {} of them joined later,", count(n)),
                },
                m.data.features,
                match m.data.learned_features {
                    true => " learned from the exposures",
                    false => "",
                }
            ),
        ),
        row(
            "items",
            format!(
                "{}, {} trained{}",
                count(m.data.items),
                count(model.trained().iter().filter(|t| **t).count()),
                match model.added_items().count() {
                    0 => String::new(),
                    n => format!(", {} placed without training", count(n)),
                }
            ),
        ),
        row(
            "net",
            format!(
                "{} + {} → {:?} → 1{}",
                m.data.features,
                s.embedding,
                s.hidden,
                match s.ensemble {
                    1 => String::new(),
                    n => format!(", the mean of {n}"),
                }
            ),
        ),
        row("embeddings", init),
        row(
            "kept",
            best.map_or("nothing: no signal".into(), |best| {
                let of = m.history.epochs.len();
                format!("epoch {} of {of}, training loss {:.4}", m.history.best, best.train_loss)
            }),
        ),
    ];
    if let Some(metrics) = &m.metrics {
        if let Some(auc) = metrics.auc {
            rows.push(row("AUC", format!("{auc:.3} against the population of exposures")));
        }
        let auc = metrics.exposure_auc.map(|a| format!("{:.3}, mean over {} items", a.mean, count(a.count)));
        rows.push(row("AUC, users once", auc.unwrap_or_else(|| "none".into())));
        rows.push(row("test loss", format!("{:.4} (chance {:.4})", metrics.loss, metrics.chance_loss)));
        rows.push(row("calibration", format!("off by {:.3}", metrics.calibration.error)));
    }
    rows.push(row("seed", s.seed.to_string()));
    rows.push(row("data sha256", m.data.sha256.clone()));
    let width = rows.iter().map(|r| r[0].chars().count()).max().unwrap_or(0);
    let mut text = m.verdict.as_ref().map_or(String::new(), |v| super::verdict::verdict(v) + "\n");
    text += &rows.iter().map(|r| format!("  {:width$}  {}\n", r[0], r[1])).collect::<String>();
    let mut sizes: Vec<(usize, u32)> =
        (0..model.items().len() as u32).map(|t| (model.seen().audience_size(TaskId(t)), t)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let largest = sizes.iter().take(5).map(|(n, t)| {
        let basis = format!("{:?}", model.calibrator().basis(*t)).to_lowercase();
        vec![model.label(TaskId(*t)), count(*n), format!("{:.0}", model.seen().mass(TaskId(*t))), basis]
    });
    text += "\nLargest items:\n";
    text += &output::table(&["item", "users", "weight", "p-values from"], &largest.collect::<Vec<_>>());
    output::print(&text)
}
