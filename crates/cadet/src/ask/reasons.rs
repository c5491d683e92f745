//! Why is a user this familiar with an item? The score, taken apart into what each side brings.
//!
//! Integrated gradients (the Aumann–Shapley value): on the straight way from the average user and the average
//! item to this user and this item, every input is credited with the slope along the way times how far it
//! went,
//!
//! ```text
//! f(x,e) - f(x₀,e₀) = Σᵢ (uᵢ - u₀ᵢ) ∫₀¹ ∂f/∂uᵢ dα,    u = (x, e)
//! ```
//!
//! The net is piecewise linear, so the integral is a finite sum: the way is walked from one kink to the next,
//! and the parts add up to the score but for rounding. What the inputs are made of is linear in turn: an
//! embedding is a linear map of the seed tasks' mean responses ([`crate::learn::init::project`]), features
//! learned from exposures are a mean over the items seen. So the credit goes on to these, and still adds up.
//! Kinds of users ([`crate::learn::features::axes`]) are smooth in the features, so there the integral is
//! taken in small steps.

use serde::{Deserialize, Serialize};

use crate::ask::Users;
use crate::learn::normalise::Describe;
use crate::learn::ratio::Ratio;
use crate::learn::tasks::cosine;
use crate::linalg::map_eigenvalues;
use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::log::split::Part;
use crate::model::{Model, PreEmbedding};
use crate::{Error, Result};

/// The parts of a score differ from it by no more than this.
pub const TOLERANCE: f64 = 1e-3;

/// A score and its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The score.
    pub familiarity: f64,
    /// What the average user is to the average item: where the way begins.
    pub start: f64,
    /// What each feature of the user adds; empty where features are learned.
    pub features: Vec<f64>,
    /// What each item that the user saw adds, where features are learned from those.
    pub seen: Vec<(TaskId, f64)>,
    /// What else the user adds: where features are learned, that this user saw no more than that; where they
    /// are given, that the average user belongs to other kinds of users than an average of users does.
    pub user_rest: f64,
    /// What each seed task's response to the item's audience adds, where embeddings are learned.
    pub seeds: Vec<(TaskId, f64)>,
    /// What else the item's embedding adds: that training moved it, or all of it where it started random.
    pub item_rest: f64,
    /// What normalising adds: this user's scores are brought to where its propensities add up to 1.
    #[serde(default)]
    pub normaliser: f64,
}

impl Explanation {
    /// All parts together: the score, within [`TOLERANCE`].
    pub fn sum(&self) -> f64 {
        let lists = self.seen.iter().chain(&self.seeds).map(|(_, part)| part);
        let rest = self.start + self.user_rest + self.item_rest + self.normaliser;
        rest + self.features.iter().chain(lists).sum::<f64>()
    }
}

/// Who is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The user's features for this item, ready for the net.
    pub x: &'a [f32],
    /// Items that the features were folded in from, with their weights; empty where features are given.
    pub seen: &'a [(TaskId, f32)],
    /// What is taken off the user's scores.
    pub log_sum: f32,
}

/// Takes the score of a user with an item apart; an item that the user has seen is taken out of the features
/// first.
pub fn explain_user(users: &Users, user: u32, task: TaskId) -> Result<Explanation> {
    let mut pair = Vec::new();
    let has_seen = users.for_pair(user, task, &mut pair);
    let mut seen = users.described_by(user);
    if has_seen {
        seen.retain(|(t, _)| *t != task);
    }
    let x = if has_seen { &pair[..] } else { users.row(user) };
    explain(users.model(), Subject { x, seen: &seen, log_sum: users.log_sum(user) }, task)
}

/// Takes a score apart.
pub fn explain(model: &Model, subject: Subject<'_>, task: TaskId) -> Result<Explanation> {
    match (task.0 as usize) < model.items().len() {
        true if model.standing(task).is_scored() => {}
        _ => {
            let hint = "it has no embedding that could be explained".to_owned();
            return Err(Error::UnknownTask { id: format!("number {}", task.0), hint });
        }
    }
    let width = model.parts.features.width();
    if subject.x.len() != width {
        return Err(Error::Shape { what: "features per user", expected: width, found: subject.x.len() });
    }
    let ratio = model.ratio();
    let net = Net::read(ratio)?;
    let e: Vec<f64> = ratio.embedding(task.0).iter().map(|v| f64::from(*v)).collect();
    let average = average_user(model);
    // The map to embeddings puts the population at 0; random ones have their middle instead.
    let middle = match model.pre_embedding() {
        Some(_) => vec![0.0; e.len()],
        None => ratio.embeddings()?.centre().iter().map(|v| f64::from(*v)).collect(),
    };
    let from: Vec<f64> = average.iter().chain(&middle).copied().collect();
    let to: Vec<f64> = subject.x.iter().map(|v| f64::from(*v)).chain(e.iter().copied()).collect();
    let mut slopes = net.slopes_on_the_way(&from, &to);
    // On the way both sides of a product grow evenly, so each is credited with half of it.
    let axes = ratio.products().axes();
    let (own, mut of_place) = (width - axes, 0.0);
    for (i, p) in (own..width).zip(ratio.products().row(task.0)) {
        slopes[i] += 0.5 * f64::from(*p);
        of_place += 0.5 * f64::from(*p) * (from[i] + to[i]);
    }
    let credit = |i: usize| slopes[i] * (to[i] - from[i]);

    let mut halves = ratio.no_halves();
    ratio.halves_into(subject.x, &mut halves);
    let mut score = [0.0];
    ratio.familiarity(task, &halves.normalised(vec![subject.log_sum]), &mut score);
    let of_user: f64 = (0..width).map(credit).sum();
    let of_item: f64 = of_place + (width..to.len()).map(credit).sum::<f64>();

    let (features, seen, user_rest) = match model.factors() {
        None => {
            let mut features: Vec<f64> = (0..own).map(credit).collect();
            if let Some(found) = &model.standard().axes {
                let along = found.credit(&from[..own], &to[..own], &slopes[own..width]);
                features.iter_mut().zip(along).for_each(|(part, along)| *part += along);
            }
            let rest = of_user - features.iter().sum::<f64>();
            (features, Vec::new(), rest)
        }
        Some(factors) => {
            let slope = |j: usize| slopes[j] * f64::from(model.standard().scale[j]);
            let shares = factors.shares(subject.seen);
            let part = |share: &[f64]| -> f64 { share.iter().enumerate().map(|(j, v)| slope(j) * v).sum() };
            let seen: Vec<(TaskId, f64)> = shares.iter().map(|(task, share)| (*task, part(share))).collect();
            let rest = of_user - seen.iter().map(|(_, part)| part).sum::<f64>();
            (Vec::new(), seen, rest)
        }
    };
    let (seeds, item_rest) = match model.pre_embedding() {
        None => (Vec::new(), of_item),
        Some(pre) => {
            let seeds = by_seed(pre, &state(model, pre, task), &slopes[width..]);
            let rest = of_item - seeds.iter().map(|(_, part)| part).sum::<f64>();
            (seeds, rest)
        }
    };
    Ok(Explanation {
        familiarity: f64::from(score[0]),
        start: net.response(&from),
        features,
        seen,
        user_rest,
        seeds,
        item_rest,
        normaliser: -f64::from(subject.log_sum),
    })
}

/// Items that stand near an item: cosine of the embeddings, the middle of all trained ones taken off, nearest
/// first.
pub fn nearest(model: &Model, task: TaskId, count: usize) -> Vec<(TaskId, f32)> {
    let (ratio, centre) = (model.ratio(), model.parts.centre());
    let own = ratio.embedding(task.0);
    let others = model.scored().into_iter().filter(|t| *t != task);
    let mut near: Vec<(TaskId, f32)> =
        others.map(|t| (t, cosine(own, ratio.embedding(t.0), centre))).collect();
    near.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    near.truncate(count);
    near
}

/// The mean of the reference sample of the population.
fn average_user(model: &Model) -> Vec<f64> {
    let x = model.reference();
    let mut mean = vec![0.0; x.width()];
    for row in x.values().chunks_exact(x.width()) {
        mean.iter_mut().zip(row).for_each(|(m, v)| *m += f64::from(*v) / x.len() as f64);
    }
    mean
}

/// What the item's first embedding was made of, mass and sums: of the users it was trained on, or of all that
/// came later.
fn state(model: &Model, pre: &PreEmbedding, task: TaskId) -> (f64, Vec<f64>) {
    let width = pre.heads.width();
    if let Some(state) = model.state(task) {
        let mut sums = state.sums();
        sums.truncate(width);
        return (state.mass(), sums);
    }
    let (mut mass, mut sums) = (0.0, vec![0.0; width]);
    let Ok(rule) = model.manifest().settings.split() else { return (mass, sums) };
    let trained = model.trained_users();
    let is_member = |u: &u32| (*u as usize) < trained && rule.part(model.users().name(*u)) == Part::Train;
    let members: Vec<(u32, f32)> =
        model.seen().audience(task).map(|(u, e)| (u, e.weight)).filter(|(u, _)| is_member(u)).collect();
    let rows = members.iter().flat_map(|(u, _)| model.features(*u)).copied().collect();
    let Ok(x) = Instances::new(model.parts.features.width(), rows) else { return (mass, sums) };
    for ((_, weight), row) in members.iter().zip(pre.heads.trunk(&x).chunks_exact(width)) {
        mass += f64::from(*weight);
        sums.iter_mut().zip(row).for_each(|(s, h)| *s += f64::from(*weight) * f64::from(*h));
    }
    (mass, sums)
}

/// The credit of each seed task. With heads `W` and `G = WᵀW`, the embedding is `axes·G⁺·Wᵀ·r` for the
/// centred mean responses `r = W·(h̄ - mean)`: the principal axes of the responses themselves.
fn by_seed(pre: &PreEmbedding, (mass, sums): &(f64, Vec<f64>), slopes: &[f64]) -> Vec<(TaskId, f64)> {
    let n = pre.heads.width();
    let heads = pre.heads.heads();
    let mut gram = vec![0.0f64; n * n];
    for head in heads.chunks_exact(n + 1) {
        for i in 0..n {
            for j in 0..n {
                gram[i * n + j] += f64::from(head[i]) * f64::from(head[j]);
            }
        }
    }
    let largest = (0..n).map(|i| gram[i * n + i]).fold(0.0, f64::max);
    let inverse = map_eigenvalues(&gram, n, |v| if v > 1e-10 * largest { 1.0 / v } else { 0.0 });
    // slopesᵀ·axes·G⁺: what a unit of a head's weights is worth.
    let mut worth = vec![0.0; n];
    for (axis, slope) in pre.projection.axes.chunks_exact(n).zip(slopes) {
        for (i, a) in axis.iter().enumerate() {
            for (j, w) in worth.iter_mut().enumerate() {
                *w += slope * f64::from(*a) * inverse[i * n + j];
            }
        }
    }
    let centred = pre.projection.centred(*mass, sums);
    let dot = |head: &[f32], v: &[f64]| -> f64 { head.iter().zip(v).map(|(h, v)| f64::from(*h) * v).sum() };
    let heads = heads.chunks_exact(n + 1).map(|head| &head[..n]);
    pre.seeds.iter().zip(heads).map(|(t, head)| (*t, dot(head, &worth) * dot(head, &centred))).collect()
}

/// The ratio net as plain matrices in double precision.
struct Net {
    /// Inputs × width, and the bias.
    layers: Vec<(Vec<f64>, Vec<f64>)>,
    output: Vec<f64>,
    bias: f64,
}

/// The values and the slopes of all units at a place on a straight way.
struct Pass {
    units: Vec<Vec<(f64, f64)>>,
}

/// Kinks nearer to each other than this are taken for one.
const STEP: f64 = 1e-9;
/// A net has a few hundred kinks on the way; one that goes on for ever is cut short.
const MOST_KINKS: usize = 100_000;

impl Net {
    fn read(ratio: &Ratio) -> Result<Self> {
        let parameters = ratio.theta();
        let get = |name: &str| -> Result<Vec<f64>> {
            let tensor = parameters.iter().find(|t| t.name == name);
            let tensor = tensor.ok_or_else(|| Error::config("tensor", format!("{name} is missing")))?;
            Ok(tensor.values.iter().map(|v| f64::from(*v)).collect())
        };
        let count = ratio.mlp().shape().hidden.len();
        let layers = (1..=count)
            .map(|l| Ok((get(&format!("layer{l}.weight"))?, get(&format!("layer{l}.bias"))?)))
            .collect::<Result<_>>()?;
        let bias = get("output.bias")?.first().copied().unwrap_or(0.0);
        Ok(Self { layers, output: get("output.weight")?, bias })
    }

    fn pass(&self, at: &[f64], direction: &[f64]) -> Pass {
        let mut units: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut inputs: Vec<(f64, f64)> = at.iter().copied().zip(direction.iter().copied()).collect();
        for (weights, bias) in &self.layers {
            let width = bias.len();
            let mut outputs: Vec<(f64, f64)> = bias.iter().map(|b| (*b, 0.0)).collect();
            for ((value, slope), row) in inputs.iter().zip(weights.chunks_exact(width)) {
                for (out, w) in outputs.iter_mut().zip(row) {
                    out.0 += w * value;
                    out.1 += w * slope;
                }
            }
            inputs = outputs.iter().map(|z| if z.0 > 0.0 { *z } else { (0.0, 0.0) }).collect();
            units.push(outputs);
        }
        Pass { units }
    }

    fn response(&self, at: &[f64]) -> f64 {
        let pass = self.pass(at, &vec![0.0; at.len()]);
        let last = pass.units.last().map_or(&[][..], Vec::as_slice);
        self.bias + last.iter().zip(&self.output).map(|(z, w)| z.0.max(0.0) * w).sum::<f64>()
    }

    /// ∂f/∂u where these units are on.
    fn gradient(&self, pass: &Pass) -> Vec<f64> {
        let mut upstream = self.output.clone();
        for ((weights, bias), units) in self.layers.iter().zip(&pass.units).rev() {
            let gated: Vec<f64> =
                upstream.iter().zip(units).map(|(g, z)| if z.0 > 0.0 { *g } else { 0.0 }).collect();
            upstream = weights
                .chunks_exact(bias.len())
                .map(|row| row.iter().zip(&gated).map(|(w, g)| w * g).sum())
                .collect();
        }
        upstream
    }

    /// ∫₀¹ ∂f/∂u dα on the straight way, from one kink of the net to the next.
    fn slopes_on_the_way(&self, from: &[f64], to: &[f64]) -> Vec<f64> {
        let direction: Vec<f64> = to.iter().zip(from).map(|(t, f)| t - f).collect();
        let mut total = vec![0.0; from.len()];
        let (mut at, mut kinks_met) = (0.0, 0);
        while at < 1.0 {
            kinks_met += 1;
            // Just behind the kink it is clear which units are on.
            let here = at + STEP;
            let place: Vec<f64> = from.iter().zip(&direction).map(|(f, d)| f + here * d).collect();
            let pass = self.pass(&place, &direction);
            let kinks = pass.units.iter().flatten().map(|(value, slope)| -value / slope);
            let next = kinks.filter(|ahead| *ahead > 0.0).fold(f64::INFINITY, f64::min);
            let end = if kinks_met < MOST_KINKS { (here + next).min(1.0) } else { 1.0 };
            let share = end - at;
            total.iter_mut().zip(self.gradient(&pass)).for_each(|(t, g)| *t += share * g);
            at = end;
        }
        total
    }
}
