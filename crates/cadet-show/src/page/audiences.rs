//! Who is common to an item and who is fresh, which items are alike, and whether the same users are
//! everywhere.

use cadet::Result;
use cadet::TaskId;
use cadet::ask::Scorer;
use cadet::ask::Users;
use cadet::model::Model;
use cadet::worlds::synth::World;
use cadet_plot::{Axis, Cell, Colours, Column, Distribution, Figure, Heatmap, Histogram, Section, Table};

use crate::words::{count, many};

/// Three trained items: the largest, a middling and a small one.
pub fn three_items(model: &Model) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> =
        (0..model.items().len() as u32).map(TaskId).filter(|t| model.is_trained(*t)).collect();
    tasks.sort_by_key(|t| (std::cmp::Reverse(model.seen().audience_size(*t)), t.0));
    let mut chosen: Vec<TaskId> =
        [0, tasks.len() / 2, tasks.len() * 9 / 10].iter().filter_map(|i| tasks.get(*i)).copied().collect();
    chosen.dedup();
    chosen
}

/// Who is common to some items, and who is fresh; beside the truth, where a world tells it.
pub fn items(model: &Model, world: Option<&World>) -> Result<Section> {
    let scorer = Scorer::new(Users::of(model));
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
        let name = model.label(task);
        let verdicts = scorer.verdicts(task, &scorer.users().all())?;
        let audience = model.seen().audience(task);
        let of_audience = audience.map(|(u, _)| f64::from(verdicts[u as usize].familiarity)).collect();
        let of_population = population.iter().map(|u| f64::from(verdicts[*u as usize].familiarity)).collect();
        let histogram = Histogram {
            title: format!("{name}: {}", many(model.seen().audience_size(task), "user")),
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
                model.users().name(u).to_string().into(),
                Cell::Number(f64::from(v.familiarity)),
                Cell::Number(f64::from(v.quantile)),
                Cell::Number(f64::from(v.p_value)),
                Cell::Number(f64::from(model.seen().get(u, task).map_or(0, |e| e.count))),
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
    let items = (0..model.items().len() as u32).map(TaskId);
    let all = items.flat_map(|t| model.seen().audience(t).map(|(user, _)| user));
    all.step_by(model.seen().len().div_ceil(2_000).max(1)).collect()
}

/// How often the same users are the freshest.
pub fn hubs(model: &Model) -> Section {
    let found = cadet::ask::measure::hubs(model, 200, 100);
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
    Section::new("The same users everywhere?").prose(text)
}

/// How alike the largest items are, neighbours side by side.
pub fn similarity(model: &Model) -> Heatmap {
    const MOST: usize = 100;
    let mut heatmap = Heatmap {
        title: "Similarity of items".into(),
        x: Axis::new("Item"),
        y: Axis::new("Item"),
        value: Axis::new("Cosine").range(-1.0, 1.0),
        colours: Colours::Diverging,
        ..Heatmap::default()
    };
    let Ok(embeddings) = model.ratio().embeddings() else { return heatmap };
    let mut tasks: Vec<u32> =
        (0..model.items().len() as u32).filter(|t| model.is_trained(TaskId(*t))).collect();
    tasks.sort_by_key(|t| std::cmp::Reverse(model.seen().audience_size(TaskId(*t))));
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
