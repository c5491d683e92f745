//! The three phases: exposures alone, triples alone, both together.

use cadet::internals::{Adam, AdamConfig, Vectorised, vectorised};
use cadet::learn::epochs;
use cadet::log::exposures::{Exposures, TaskId};
use cadet::metrics::{sigmoid, softplus};
use cadet::rng::{Purpose, Rng};
use cadet::{Kernel, Result};

use super::table::{Length, Table};
use super::transh::{Translation, add_scaled};
use super::tup::{Meeting, Preferences};
use super::{Graph, Ktup, KtupConfig};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Tup,
    TransH,
    Joint,
}

/// The gradients of one step.
struct Batch<'l, 'a> {
    learner: &'l mut Learner<'a>,
    pairs: usize,
    triples: usize,
    joint: bool,
    rng: Rng,
}

impl Vectorised for Batch<'_, '_> {
    /// The summed loss.
    type Output = f64;

    #[inline(always)]
    fn run(mut self) -> f64 {
        self.learner.pairs(self.pairs, self.joint, &mut self.rng)
            + self.learner.triples(self.triples, &mut self.rng)
    }
}

/// One of the phases.
pub(super) struct Course<'l, 'a> {
    learner: &'l mut Learner<'a>,
    phase: Phase,
    steps: u64,
}

impl<'l, 'a> Course<'l, 'a> {
    pub(super) fn new(learner: &'l mut Learner<'a>, phase: Phase) -> Self {
        learner.tables().into_iter().for_each(Table::restart);
        Self { learner, phase, steps: 0 }
    }

    /// Exposures and triples in an epoch.
    fn sizes(&self) -> [usize; 2] {
        let KtupConfig { exposures_per_epoch: pairs, triples_per_epoch: triples, .. } = *self.learner.config;
        match self.phase {
            Phase::Tup => [pairs, 0],
            Phase::TransH => [0, triples],
            Phase::Joint => [pairs, triples],
        }
    }
}

impl epochs::Course for Course<'_, '_> {
    fn batches(&self) -> usize {
        let [pairs, triples] = self.sizes();
        (if pairs > 0 { pairs } else { triples }).div_ceil(self.learner.config.batch)
    }

    fn step(&mut self, epoch: usize, batch: usize) -> f64 {
        let (batches, joint) = (epochs::Course::batches(self), self.phase == Phase::Joint);
        let [pairs, triples] = self.sizes().map(|count| count.div_ceil(batches));
        let (config, learner) = (self.learner.config, &mut *self.learner);
        let place = [(self.phase as u64 + 1) << 32 | epoch as u64, batch as u64];
        let rng = Rng::at(config.seed, Purpose::Graph, place);
        let kernel = learner.kernel;
        let loss = vectorised(kernel, Batch { learner, pairs, triples, joint, rng });
        self.steps += 1;
        let rate = if joint { config.joint_learning_rate } else { config.learning_rate };
        let adam = Adam::at(AdamConfig::default(), rate, self.steps);
        self.learner.tables().into_iter().for_each(|table| table.step(kernel, adam));
        loss / config.batch as f64
    }

    fn end(&mut self, epoch: usize, _: usize, loss: f64) -> Result<Option<f64>> {
        tracing::debug!(phase = ?self.phase, epoch, loss, "learned from the graph");
        Ok(None)
    }
}

/// Everything that is learned, and what it is learned from.
pub(super) struct Learner<'a> {
    config: &'a KtupConfig,
    kernel: Kernel,
    graph: &'a Graph,
    /// (user, item)
    pairs: Vec<[u32; 2]>,
    /// The items each user was exposed to.
    by_user: Exposures,
    /// Items with an exposure, from which those not seen are drawn.
    exposed: Vec<u32>,
    users: Table,
    items: Table,
    preferences: Table,
    normals: Table,
    entities: Table,
    relations: Table,
    relation_normals: Table,
}

impl<'a> Learner<'a> {
    pub(super) fn new(config: &'a KtupConfig, exposures: &Exposures, graph: &'a Graph) -> Result<Self> {
        let by_user = exposures.transposed();
        let rows = by_user.audiences();
        let pairs = rows.flat_map(|(u, seen)| seen.instances.iter().map(move |i| [u.0, *i])).collect();
        let has_rows = |e: &Exposures, i: usize| !e.audience(TaskId(i as u32)).instances.is_empty();
        let exposed = (0..exposures.task_count()).filter(|i| has_rows(exposures, *i)).map(|i| i as u32);
        let mut place = 0;
        let mut table = |rows, length, live: &dyn Fn(usize) -> bool| {
            place += 1;
            let mut rng = Rng::at(config.seed, Purpose::Graph, [0, place]);
            Table::new(rows, config.width, length, &mut rng, live)
        };
        let (relations, entities) = (graph.relations(), graph.entities());
        Ok(Self {
            config,
            kernel: Kernel::chosen()?,
            graph,
            pairs,
            exposed: exposed.collect(),
            users: table(by_user.task_count(), Length::Ball, &|i| has_rows(&by_user, i)),
            items: table(exposures.task_count(), Length::Ball, &|i| has_rows(exposures, i)),
            preferences: table(relations, Length::Ball, &|_| true),
            normals: table(relations, Length::Sphere, &|_| true),
            entities: table(entities, Length::Ball, &|_| true),
            relations: table(relations, Length::Ball, &|_| true),
            relation_normals: table(relations, Length::Sphere, &|_| true),
            by_user,
        })
    }

    pub(super) fn tables(&mut self) -> [&mut Table; 7] {
        [
            &mut self.users,
            &mut self.items,
            &mut self.preferences,
            &mut self.normals,
            &mut self.entities,
            &mut self.relations,
            &mut self.relation_normals,
        ]
    }

    /// The preferences, with the relations added where both learn together.
    fn mixed_preferences(&self, joint: bool) -> Preferences {
        let mut mixed = Preferences { vectors: self.preferences.to_vec(), normals: self.normals.to_vec() };
        if joint {
            add_scaled(&mut mixed.vectors, 1.0, &self.relations.to_vec());
            add_scaled(&mut mixed.normals, 1.0, &self.relation_normals.to_vec());
        }
        mixed
    }

    fn entity(&self, item: u32, joint: bool) -> Option<u32> {
        if joint { self.graph.entity_of_item()[item as usize] } else { None }
    }

    /// Draws exposures, and adds their gradients and losses.
    #[inline(always)]
    fn pairs(&mut self, count: usize, joint: bool, rng: &mut Rng) -> f64 {
        if count == 0 {
            return 0.0;
        }
        let width = self.config.width;
        let preferences = self.mixed_preferences(joint);
        let mut gradients = preferences.zeros();
        let relations = self.graph.relations();
        let mut seen = Meeting::new(relations, width);
        let mut unseen = seen.clone();
        let (mut seen_item, mut unseen_item) = (vec![0.0; width], vec![0.0; width]);
        let [mut du, mut di, mut dj] = [(); 3].map(|_| vec![0.0; width]);
        let mut loss = 0.0;
        for _ in 0..count {
            let [u, i] = self.pairs[rng.below(self.pairs.len())];
            let Some(j) = self.unseen(u, rng) else { continue };
            self.item_into(i, joint, &mut seen_item);
            self.item_into(j, joint, &mut unseen_item);
            let user = self.users.row(u);
            let nearer = unseen.distance(&preferences, user, &unseen_item)
                - seen.distance(&preferences, user, &seen_item);
            loss += softplus(-f64::from(nearer));
            let slope = sigmoid(-f64::from(nearer)) as f32;
            [&mut du, &mut di, &mut dj].into_iter().for_each(|d| d.fill(0.0));
            seen.gradient(slope, &preferences, &mut du, &mut di, &mut gradients);
            unseen.gradient(-slope, &preferences, &mut du, &mut dj, &mut gradients);
            self.users.add(u, &du);
            for (item, gradient) in [(i, &di), (j, &dj)] {
                self.items.add(item, gradient);
                if let Some(e) = self.entity(item, joint) {
                    self.entities.add(e, gradient);
                }
            }
        }
        let rows = gradients.vectors.chunks_exact(width).zip(gradients.normals.chunks_exact(width));
        for (p, (dp, dn)) in (0..).zip(rows) {
            self.preferences.add(p, dp);
            self.normals.add(p, dn);
            if joint {
                self.relations.add(p, dp);
                self.relation_normals.add(p, dn);
            }
        }
        loss
    }

    /// An exposed item that this user was not exposed to; `None` where that is hard to find.
    fn unseen(&self, user: u32, rng: &mut Rng) -> Option<u32> {
        const TRIES: usize = 32;
        let seen = self.by_user.audience(TaskId(user));
        (0..TRIES).map(|_| self.exposed[rng.below(self.exposed.len())]).find(|i| seen.times_seen(*i) == 0)
    }

    #[inline(always)]
    fn item_into(&self, item: u32, joint: bool, out: &mut [f32]) {
        out.copy_from_slice(self.items.row(item));
        if let Some(e) = self.entity(item, joint) {
            add_scaled(out, 1.0, self.entities.row(e));
        }
    }

    /// Draws triples, corrupts head or tail, and adds their gradients and losses.
    #[inline(always)]
    fn triples(&mut self, count: usize, rng: &mut Rng) -> f64 {
        let width = self.config.width;
        let triples = self.graph.triples();
        let mut real = Translation::new(width);
        let mut fake = real.clone();
        let [mut dh, mut dr, mut dw] = [(); 3].map(|_| vec![0.0; width]);
        let mut loss = 0.0;
        for _ in 0..count {
            let triple = triples[rng.below(triples.len())];
            let Some(corrupted) = self.corrupted(triple, rng) else { continue };
            let r = triple[1];
            let (shift, w) = (self.relations.row(r), self.relation_normals.row(r));
            let far = |translation: &mut Translation, [h, _, t]: [u32; 3]| {
                translation.distance(self.entities.row(h), shift, w, self.entities.row(t))
            };
            let short = self.config.margin + far(&mut real, triple) - far(&mut fake, corrupted);
            if short <= 0.0 {
                continue;
            }
            loss += f64::from(self.config.graph_weight * short);
            [&mut dr, &mut dw].into_iter().for_each(|d| d.fill(0.0));
            for (translation, slope, [h, _, t]) in [(&mut real, 1.0, triple), (&mut fake, -1.0, corrupted)] {
                dh.fill(0.0);
                let w = self.relation_normals.row(r);
                translation.gradient(slope * self.config.graph_weight, w, &mut dh, &mut dr, &mut dw);
                self.entities.add(h, &dh);
                dh.iter_mut().for_each(|d| *d = -*d);
                self.entities.add(t, &dh);
            }
            self.relations.add(r, &dr);
            self.relation_normals.add(r, &dw);
        }
        loss
    }

    /// The triple with another head or tail, such that the graph does not say it.
    fn corrupted(&self, triple: [u32; 3], rng: &mut Rng) -> Option<[u32; 3]> {
        const TRIES: usize = 32;
        let place = if rng.bits() & 1 == 0 { 0 } else { 2 };
        let mut draw = |_| {
            let mut other = triple;
            other[place] = rng.below(self.graph.entities()) as u32;
            other
        };
        (0..TRIES).map(&mut draw).find(|other| !self.graph.contains(*other))
    }

    pub(super) fn finish(self) -> Ktup {
        let joint = self.config.joint_epochs > 0;
        let width = self.config.width;
        let count = self.graph.entity_of_item().len();
        let mut items = vec![0.0; count * width];
        let known =
            |item: u32| self.exposed.binary_search(&item).is_ok() || self.entity(item, joint).is_some();
        let mut mean = vec![0.0; width];
        let total = (0..count as u32).filter(|item| known(*item)).count();
        for (item, row) in (0..).zip(items.chunks_exact_mut(width)).filter(|(item, _)| known(*item)) {
            self.item_into(item, joint, row);
            add_scaled(&mut mean, 1.0 / total as f32, row);
        }
        for (_, row) in (0..).zip(items.chunks_exact_mut(width)).filter(|(item, _)| !known(*item)) {
            row.copy_from_slice(&mean);
        }
        Ktup {
            width,
            preferences: self.mixed_preferences(joint),
            items,
            users: self.users.to_vec(),
            entities: self.entities.to_vec(),
            relations: self.relations.to_vec(),
            relation_normals: self.relation_normals.to_vec(),
            aligned: self.graph.aligned(),
        }
    }
}
