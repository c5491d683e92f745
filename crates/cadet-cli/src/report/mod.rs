//! The report: what a model learned and how far to trust it, as one page with plots.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cadet::ask::scorer::Scorer;
use cadet::ask::users::Users;
use cadet::ask::{self, Ask, Mode};
use cadet::judge::verdict::Colour;
use cadet::learn::trainer::History;
use cadet::metrics::CHANCE_LOSS;
use cadet::model::Model;
use cadet::worlds::synth::World;
use cadet::{Error, TaskId};
use cadet_data::Draft;
use cadet_data::time::iso;
use cadet_plot::{
    Axis, Best, Calibration, CalibrationBin, Cell, Colours, Column, Distribution, Figure, Heatmap, Histogram,
    Light, Lines, Mark, Page, PointGroup, Scatter, Section, Series, Table, Tile, Verdict, number,
};

use crate::commands::demo::{Against, Door, over_seeds};
use crate::commands::explain::Explained;
use crate::output::{bytes, count};

/// What the report of `cadet demo` is called; a folder with such a report may be written again.
pub(crate) const DEMO: &str = "cadet demo";

/// Writes a page, whole or not at all.
pub(crate) fn write(path: &Path, page: &Page) -> Result<()> {
    let (draft, mut file) = Draft::begin(path)?;
    file.write_all(page.html().as_bytes()).map_err(|e| Error::io(path, e))?;
    Ok(draft.finish(&file)?)
}

/// Checks, before any work is done, that a report could be written there.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if path.exists() && !path.is_file() {
        let what = "is there already and is not a file: choose another --report";
        return Err(Error::data(path, cadet::At::File, what).into());
    }
    Draft::begin(path)?;
    Ok(())
}

/// The report of `cadet train`.
pub(crate) fn of_model(model: &Model) -> Result<Page> {
    let mut page = base(model)?;
    page.sections = vec![trust(model)];
    if model.has_signal() {
        page.sections.push(items(model, None)?);
        page.sections.push(hubs(model)?);
        page.sections.extend(example(model)?);
        page.sections.push(training(model));
    }
    page.sections.push(about(model)?);
    Ok(page)
}

/// The report of `cadet explain`.
pub(crate) fn of_explanation(explained: &Explained<'_>, count: usize) -> Page {
    let (row, verdict) = (&explained.pair.row, explained.verdict());
    Page {
        title: format!("Why {} and {}?", row.user, explained.item()),
        subtitle: "The familiarity of one user with one item, taken apart".into(),
        tiles: vec![
            Tile::new("Familiarity", format!("{:+.3}", verdict.familiarity), "log q/p, in nats"),
            Tile::new("Quantile", format!("{:.3}", verdict.quantile), "of the population is less familiar"),
            Tile::new("Times seen", row.times_seen.to_string(), row.last_seen.map(iso).unwrap_or_default()),
        ],
        sections: vec![explanation(explained, count)],
        ..Page::default()
    }
}

/// A pair taken apart: bars of the parts, and the items nearby.
fn explanation(explained: &Explained<'_>, count: usize) -> Section {
    let ask::Explained { row, parts, near } = &explained.pair;
    let mut rows: Vec<Vec<Cell>> =
        vec![vec!["Start".into(), "the average user and the average item".into(), Cell::Number(parts.start)]];
    for kind in &explained.kinds {
        let (shown, others) = kind.largest(count);
        rows.extend(
            shown
                .iter()
                .map(|(name, part)| vec![kind.title.into(), name.clone().into(), Cell::Number(*part)]),
        );
        if kind.parts.len() > shown.len() {
            let name = format!("{} others", kind.parts.len() - shown.len());
            rows.push(vec![kind.title.into(), name.into(), Cell::Number(others)]);
        }
    }
    if !parts.seen.is_empty() {
        let name = "that the user saw no more than that";
        rows.push(vec!["User".into(), name.into(), Cell::Number(parts.user_rest)]);
    }
    let rest = match parts.seeds.is_empty() {
        true => "the item's embedding",
        false => "what training moved the embedding by",
    };
    rows.push(vec!["Item".into(), rest.into(), Cell::Number(parts.item_rest)]);
    rows.push(vec!["Sum".into(), "familiarity".into(), Cell::Number(parts.sum())]);
    let table = Table {
        caption: format!("{} and {}: what each part adds to the familiarity, in nats", row.user, row.item),
        columns: vec![Column::new("Kind"), Column::new("Part"), Column::new("Adds").decimals(3).bars()],
        rows,
    };
    let nearby = Table {
        caption: "Items with the most similar audiences; they are no part of the sum".into(),
        columns: vec![
            Column::new("Item"),
            Column::new("Cosine").decimals(3),
            Column::new("Familiarity").decimals(2),
            Column::new("Times seen").decimals(0),
        ],
        rows: near
            .iter()
            .map(|(near, row)| {
                let familiarity = row.verdict.map_or(f32::NAN, |v| v.familiarity);
                vec![
                    near.item.to_string().into(),
                    Cell::Number(f64::from(near.cosine)),
                    Cell::Number(f64::from(familiarity)),
                    Cell::Number(f64::from(row.times_seen)),
                ]
            })
            .collect(),
    };
    Section::new("One pair, explained")
        .prose("On the straight way from the average user and item to these two, every part is credited with what it adds to the score (integrated gradients, integrated exactly). The parts add up to the familiarity; bars in the second colour lower it.")
        .table(table)
        .table(nearby)
}

/// The most common user of the largest item, explained.
fn example(model: &Model) -> Result<Option<Section>> {
    let Some(task) = three_items(model).into_iter().next().filter(|_| model.has_signal()) else {
        return Ok(None);
    };
    let users = Users::of(model);
    let ask = Ask::new(&users)?;
    let item = model.items.name(task.0);
    let Some(most) = ask.score_item(item, Some((Mode::Common, 1)))?.pop() else { return Ok(None) };
    Ok(Some(explanation(&Explained::new(model, ask.explain(most.user, item, 5)?), 5)))
}

/// The report of `cadet demo`: the same, and the truth beside it.
pub(crate) fn of_demo(model: &Model, world: &World, results: &[Against]) -> Result<Page> {
    let mut page = base(model)?;
    page.title = DEMO.into();
    page.subtitle = format!(
        "A generated world of {} users and {} items whose true familiarity is known",
        count(model.manifest.data.users),
        count(model.manifest.data.items)
    );
    let learned = |figure| over_seeds(results, Door::Features, figure);
    if let Some(r) = learned(|r| r.agreement.correlation) {
        let note = format!("with the true log q/p, test users, {} worlds", r.count);
        page.tiles
            .insert(0, Tile::new("Correlation", format!("{:.3}", r.mean), format!("± {:.3} {note}", r.sd)));
    }
    if let Some(r) = learned(|r| r.agreement.rmse) {
        page.tiles.insert(
            1,
            Tile::new("RMSE", format!("{:.3}", r.mean), format!("± {:.3} of the log ratio, in nats", r.sd)),
        );
    }
    page.sections =
        vec![truth(model, world, results)?, trust(model), items(model, Some(world))?, hubs(model)?];
    page.sections.extend(example(model)?);
    page.sections.push(training(model));
    page.sections.push(about(model)?);
    Ok(page)
}

fn base(model: &Model) -> Result<Page> {
    let m = &model.manifest;
    let mut tiles = Vec::new();
    if let Some(metrics) = &m.metrics {
        if let Some(auc) = metrics.auc {
            let note = format!("± {:.3}, against the population of exposures; chance 0.5", 1.96 * auc.error);
            tiles.push(Tile::new("AUC", format!("{:.3}", auc.value), note));
        }
        let gain = metrics.gain();
        let note = format!("nats a pair over chance, ± {:.3}", 1.96 * gain.error);
        tiles.push(Tile::new("Gain", format!("{:+.3}", -gain.value), note));
        let note = format!("mean gap; {:.3} by chance alone", metrics.calibration_floor);
        tiles.push(Tile::new("Calibration error", format!("{:.3}", metrics.calibration.error), note));
    }
    let verdict = m.verdict.as_ref().map(|v| Verdict {
        light: match v.colour {
            Colour::Green => Light::Green,
            Colour::Amber => Light::Amber,
            Colour::Red => Light::Red,
        },
        word: v.colour.name().to_uppercase(),
        reasons: v.reasons.clone(),
    });
    Ok(Page {
        title: "cadet model report".into(),
        verdict,
        subtitle: format!(
            "{} exposures of {} items by {} users, from {}",
            count(m.data.exposures),
            count(m.data.items),
            count(m.data.users),
            m.data.sources.join(", ")
        ),
        tiles,
        footer: format!("cadet {} · seed {} · data {}", m.cadet, m.settings.seed, &m.data.sha256[..12]),
        ..Page::default()
    })
}

fn truth(model: &Model, world: &World, results: &[Against]) -> Result<Section> {
    let pairs = world.estimates_and_truths(model)?;
    // An even thinning: the plot shows a density, not every one of the pairs.
    let step = pairs.len().div_ceil(60_000).max(1);
    let points: Vec<(f64, f64)> = pairs.iter().step_by(step).map(|(f, r)| (*r, *f)).collect();
    let first = results.iter().find(|r| r.door == Door::Features);
    let scatter = Scatter {
        title: "Estimated against true familiarity".into(),
        x: Axis::new("True log q/p").unit("nats"),
        y: Axis::new("Estimate").unit("nats"),
        groups: vec![PointGroup::new("test users × items", points)],
        identity: true,
        annotation: first.map_or(String::new(), |r| {
            format!("r = {:.3}, RMSE {:.3}", r.agreement.correlation, r.agreement.rmse)
        }),
        ..Scatter::default()
    };
    let similarity = similarity(model);
    let mut table = Table {
        caption: "Every row is one world and one model; correlation and RMSE on test users".into(),
        columns: vec![
            Column::new("What is known"),
            Column::new("World").decimals(0),
            Column::new("Correlation").decimals(4).best(Best::Highest),
            Column::new("RMSE").decimals(4).best(Best::Lowest),
            Column::new("Seconds").decimals(1),
        ],
        rows: Vec::new(),
    };
    for r in results {
        table.rows.push(vec![
            r.door.name().into(),
            Cell::Number(r.seed as f64),
            Cell::Number(r.agreement.correlation),
            Cell::Number(r.agreement.rmse),
            Cell::Number(r.seconds),
        ]);
    }
    Ok(Section::new("Against the truth")
        .prose("The world was generated, so the true familiarity of every user with every item can be worked out exactly. The model saw only features and exposures of the training users; every figure here is on test users.")
        .figures([
            Figure::new(scatter.svg(), "On the line, the estimate is exact. Far left, few exposures tell how low is low."),
            Figure::new(similarity.svg(), "Cosine of the items' embeddings, the largest items, neighbours side by side. Blocks are items with similar audiences."),
        ])
        .table(table))
}

/// How alike the largest items are, neighbours side by side.
fn similarity(model: &Model) -> Heatmap {
    const MOST: usize = 100;
    let mut heatmap = Heatmap {
        title: "Similarity of items".into(),
        x: Axis::new("Item"),
        y: Axis::new("Item"),
        value: Axis::new("Cosine").range(-1.0, 1.0),
        colours: Colours::Diverging,
        ..Heatmap::default()
    };
    let Ok(embeddings) = model.ratio.embeddings() else { return heatmap };
    let mut tasks: Vec<u32> = (0..model.items.len() as u32).filter(|t| model.trained[*t as usize]).collect();
    tasks.sort_by_key(|t| std::cmp::Reverse(model.exposures.audience(TaskId(*t)).instances.len()));
    tasks.truncate(MOST);
    let centre = embeddings.centre();
    // A chain in which each item is followed by the most similar one left: blocks become visible.
    let mut chain: Vec<u32> = tasks.pop().into_iter().collect();
    while !tasks.is_empty() {
        let last = chain[chain.len() - 1];
        let alike = |t: &u32| embeddings.cosine(last, *t, &centre);
        let next = (0..tasks.len()).max_by(|a, b| alike(&tasks[*a]).total_cmp(&alike(&tasks[*b])));
        chain.push(tasks.swap_remove(next.unwrap_or(0)));
    }
    heatmap.values = chain
        .iter()
        .map(|a| chain.iter().map(|b| f64::from(embeddings.cosine(*a, *b, &centre))).collect())
        .collect();
    heatmap
}

fn training(model: &Model) -> Section {
    let m = &model.manifest;
    let mut figures = vec![Figure::new(
        auc_curve(&m.history).svg(),
        "How often a positive scores above a negative, all items together, validation users.",
    )];
    if let Some(history) = &m.seed_history {
        figures.push(Figure::new(
            loss_curve(history, "Loss of the pre-embedding model").svg(),
            "Trained on the seed tasks alone; its responses place all items.",
        ));
    }
    Section::new("Training").figures(figures)
}

fn loss_curve(history: &History, title: &str) -> Lines {
    let train = history.epochs.iter().map(|e| (e.epoch as f64, e.train_loss)).collect();
    let valid: Vec<(f64, f64)> =
        history.epochs.iter().filter_map(|e| Some((e.epoch as f64, e.valid?.loss))).collect();
    Lines {
        title: title.into(),
        x: Axis::new("Epoch"),
        y: Axis::new("Contrastive loss").unit("nats"),
        series: vec![Series::new("training", train), Series::new("validation", valid)],
        level: Some(Mark::new(CHANCE_LOSS, "chance")),
        moment: Some(Mark::new(history.best as f64, format!("kept: {}", history.best))),
        ..Lines::default()
    }
}

fn auc_curve(history: &History) -> Lines {
    let valid: Vec<(f64, f64)> =
        history.epochs.iter().filter_map(|e| Some((e.epoch as f64, e.valid?.auc))).collect();
    Lines {
        title: "Validation AUC".into(),
        x: Axis::new("Epoch"),
        y: Axis::new("AUC"),
        series: vec![Series::new("validation", valid)],
        moment: Some(Mark::new(history.best as f64, format!("kept: {}", history.best))),
        ..Lines::default()
    }
}

fn trust(model: &Model) -> Section {
    let section = Section::new("How far to trust it");
    let Some(metrics) = &model.manifest.metrics else {
        return section.prose("No users were held out for testing, so nothing can be said here.");
    };
    let bins = metrics.calibration.bins.iter().map(|b| {
        // Two standard errors of a share.
        let error = 2.0 * (b.observed * (1.0 - b.observed) / b.count.max(1) as f64).sqrt();
        CalibrationBin {
            predicted: b.predicted,
            observed: b.observed,
            lo: (b.observed - error).max(0.0),
            hi: (b.observed + error).min(1.0),
            count: b.count,
        }
    });
    let calibration = Calibration {
        title: "Calibration of the ratio".into(),
        x: Axis::new("Predicted: σ(familiarity)"),
        y: Axis::new("Observed share from the audience"),
        bins: bins.collect(),
        annotation: format!("mean gap {:.3}", metrics.calibration.error),
        ..Calibration::default()
    };
    let sizes = Table {
        caption: "AUC by the item's held-out exposures, every unexposed user once; ± over items".into(),
        columns: vec![
            Column::new("Held-out exposures"),
            Column::new("Items").decimals(0),
            Column::new("AUC, users once").decimals(3),
        ],
        rows: metrics
            .by_size
            .iter()
            .map(|b| {
                vec![
                    format!("{}–{}", b.from, b.to).into(),
                    Cell::Number(b.auc.count as f64),
                    Cell::Spread(b.auc.mean, b.auc.sd),
                ]
            })
            .collect(),
    };
    let mut figures = vec![Figure::new(
        calibration.svg(),
        "On the line, σ(familiarity) is the chance that a user came from the item's audience rather than from the population.",
    )];
    if !model.manifest.history.epochs.is_empty() {
        figures.push(Figure::new(
            loss_curve(&model.manifest.history, "Loss of the ratio net").svg(),
            "Per pair of one positive and one negative. The kept epoch has the lowest held-out loss, unless another measure was chosen.",
        ));
    }
    let section = section
        .prose("Measured on users that were neither trained on nor used to choose the epoch; ± is a 95 % interval, clustered by user. AUC: how often a held-out exposure scores above one of the population, where users count as often as they are shown something. It stays below 1 even for a perfect model, because who is exposed is partly chance.")
        .table(rivals(model))
        .figures(figures);
    // Where features are given, nothing is known of how much describes a user.
    let tables = [light_users(model), sizes, p_values(model)];
    tables.into_iter().filter(|t| !t.rows.is_empty()).fold(section, Section::table)
}

/// The model beside simpler ways, and beside itself in the future.
fn rivals(model: &Model) -> Table {
    let m = &model.manifest;
    let estimate = |e: Option<cadet::judge::evaluate::Estimate>, sign: f64| match e {
        Some(e) => Cell::Spread(sign * e.value, 1.96 * e.error),
        None => "".into(),
    };
    let mut table = Table {
        caption: "This model beside simpler ways, on the same users".into(),
        columns: vec![
            Column::new(""),
            Column::new("AUC").decimals(3),
            Column::new("Nats gained a pair").decimals(4),
            Column::new("Calibration error").decimals(3),
            Column::new("AUC, users once").decimals(3),
        ],
        rows: Vec::new(),
    };
    let once = |a: Option<f64>| a.map_or("".into(), Cell::Number);
    if let Some(found) = &m.metrics {
        table.rows.push(vec![
            "this model".into(),
            estimate(found.auc, 1.0),
            estimate(Some(found.gain()), -1.0),
            Cell::Number(found.calibration.error),
            once(found.exposure_auc.map(|a| a.mean)),
        ]);
    }
    for b in &m.baselines {
        let row = [
            b.name.as_str().into(),
            estimate(b.auc, 1.0),
            estimate(b.gain, -1.0),
            "".into(),
            once(b.exposure_auc),
        ];
        table.rows.push(row.into());
    }
    if let Some(f) = &m.future {
        let name = format!("a model of the past, on what came from {} on", iso(f.from));
        table.rows.push(vec![
            name.into(),
            estimate(f.auc, 1.0),
            estimate(Some(f.gain), -1.0),
            "".into(),
            "".into(),
        ]);
    }
    table
}

/// What users get by how much is known of them.
fn light_users(model: &Model) -> Table {
    let buckets = model.manifest.metrics.iter().flat_map(|m| &m.by_activity);
    Table {
        caption: "By how many exposures describe the user".into(),
        columns: vec![
            Column::new("Exposures"),
            Column::new("Pairs").decimals(0),
            Column::new("Spread of scores").decimals(2),
            Column::new("Nats gained a pair").decimals(4),
            Column::new("Calibration error").decimals(3),
        ],
        rows: buckets
            .map(|b| {
                vec![
                    if b.from < b.to { format!("{}–{}", b.from, b.to) } else { b.from.to_string() }.into(),
                    Cell::Number(b.pairs as f64),
                    Cell::Number(b.spread),
                    Cell::Number(-b.gain),
                    Cell::Number(b.calibration_error),
                ]
            })
            .collect(),
    }
}

/// How right p-values are.
fn p_values(model: &Model) -> Table {
    Table {
        caption:
            "p-values of test users for items they did see: the share at or below a level should be the level"
                .into(),
        columns: vec![Column::new("Level").decimals(2), Column::new("Share").decimals(3)],
        rows: model
            .manifest
            .p_values
            .iter()
            .map(|(level, share)| vec![Cell::Number(*level), Cell::Number(*share)])
            .collect(),
    }
}

/// Three trained items: the largest, a middling and a small one.
pub(crate) fn three_items(model: &Model) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> =
        (0..model.items.len() as u32).map(TaskId).filter(|t| model.trained[t.0 as usize]).collect();
    tasks.sort_by_key(|t| (std::cmp::Reverse(model.exposures.audience(*t).instances.len()), t.0));
    let mut chosen: Vec<TaskId> =
        [0, tasks.len() / 2, tasks.len() * 9 / 10].iter().filter_map(|i| tasks.get(*i)).copied().collect();
    chosen.dedup();
    chosen
}

fn items(model: &Model, world: Option<&World>) -> Result<Section> {
    let users = Users::of(model);
    let scorer = Scorer::new(&users)?;
    let population = population(model);
    let mut figures = Vec::new();
    let mut table = Table {
        caption: "The three most common and the three freshest users of each".into(),
        columns: vec![
            Column::new("Item"),
            Column::new(""),
            Column::new("User"),
            Column::new("Familiarity").decimals(2),
            Column::new("Quantile").decimals(3),
            Column::new("p-value").decimals(3),
            Column::new("Times seen").decimals(0),
        ],
        rows: Vec::new(),
    };
    if world.is_some() {
        table.columns.push(Column::new("Truth").decimals(2));
    }
    for task in three_items(model) {
        let name = model.items.name(task.0).to_string();
        let ready = scorer.task(task)?;
        let verdicts = ready.verdicts(&users.all());
        let audience = model.exposures.audience(task);
        let of_audience =
            audience.instances.iter().map(|u| f64::from(verdicts[*u as usize].familiarity)).collect();
        let of_population = population.iter().map(|u| f64::from(verdicts[*u as usize].familiarity)).collect();
        let histogram = Histogram {
            title: format!("{name}: {} users", count(audience.instances.len())),
            x: Axis::new("Familiarity").unit("nats"),
            distributions: vec![
                Distribution::new("population", of_population),
                Distribution::new("audience", of_audience),
            ],
            ..Histogram::default()
        };
        figures.push(Figure::new(histogram.svg(), "Left is fresh, right is common. The further the audience stands to the right of the population, the pickier the item."));
        let mut order: Vec<u32> = (0..verdicts.len() as u32).collect();
        order.sort_by(|a, b| verdicts[*b as usize].familiarity.total_cmp(&verdicts[*a as usize].familiarity));
        let ends = order
            .iter()
            .take(3)
            .map(|u| ("common", *u))
            .chain(order.iter().rev().take(3).map(|u| ("fresh", *u)));
        for (end, u) in ends {
            let v = verdicts[u as usize];
            let mut row: Vec<Cell> = vec![
                name.clone().into(),
                end.into(),
                model.users.name(u).to_string().into(),
                Cell::Number(f64::from(v.familiarity)),
                Cell::Number(f64::from(v.quantile)),
                Cell::Number(f64::from(v.p_value)),
                Cell::Number(f64::from(audience.times_seen(u))),
            ];
            row.extend(world.map(|w| Cell::Number(w.log_ratio(task, u))));
            table.rows.push(row);
        }
    }
    let mut section = Section::new("Audiences").figures(figures);
    if world.is_none() {
        section = section.figures([Figure::new(
            similarity(model).svg(),
            "Cosine of the items' embeddings, the largest items, neighbours side by side. Blocks are items with similar audiences.",
        )]);
    }
    Ok(section
        .prose("Familiarity is log q/p: how much more likely a user like this is in the item's audience than in the population. The quantile is the share of the population that is less familiar; a small p-value says that hardly anybody of the item's audience is this unfamiliar.")
        .table(table))
}

/// A sample of the population: users as often as they are shown something.
fn population(model: &Model) -> Vec<u32> {
    let all = model.exposures.instances();
    all.iter().step_by(all.len().div_ceil(2_000).max(1)).copied().collect()
}

/// How often the same users are the freshest.
fn hubs(model: &Model) -> Result<Section> {
    let found = cadet::judge::verdict::hubs(model, 200, 100)?;
    let text = format!(
        "The {} freshest users of each of {} items, among those who have not seen it: the 1 % most listed users hold {:.0} % \
         of all places. Drawn by lot in proportion to how fresh the model takes users to be, they would hold {:.0} %, and \
         evenly 1 %. Users with one-sided tastes really are fresh to many items; to keep lists from filling with the same \
         few, ask for a minimum of exposures (cadet audience --min-exposures) or draw by lot.",
        count(found.slots),
        count(found.items),
        100.0 * found.share,
        100.0 * found.by_lot,
    );
    Ok(Section::new("The same users everywhere?").prose(text))
}

fn about(model: &Model) -> Result<Section> {
    let m = &model.manifest;
    let cost = format!(
        "{:.1} s, {:.1} CPU-seconds, {} of memory at most; {} positives in {} epochs, kept epoch {}.",
        m.train.wall_seconds,
        m.train.cpu_seconds,
        bytes(m.train.peak_rss_bytes),
        number(m.history.positives as f64),
        m.history.epochs.len(),
        m.history.best,
    );
    Ok(Section::new("About this model")
        .prose(cost)
        .details("Settings", serde_json::to_string_pretty(&m.settings)?))
}
