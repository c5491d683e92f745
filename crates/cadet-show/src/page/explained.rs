//! One pair, taken apart.

use cadet::Result;
use cadet::ask::{self, Ask, Mode};
use cadet::model::Model;
use cadet_data::time::iso;
use cadet_plot::{Cell, Column, Page, Section, Table, Tile};

use super::audiences::three_items;
use crate::explained::Explained;
use crate::named::label;

/// The report of a pair.
pub fn of_explanation(explained: &Explained<'_>, count: usize) -> Page {
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
        caption: format!(
            "{} and {}: what each part adds to the familiarity, in nats",
            row.user,
            explained.item()
        ),
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
                    label(explained.model, near.item).into(),
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
pub fn example(model: &Model) -> Result<Option<Section>> {
    let Some(task) = three_items(model).into_iter().next().filter(|_| model.has_signal()) else {
        return Ok(None);
    };
    let ask = Ask::new(model);
    let item = model.items().name(task.0);
    let Some(most) = ask.score_item(item, Some((Mode::Common, 1)))?.pop() else { return Ok(None) };
    Ok(Some(explanation(&Explained::new(model, ask.explain(most.user, item, 5)?), 5)))
}
