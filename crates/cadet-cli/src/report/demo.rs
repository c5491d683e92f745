//! A generated world: the truth beside the estimates.

use anyhow::Result;
use cadet::model::Model;
use cadet::worlds::synth::World;
use cadet_plot::{Axis, Best, Cell, Column, Figure, Page, PointGroup, Scatter, Section, Table, Tile};

use cadet_show::page::{about, base, example, hubs, items, similarity, training, trust};

use super::DEMO;
use crate::commands::demo::{Against, Door, over_seeds};
use crate::output::count;

/// The report of `cadet demo`: the same, and the truth beside it.
pub(crate) fn of_demo(model: &Model, world: &World, results: &[Against]) -> Result<Page> {
    let mut page = base(model);
    page.title = DEMO.into();
    page.subtitle = format!(
        "A generated world of {} users and {} items whose true familiarity is known",
        count(model.manifest().data.users),
        count(model.manifest().data.items)
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
        vec![truth(model, world, results)?, trust(model), items(model, Some(world))?, hubs(model)];
    page.sections.extend(example(model)?);
    page.sections.push(training(model));
    page.sections.push(about(model));
    Ok(page)
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
