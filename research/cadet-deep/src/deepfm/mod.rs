//! DeepFM (Guo et al. 2017): users' features from who clicked what.
//!
//! ```text
//! y = b + Σ_f w_f + Σ_{f<g} v_f·v_g + mlp(v_1 … v_F)      P(click) = sigmoid(y)
//! ```
//!
//! Every field of a user or an item (its id, a category, a list of categories) has one vector `v_f` that the
//! pairwise part and the net share; the vector of a list is the mean of its members'. A user's features are
//! the vectors of its own fields, one after the other. Rows are sparse: a batch moves only what it met.

mod clicks;

use cadet::internals::{Adam, AdamConfig, AdamMoments};
use cadet::learn::epochs::{self, Course, Epochs};
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Instances, Kernel, Result, metrics};

use crate::kernels::Dense;
use crate::rows::RowTable;
pub use clicks::{Clicks, Field, Side};

/// The sizes of the model and how to train it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepFmConfig {
    /// Numbers per field.
    pub width: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Pulls the vectors towards 0.
    pub decay: f32,
    /// Adam's step size.
    pub learning_rate: f32,
    /// Clicks per step.
    pub batch: usize,
    /// At most this many passes.
    pub epochs: usize,
    /// Stop after this many epochs without a better one.
    pub patience: usize,
    /// Seeds weights and order.
    pub seed: u64,
}

impl Default for DeepFmConfig {
    fn default() -> Self {
        Self {
            width: 20,
            hidden: vec![64, 32],
            decay: 1e-5,
            learning_rate: 1e-3,
            batch: 1024,
            epochs: 20,
            patience: 2,
            seed: 1,
        }
    }
}

/// All fields together.
const MOST_CATEGORIES: usize = 1 << 28;

impl DeepFmConfig {
    fn check(&self) -> Result<()> {
        let sizes = [("width", self.width), ("batch", self.batch), ("epochs", self.epochs)];
        let hidden = self.hidden.iter().map(|width| ("hidden", *width));
        for (field, value) in sizes.into_iter().chain(hidden) {
            if value == 0 || (field != "epochs" && value > 1 << 20) {
                return Err(Error::config(field, format!("must be 1 to 1048576, found {value}")));
            }
        }
        if self.hidden.is_empty() {
            return Err(Error::config("hidden", "DeepFM needs a hidden layer"));
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return Err(Error::config(
                "learning_rate",
                format!("must be above 0, found {}", self.learning_rate),
            ));
        }
        if !(self.decay.is_finite() && self.decay >= 0.0) {
            return Err(Error::config("decay", format!("must be at least 0, found {}", self.decay)));
        }
        Ok(())
    }
}

/// The model.
#[derive(Debug, Clone)]
pub struct DeepFm {
    kernel: Kernel,
    width: usize,
    fields: Vec<Field>,
    /// Where a field's categories begin in the table.
    starts: Vec<u32>,
    /// One row per category: `v`, then `w`.
    table: RowTable,
    bias: Bias,
    layers: Vec<Dense>,
    /// Steps of training.
    steps: u64,
}

/// `b`
#[derive(Debug, Clone)]
struct Bias {
    value: [f32; 1],
    gradient: [f32; 1],
    moments: AdamMoments,
}

/// How training went.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepFmHistory {
    /// AUC on the validation clicks after each epoch.
    pub valid_auc: Vec<f64>,
    /// The epoch that was kept, counted from 1.
    pub best: usize,
}

/// Working memory of a batch.
#[derive(Debug, Default)]
struct Work {
    /// Input and hidden layers, row after row.
    activations: Vec<Vec<f32>>,
    delta: Vec<f32>,
    upstream: Vec<f32>,
    logits: Vec<f32>,
}

impl DeepFm {
    /// Trains on clicks and keeps the epoch with the best AUC on `valid`.
    pub fn learn(
        config: &DeepFmConfig,
        fields: Vec<Field>,
        train: &Clicks,
        valid: &Clicks,
    ) -> Result<(Self, DeepFmHistory)> {
        let model = Self::init(config, fields)?;
        model.check(train)?;
        model.check(valid)?;
        if train.is_empty() {
            return Err(Error::config("clicks", "there are none to train on"));
        }
        let mut course = Learning {
            config,
            train,
            valid,
            model,
            order: (0..train.len() as u32).collect(),
            work: Work::default(),
            best: None,
        };
        let mut standing = Epochs::default();
        // A worse epoch ends it where no patience is asked for.
        epochs::run(&mut course, config.epochs, config.patience.max(1), &mut standing)?;
        let valid_auc = standing.worth.iter().map(|auc| auc.unwrap_or(f64::NAN)).collect();
        Ok((course.model, DeepFmHistory { valid_auc, best: standing.best }))
    }

    fn init(config: &DeepFmConfig, fields: Vec<Field>) -> Result<Self> {
        config.check()?;
        if fields.is_empty() {
            return Err(Error::config("fields", "DeepFM needs at least one field"));
        }
        for side in [Side::User, Side::Item] {
            let mut sizes = fields.iter().filter(|f| f.side == side).map(Field::members);
            let first = sizes.next();
            if let Some(found) = sizes.find(|n| Some(*n) != first) {
                return Err(Error::Shape { what: "members of a field", expected: first.unwrap_or(0), found });
            }
        }
        let rows: usize = fields.iter().map(|f| f.categories).sum();
        if rows > MOST_CATEGORIES {
            let why = format!(
                "{rows} categories in all are more than {MOST_CATEGORIES}: number them from 0, without gaps"
            );
            return Err(Error::config("fields", why));
        }
        let mut starts = vec![0u32];
        for field in &fields {
            starts.push(starts[starts.len() - 1] + field.categories as u32);
        }
        let mut rng = Rng::at(config.seed, Purpose::Clicks, [u64::MAX, 0]);
        let mut start: Vec<f32> = (0..rows * (config.width + 1)).map(|_| 0.01 * rng.normal()).collect();
        start.chunks_exact_mut(config.width + 1).for_each(|row| row[config.width] = 0.0);
        let table = RowTable::new(config.width + 1, &start);
        let bias = Bias { value: [0.0], gradient: [0.0], moments: AdamMoments::zeros(1) };
        let mut inputs = fields.len() * config.width;
        let mut layers = Vec::new();
        for width in config.hidden.iter().copied().chain([1]) {
            layers.push(Dense::init(inputs, width, &mut rng));
            inputs = width;
        }
        Ok(Self {
            kernel: Kernel::chosen()?,
            width: config.width,
            fields,
            starts,
            table,
            bias,
            layers,
            steps: 0,
        })
    }

    fn check(&self, clicks: &Clicks) -> Result<()> {
        let expected = clicks.len();
        for found in [clicks.items.len(), clicks.clicked.len()] {
            if found != expected {
                return Err(Error::Shape { what: "clicks", expected, found });
            }
        }
        for (side, list, what) in [(Side::User, &clicks.users, "users"), (Side::Item, &clicks.items, "items")]
        {
            let largest = list.iter().max().map_or(0, |m| *m as usize + 1);
            let fields = self.fields.iter().filter(|f| f.side == side);
            if let Some(field) = fields.clone().find(|f| f.members() < largest) {
                let why =
                    format!("field {} knows {} {what}, the clicks {largest}", field.name, field.members());
                return Err(Error::config("fields", why));
            }
        }
        Ok(())
    }

    /// Fills `work.logits` and the activations.
    fn forward(&self, clicks: &Clicks, batch: &[u32], work: &mut Work) {
        let width = self.width;
        let inputs = self.layers[0].inputs();
        work.activations.resize(self.layers.len() + 1, Vec::new());
        work.logits.clear();
        let x = &mut work.activations[0];
        x.clear();
        x.resize(batch.len() * inputs, 0.0);
        let (mut sums, mut squares) = (vec![0.0f32; width], vec![0.0f32; width]);
        for (i, x) in batch.iter().zip(x.chunks_exact_mut(inputs)) {
            sums.fill(0.0);
            squares.fill(0.0);
            let [mut logit] = self.bias.value;
            for (f, v) in x[..self.fields.len() * width].chunks_exact_mut(width).enumerate() {
                let categories = self.fields[f].of_click(clicks, *i);
                let share = 1.0 / categories.len().max(1) as f32;
                for category in categories {
                    let row = self.table.row(self.starts[f] + category);
                    v.iter_mut().zip(row).for_each(|(v, r)| *v += share * r);
                    logit += share * row[width];
                }
                for ((v, sum), square) in v.iter().zip(&mut sums).zip(&mut squares) {
                    *sum += v;
                    *square += v * v;
                }
            }
            logit += 0.5 * sums.iter().zip(&squares).map(|(s, q)| s * s - q).sum::<f32>();
            work.logits.push(logit);
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let (before, after) = work.activations.split_at_mut(l + 1);
            after[0].resize(batch.len() * layer.width(), 0.0);
            layer.forward(self.kernel, &before[l], l + 1 < self.layers.len(), &mut after[0]);
        }
        let last = self.layers[self.layers.len() - 1].width();
        let outputs = &work.activations[self.layers.len()];
        work.logits.iter_mut().zip(outputs.chunks_exact(last)).for_each(|(logit, out)| *logit += out[0]);
    }

    /// One update; returns the sum of the losses before it.
    fn step(&mut self, clicks: &Clicks, batch: &[u32], config: &DeepFmConfig, work: &mut Work) -> f64 {
        let loss = self.gradients(clicks, batch, work);
        self.steps += 1;
        let adam = Adam::at(AdamConfig::default(), config.learning_rate, self.steps);
        self.layers.iter_mut().for_each(|layer| layer.step(self.kernel, adam));
        self.table.step(self.kernel, adam, config.decay);
        let Bias { value, gradient, moments } = &mut self.bias;
        moments.step(self.kernel, adam, value, gradient);
        loss
    }

    fn gradients(&mut self, clicks: &Clicks, batch: &[u32], work: &mut Work) -> f64 {
        self.forward(clicks, batch, work);
        let Work { activations, delta, upstream, logits } = work;
        let last = self.layers[self.layers.len() - 1].width();
        let mut loss = 0.0;
        delta.clear();
        delta.resize(batch.len() * last, 0.0);
        self.bias.gradient = [0.0];
        for ((logit, i), d) in logits.iter_mut().zip(batch).zip(delta.chunks_exact_mut(last)) {
            let clicked = clicks.clicked[*i as usize];
            let y = f64::from(*logit);
            loss += metrics::softplus(if clicked { -y } else { y });
            d[0] = ((metrics::sigmoid(y) - f64::from(u8::from(clicked))) / batch.len() as f64) as f32;
            self.bias.gradient[0] += d[0];
            *logit = d[0];
        }
        let slopes = logits;
        for (l, layer) in self.layers.iter_mut().enumerate().rev() {
            upstream.resize(batch.len() * layer.inputs(), 0.0);
            layer.backward(self.kernel, &activations[l], delta, upstream);
            if l > 0 {
                let gates = activations[l].iter();
                upstream.iter_mut().zip(gates).for_each(|(d, h)| *d = if *h > 0.0 { *d } else { 0.0 });
            }
            std::mem::swap(delta, upstream);
        }
        let (width, inputs) = (self.width, self.layers[0].inputs());
        let mut sums = vec![0.0f32; width];
        let rows = activations[0].chunks_exact(inputs).zip(delta.chunks_exact(inputs));
        for ((i, slope), (x, d)) in batch.iter().zip(slopes).zip(rows) {
            sums.fill(0.0);
            let fields = self.fields.len();
            for v in x[..fields * width].chunks_exact(width) {
                sums.iter_mut().zip(v).for_each(|(s, v)| *s += v);
            }
            for f in 0..fields {
                let range = f * width..(f + 1) * width;
                let categories = self.fields[f].of_click(clicks, *i);
                let share = 1.0 / categories.len().max(1) as f32;
                for category in categories {
                    let gradient = self.table.gradient(self.starts[f] + category);
                    let parts = x[range.clone()].iter().zip(&d[range.clone()]).zip(&sums);
                    for (g, ((v, d), sum)) in gradient.iter_mut().zip(parts) {
                        *g += share * (d + *slope * (sum - v));
                    }
                    gradient[width] += share * *slope;
                }
            }
        }
        loss
    }

    /// The log-odds of a click.
    pub fn predict(&self, clicks: &Clicks) -> Result<Vec<f32>> {
        self.check(clicks)?;
        let order: Vec<u32> = (0..clicks.len() as u32).collect();
        let (mut work, mut out) = (Work::default(), Vec::with_capacity(clicks.len()));
        for batch in order.chunks(4096) {
            self.forward(clicks, batch, &mut work);
            out.extend_from_slice(&work.logits);
        }
        Ok(out)
    }

    /// How often a clicked pair is ranked above one that was not.
    pub fn auc(&self, clicks: &Clicks) -> Option<f64> {
        let scores = self.predict(clicks).ok()?;
        let of = |want: bool| -> Vec<f32> {
            scores.iter().zip(&clicks.clicked).filter(|(_, c)| **c == want).map(|(s, _)| *s).collect()
        };
        metrics::auc(&of(true), &of(false))
    }

    /// The features of all users: the vectors of their fields, one after the other.
    pub fn user_rows(&self) -> Result<Instances> {
        let fields: Vec<usize> =
            (0..self.fields.len()).filter(|f| self.fields[*f].side == Side::User).collect();
        let Some(first) = fields.first() else {
            return Err(Error::config("fields", "no field is the user's: users have no features"));
        };
        let mut rows = Vec::new();
        for user in 0..self.fields[*first].members() as u32 {
            for f in &fields {
                let categories = self.fields[*f].of(user);
                let share = 1.0 / categories.len().max(1) as f32;
                let start = rows.len();
                rows.resize(start + self.width, 0.0);
                for category in categories {
                    let row = self.table.row(self.starts[*f] + category);
                    rows[start..].iter_mut().zip(row).for_each(|(v, r)| *v += share * r);
                }
            }
        }
        Instances::new(fields.len() * self.width, rows)
    }
}

/// A training under way.
struct Learning<'a> {
    config: &'a DeepFmConfig,
    train: &'a Clicks,
    valid: &'a Clicks,
    model: DeepFm,
    order: Vec<u32>,
    work: Work,
    best: Option<DeepFm>,
}

impl Course for Learning<'_> {
    fn batches(&self) -> usize {
        self.train.len().div_ceil(self.config.batch)
    }

    fn step(&mut self, epoch: usize, batch: usize) -> f64 {
        if batch == 0 {
            Rng::at(self.config.seed, Purpose::Clicks, [epoch as u64, 0]).shuffle(&mut self.order);
        }
        let rest = &self.order[batch * self.config.batch..];
        let clicks = &rest[..self.config.batch.min(rest.len())];
        self.model.step(self.train, clicks, self.config, &mut self.work) / clicks.len() as f64
    }

    fn end(&mut self, epoch: usize, _: usize, loss: f64) -> Result<Option<f64>> {
        let auc = self.model.auc(self.valid);
        tracing::debug!(epoch, loss, auc, "DeepFM");
        Ok(auc)
    }

    fn keep(&mut self) {
        self.best = Some(self.model.clone());
    }

    fn put_back(&mut self) -> Result<()> {
        if let Some(best) = self.best.take() {
            self.model = best;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users and items of four kinds each; a click is likely where the kinds agree. Genres come in lists.
    fn world(clicks: usize, seed: u64) -> (Vec<Field>, Clicks) {
        let mut rng = Rng::at(seed, Purpose::World, [4, 0]);
        let kinds: Vec<[u32; 1]> = (0..60).map(|u| [u % 4]).collect();
        let genres: Vec<Vec<u32>> =
            (0..40).map(|i| if i % 5 == 0 { vec![i % 4, 4] } else { vec![i % 4] }).collect();
        let fields = vec![
            Field::id("user", Side::User, 60),
            Field::new("kind", Side::User, kinds.iter().map(|k| &k[..])),
            Field::id("item", Side::Item, 40),
            Field::new("genres", Side::Item, genres.iter().map(Vec::as_slice)),
        ];
        let mut list = Clicks::default();
        for _ in 0..clicks {
            let (user, item) = (rng.below(60) as u32, rng.below(40) as u32);
            let chance = if user % 4 == item % 4 { 0.8 } else { 0.3 };
            list.push(user, item, rng.unit() < chance);
        }
        (fields, list)
    }

    fn config() -> DeepFmConfig {
        DeepFmConfig {
            width: 5,
            hidden: vec![9, 4],
            decay: 0.0,
            epochs: 12,
            batch: 64,
            ..DeepFmConfig::default()
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (fields, clicks) = world(23, 1);
        let mut model = DeepFm::init(&config(), fields).unwrap();
        // Larger numbers than at the start, so that every part of the model matters.
        let mut rng = Rng::at(5, Purpose::World, [5, 0]);
        let rows = model.starts[model.fields.len()];
        (0..rows).for_each(|r| model.table.row_mut(r).iter_mut().for_each(|v| *v = 0.5 * rng.normal()));
        let batch: Vec<u32> = (0..23).collect();
        let loss = |model: &DeepFm| {
            let mut work = Work::default();
            model.forward(&clicks, &batch, &mut work);
            let of =
                |(y, c): (&f32, &bool)| metrics::softplus(if *c { -f64::from(*y) } else { f64::from(*y) });
            work.logits.iter().zip(&clicks.clicked).map(of).sum::<f64>() / 23.0
        };
        let clean = model.clone();
        model.gradients(&clicks, &batch, &mut Work::default());
        const STEP: f32 = 2e-3;
        let slope = |change: &dyn Fn(&mut DeepFm, f32)| {
            let at = |by: f32| {
                let mut moved = clean.clone();
                change(&mut moved, by);
                moved.layers.iter_mut().for_each(Dense::transpose);
                loss(&moved)
            };
            (at(STEP) - at(-STEP)) / (2.0 * f64::from(STEP))
        };
        let close = |found: f32, expected: f64, what: &str| {
            assert!((f64::from(found) - expected).abs() < 1e-3, "{what}: {found} {expected}");
        };
        close(model.bias.gradient[0], slope(&|m, by| m.bias.value[0] += by), "bias");
        let (mut checked, mut moving) = (0, 0);
        for row in (0..rows).step_by(3) {
            for i in [0, 4, 5] {
                let expected = slope(&|m, by| m.table.row_mut(row)[i] += by);
                close(model.table.gradient(row)[i], expected, "a row");
                checked += 1;
                moving += usize::from(expected.abs() > 1e-2);
            }
        }
        assert!(moving * 8 > checked, "{moving} of {checked}");
        for (l, (inputs, width)) in [(20, 9), (9, 4), (4, 1)].into_iter().enumerate() {
            let (rows, columns) = (clean.layers[l].inputs(), clean.layers[l].width());
            let mut most = 0.0f64;
            for row in (0..inputs).chain([rows]) {
                for column in 0..width {
                    let i = row * columns + column;
                    let expected = slope(&|m, by| m.layers[l].theta[i] += by);
                    close(model.layers[l].gradient[i], expected, "a layer");
                    most = most.max(expected.abs());
                }
            }
            assert!(most > 5e-3, "layer {l} matters: {most}");
        }
    }

    #[test]
    fn learns_what_goes_together_and_repeats_itself() {
        let (fields, train) = world(6_000, 1);
        let (valid, test) = (world(1_000, 2).1, world(2_000, 3).1);
        let (model, history) = DeepFm::learn(&config(), fields.clone(), &train, &valid).unwrap();
        // The best that can be known: 0.8 where the kinds agree, 0.3 elsewhere.
        let truth: Vec<(f32, bool)> = (0..test.len())
            .map(|i| (f32::from(u8::from(test.users[i] % 4 == test.items[i] % 4)), test.clicked[i]))
            .collect();
        let of = |want| truth.iter().filter(|(_, c)| *c == want).map(|(s, _)| *s).collect::<Vec<_>>();
        let best = metrics::auc(&of(true), &of(false)).unwrap();
        let found = model.auc(&test).unwrap();
        assert!(best - found < 0.03, "{found} of {best}");
        let x = model.user_rows().unwrap();
        assert_eq!((x.len(), x.width()), (60, 10));
        assert!(x.row(0) != x.row(1) && x.values().iter().all(|v| v.is_finite()));
        let (again, same) = DeepFm::learn(&config(), fields, &train, &valid).unwrap();
        assert_eq!((again.user_rows().unwrap(), same), (x, history));
    }

    #[test]
    fn bad_input_is_refused() {
        let (fields, train) = world(50, 1);
        let none = Clicks::default();
        assert!(DeepFm::learn(&config(), fields.clone(), &none, &none).is_err());
        assert!(DeepFm::learn(&config(), Vec::new(), &train, &none).is_err());
        let odd = Field::id("other", Side::User, 59);
        assert!(DeepFm::learn(&config(), [fields.clone(), vec![odd]].concat(), &train, &none).is_err());
        let huge = Field::new("huge", Side::User, (0..60).map(|_| &[u32::MAX - 1][..]));
        let error = DeepFm::learn(&config(), vec![huge], &train, &none).unwrap_err();
        assert!(error.to_string().contains("without gaps"), "{error}");
        for bad in [
            DeepFmConfig { hidden: vec![0], ..config() },
            DeepFmConfig { epochs: 0, ..config() },
            DeepFmConfig { learning_rate: f32::NAN, ..config() },
        ] {
            assert!(DeepFm::learn(&bad, fields.clone(), &train, &none).is_err());
        }
        let mut stranger = Clicks::default();
        stranger.push(60, 0, true);
        let error = DeepFm::learn(&config(), fields.clone(), &stranger, &none).unwrap_err();
        assert!(error.to_string().contains("field user knows 60 users, the clicks 61"), "{error}");
        let items = fields.into_iter().skip(2).collect();
        let (model, _) = DeepFm::learn(&config(), items, &train, &none).unwrap();
        assert!(model.user_rows().is_err());
    }
}
