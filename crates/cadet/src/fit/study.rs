//! What a net is trained and measured on, and the training itself: section 4 of the paper.

use std::sync::Arc;

use super::{Aside, Observe, Stage};
use crate::judge::baselines::{Rivalry, Rivals};
use crate::judge::evaluate::{Estimate, Evaluation, HeldOut, HeldOutPairs, Limits, evaluate, measurable};
use crate::judge::verdict::Baseline;
use crate::learn::contrastive::Contrastive;
use crate::learn::features::{Axes, Factors, Reliability, Standard, axes, factors};
use crate::learn::heads::Heads;
use crate::learn::init::Initialiser;
use crate::learn::init::learned::{self, Learned};
use crate::learn::init::project::Projection;
use crate::learn::init::random::Random;
use crate::learn::normalise::{Catalogue, Describe, Described, until_stopped};
use crate::learn::offsets::Offsets;
use crate::learn::ratio::{Products, Ratio};
use crate::learn::sampler::Sampler;
use crate::learn::tasks::TaskEmbeddings;
use crate::learn::temper::Slope;
use crate::learn::trainer::{End, History, TrainConfig, Training, Validation, Watch};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::Names;
use crate::log::instances::Instances;
use crate::log::split::{FeatureSource, Part, SplitRule, Views};
use crate::model::PreEmbedding;
use crate::settings::{Init, Settings};
use crate::{Error, Result};

/// Held-out pairs that choose the best epoch.
const VALIDATION_PAIRS: usize = 50_000;
/// How far the seeds of an ensemble's nets are apart.
const MEMBER: u64 = 1_000_003;
/// A loss that no working net has; chance is below 1.4.
const DIVERGED: f64 = 10.0;

/// What a net is trained and measured on.
pub(super) struct Study {
    pub(super) views: Views,
    /// Ready for the net, a row for every instance of the views.
    pub(super) x: Instances,
    /// How many exposures each row rests on.
    pub(super) mass: Vec<f32>,
    pub(super) standard: Standard,
    pub(super) factors: Option<Factors>,
    pub(super) reliability: Tried,
    /// Whether features say anything at all.
    pub(super) signal: bool,
    pub(super) trained: Vec<bool>,
    /// How far the closed form may go, where that is known.
    scale: Option<f32>,
}

/// What an earlier study found, for one that has nobody to ask.
#[derive(Clone, Copy)]
pub(super) struct Like {
    /// How many factors stand out, and the prior of the fold-in; where features are learned.
    pub(super) factors: Option<(usize, f32)>,
    /// How far the closed form may go.
    pub(super) scale: f32,
}

impl Like {
    pub(super) fn new(factors: Option<&Factors>, scale: f32) -> Option<Self> {
        Some(Self { factors: factors.map(|f| (f.width(), f.prior())), scale })
    }
}

/// The nets that training leaves.
pub(super) struct Nets {
    pub(super) ratio: Ratio,
    pub(super) pre: Option<PreEmbedding>,
    pub(super) history: History,
    pub(super) seed_history: Option<History>,
    /// Whether they say anything: otherwise every response is 0.
    pub(super) signal: bool,
    /// The closed form that the net was trained on top of.
    pub(super) offsets: Option<Arc<Offsets>>,
    /// How far held-out users say that items may stand out by it.
    pub(super) scale: f32,
}

/// What is kept of users to score them.
pub(super) struct Serving {
    pub(super) features: Instances,
    pub(super) mass: Vec<f32>,
    pub(super) log_sums: Vec<f32>,
}

impl Study {
    /// Splits the users, and learns features where none are given; what `like` says is used where it is
    /// given, instead of asking the exposures.
    pub(super) fn prepare(
        kept: &Exposures,
        (users, items): (&Names, &Names),
        given: Option<&Instances>,
        settings: &Settings,
        rule: &SplitRule,
        like: Option<Like>,
        watch: &mut dyn Watch,
    ) -> Result<Self> {
        let views = match given {
            Some(_) => Views::of_users(kept, users, rule),
            None => Views::of_halves(kept, users, items, rule, settings.features_from),
        };
        // Where chance held every user out, items count as known, and nothing is said of any.
        let nobody = views.train.is_empty();
        let basis = if nobody { kept } else { &views.train };
        let trained: Vec<bool> = basis.audiences().map(|(_, a)| !a.instances.is_empty()).collect();
        let (mut x, mass, factors, reliability, signal) = match given {
            Some(x) => (x.clone(), Vec::new(), None, Vec::new(), true),
            None => {
                let train = kept.filter(|_, u| views.of[u.0 as usize] == Part::Train);
                let (factors, tried, signal) =
                    learn_factors(&train, settings, like.and_then(|l| l.factors), watch)?;
                let shown = views.shown.as_ref().unwrap_or(&views.train);
                let (x, mass) = factors.fold_in_rows(&shown.transposed())?;
                (x, mass, Some(factors), tried, signal)
            }
        };
        let mut standard = match settings.standardise {
            true => {
                // With features from all that a user saw, its second instance stands for nothing.
                let step = if settings.features_from == FeatureSource::All { views.each } else { 1 };
                let members = views.members(Part::Train).into_iter().filter(|i| i % step == 0);
                Standard::fit(&x, members.collect::<Vec<u32>>().into_iter())
            }
            false => Standard { mean: vec![0.0; x.width()], scale: vec![1.0; x.width()], axes: None },
        };
        standard.apply(&mut x)?;
        if let Some(at) = x.values().iter().position(|v| !v.is_finite()) {
            let user = users.get((at / x.width()) as u32 / views.each);
            let why = format!(
                "user {user} has a value in column {} that is not a finite number",
                at % x.width() + 1
            );
            return Err(Error::config("features", why));
        }
        let signal = signal && !nobody;
        if signal && given.is_some() && settings.axes > 0 && settings.adds_up() {
            let fold = axes::folds(x.len(), views.each, settings.seed);
            let with_kinds = given.is_some();
            standard.axes =
                Axes::learn(&x, &views.train, &fold, settings.axes, with_kinds, settings.seed, watch)?;
            if let Some(axes) = &standard.axes {
                axes.append(&mut x)?;
            }
        }
        let scale = like.map(|l| l.scale);
        Ok(Self { views, x, mass, standard, factors, reliability, signal, trained, scale })
    }

    fn described(&self) -> Described<'_> {
        Described {
            x: &self.x,
            mass: &self.mass,
            shown: self.views.shown.as_ref(),
            factors: self.factors.as_ref(),
            standard: &self.standard,
        }
    }

    /// A sampler of one part; nobody is a negative of what describes them.
    fn sampler(&self, part: Part, tasks: Vec<TaskId>, settings: &Settings) -> Result<Sampler<'_>> {
        // Features that are learned from all that is trained on contain it, in positives and negatives alike.
        let mixed = part == Part::Train && settings.features_from == FeatureSource::All;
        let shown = self.views.shown.as_ref().filter(|_| !mixed);
        Ok(Sampler::new(self.views.part(part), tasks, settings.base)?.without_shown(shown, self.views.each))
    }

    fn all_tasks(&self) -> Vec<TaskId> {
        (0..self.trained.len() as u32).map(TaskId).collect()
    }

    /// Pre-embedding model, embeddings, ratio net: section 4.
    pub(super) fn learn(&self, settings: &Settings, watch: &mut dyn Observe) -> Result<Nets> {
        if !self.signal {
            return Nets::silent(self, settings);
        }
        let train = &self.views.train;
        let training = settings.training(train.len());
        let (start, pre, seed_history) = match settings.init {
            Init::Random => {
                let random = Random { seed: settings.seed };
                (random.start(train, settings.embedding, settings.init_scale())?, None, None)
            }
            Init::Learned => {
                watch.stage(Stage::Seeds);
                let (choice, count) = (settings.seed_choice, settings.seed_tasks);
                let seeds = learned::choose_seeds(choice, count, train, &self.x, settings.seed)?;
                let heads = Heads::init(&settings.net(), self.x.width(), seeds.len(), settings.seed)?;
                let config = TrainConfig { epochs: settings.seed_epochs, task_rate: 1.0, ..training.clone() };
                let stage = (Stage::Seeds, seeds.clone());
                let (heads, history) =
                    heads.trained(settings.seed, |model| self.train(model, stage, &config, settings, watch));
                let history = history?;
                let learned = Learned { heads: &heads, x: &self.x };
                let (rows, projection) = learned.embed(train, settings.embedding, settings.init_scale())?;
                (rows, Some(PreEmbedding { heads, seeds, projection }), Some(history))
            }
        };
        watch.stage(Stage::Ratio);
        let (offsets, scale) = self.closed_form(settings)?;
        let member = |number: u64, watch: &mut dyn Observe| {
            let seed = settings.seed.wrapping_add(number * MEMBER);
            let mut ratio = settings.net().init(self.x.width(), &start, seed)?;
            if offsets.is_some() {
                // At first the net adds nothing.
                ratio.scale_output(0.0, 0.0)?;
            }
            let (stage, config) =
                ((Stage::Ratio, self.all_tasks()), TrainConfig { seed, ..training.clone() });
            let (mut ratio, outcome) = ratio.trained(seed, |model| {
                model.set_offsets(offsets.clone());
                self.train(model, stage, &config, settings, watch)
            });
            let history = outcome?;
            if let (Some(axes), Some(offsets)) = (&self.standard.axes, &offsets) {
                ratio = ratio.with_products(Products::new(axes.len(), offsets.places()));
            }
            Ok::<_, Error>((ratio, history))
        };
        let (first, mut history) = member(0, watch)?;
        let mut members = vec![first];
        for number in 1..settings.ensemble as u64 {
            if history.end == End::Interrupted {
                // What is missing says what the first net says.
                members.push(members[0].clone());
                continue;
            }
            let (next, of_next) = member(number, &mut Aside(watch))?;
            members.push(if of_next.end == End::Interrupted { members[0].clone() } else { next });
            if of_next.end == End::Interrupted {
                history.end = End::Interrupted;
            }
        }
        let ratio = if members.len() == 1 { members.remove(0) } else { Ratio::mean_of(&members)? };
        Ok(Nets {
            ratio,
            pre: pre.map(|pre| pre.repeated(settings.ensemble)),
            history,
            seed_history,
            signal: true,
            offsets,
            scale,
        })
    }

    /// The closed form that the net is trained on top of, scaled as validation users say.
    fn closed_form(&self, settings: &Settings) -> Result<(Option<Arc<Offsets>>, f32)> {
        /// Pairs whose products are added up.
        const MOST_PAIRS: usize = 100_000_000;
        let Some(axes) = &self.standard.axes else { return Ok((None, 1.0)) };
        let mut fold = axes::folds(self.x.len(), self.views.each, settings.seed);
        for (i, fold) in fold.iter_mut().enumerate() {
            if self.views.of[i / self.views.each as usize] != Part::Train {
                *fold = axes::FOLDS as u8;
            }
        }
        let items: Vec<TaskId> =
            self.all_tasks().into_iter().filter(|t| self.trained[t.0 as usize]).collect();
        let train = &self.views.train;
        let catalogue = Catalogue::within(MOST_PAIRS, train, &items, self.x.len(), settings.seed);
        let offsets = Offsets::new(axes, &self.x, train, fold).scaled(&self.x, 1.0, &catalogue);
        let pairs = self.validation_pairs(settings)?;
        let says = |task: TaskId, instances: &[u32]| -> Vec<f32> {
            instances.iter().map(|i| offsets.of(&self.x, task.0, *i)).collect()
        };
        let found = |pairs| Some(self.slope(&pairs, &says)?.slope as f32);
        let scale = self.scale.or_else(|| pairs.and_then(found)).unwrap_or(1.0);
        Ok((Some(Arc::new(offsets.scaled(&self.x, scale, &catalogue))), scale))
    }

    /// The slope of scores on held-out pairs.
    fn slope(
        &self,
        pairs: &HeldOutPairs,
        scores: &(dyn Fn(TaskId, &[u32]) -> Vec<f32> + Sync),
    ) -> Option<Slope> {
        let (own, theirs) = pairs.scores(&scores);
        let both = pairs.positives.iter().chain(&pairs.negatives);
        let users: Vec<u32> = both.map(|i| i / self.views.each).collect();
        Slope::fit(&own, &theirs, &users)
    }

    /// EstimateCLR with validation on held-out users, from where it was last interrupted.
    fn train(
        &self,
        model: &mut Contrastive,
        (stage, tasks): (Stage, Vec<TaskId>),
        config: &TrainConfig,
        settings: &Settings,
        watch: &mut dyn Observe,
    ) -> Result<History> {
        let sampler = self.sampler(Part::Train, tasks.clone(), settings)?;
        let held_out = self.sampler(Part::Valid, tasks, settings).ok();
        let validation =
            held_out.map(|s| Validation::draw(&s, VALIDATION_PAIRS.min(20 * s.len()), settings.seed));
        let resume = watch.resume(stage, model)?;
        let training = Training { sampler: &sampler, x: &self.x, validation: validation.as_ref(), config };
        let history = training.run(model, resume, watch)?;
        let kept = &history.epochs[history.best - 1];
        let loss = kept.valid.map_or(kept.train_loss, |v| v.loss);
        match loss > DIVERGED {
            true => Err(Error::Diverged { epoch: kept.epoch, loss }),
            false => Ok(history),
        }
    }

    /// The instances of one part and what is asked of them.
    fn held<'a>(&'a self, part: Part, instances: &'a [u32]) -> HeldOut<'a> {
        let (each, shown) = (self.views.each, self.views.shown.as_ref());
        HeldOut { instances, each, targets: self.views.part(part), shown }
    }

    /// Pairs of validation users; `None` where there are none.
    fn validation_pairs(&self, settings: &Settings) -> Result<Option<HeldOutPairs>> {
        let instances = self.views.members(Part::Valid);
        let held = self.held(Part::Valid, &instances);
        let tasks = measurable(&held, &self.trained);
        let draw = || HeldOutPairs::draw(&held, &tasks, settings.base, 2 * VALIDATION_PAIRS, settings.seed);
        (!tasks.is_empty()).then(draw).transpose()
    }

    /// Brings the net to the sureness that validation users allow, and says how far that was.
    pub(super) fn temper(&self, nets: &mut Nets, settings: &Settings) -> Result<Option<Slope>> {
        let Some(pairs) = self.validation_pairs(settings)?.filter(|_| self.signal) else { return Ok(None) };
        let sums: Vec<f32> = match &nets.offsets {
            Some(offsets) => offsets.log_sums().to_vec(),
            None => vec![0.0; self.x.len()],
        };
        let slope = self.slope(&pairs, &normalised(&nets.ratio, &self.x, &sums)?);
        if let Some(found) = &slope {
            nets.ratio.scale_output(found.slope as f32, found.offset as f32)?;
            nets.scale *= found.slope as f32;
        }
        Ok(slope)
    }

    /// The items that instances' exposures are spread over.
    fn catalogue(&self, instances: usize, settings: &Settings) -> Catalogue {
        let tasks: Vec<TaskId> =
            self.all_tasks().into_iter().filter(|t| self.trained[t.0 as usize]).collect();
        Catalogue::of(&self.views.train, &tasks, instances, settings.seed)
    }

    /// What is taken off the scores of held-out instances; 0 for the others, and where nothing is.
    pub(super) fn held_out_sums(
        &self,
        ratio: &Ratio,
        settings: &Settings,
        watch: &mut dyn Watch,
    ) -> Result<Vec<f32>> {
        let mut sums = vec![0.0; self.x.len()];
        if settings.adds_up() {
            let mut held: Vec<u32> = self.views.members(Part::Valid);
            held.extend(self.views.members(Part::Test));
            held.sort_unstable();
            let catalogue = self.catalogue(held.len(), settings);
            let found = until_stopped(ratio, &self.described(), &catalogue, &held, watch)?;
            held.iter().zip(found).for_each(|(i, s)| sums[*i as usize] = s);
        }
        Ok(sums)
    }

    /// Whether validation users say that the net knows more than nothing.
    pub(super) fn beats_chance(&self, ratio: &Ratio, sums: &[f32], settings: &Settings) -> Result<bool> {
        /// Standard errors; the same users chose the epoch and the slope, so one in twenty is not enough.
        const CERTAIN: f64 = 2.0;
        let Some(pairs) = self.validation_pairs(settings)? else { return Ok(true) };
        let (own, theirs) = pairs.scores(&normalised(ratio, &self.x, sums)?);
        let Estimate { value, error } = pairs.gain(&own, &theirs, self.views.each);
        Ok(value < -CERTAIN * error)
    }

    /// What the nets and simpler ways reach on test users.
    pub(super) fn measure(
        &self,
        nets: &Nets,
        sums: &[f32],
        settings: &Settings,
        watch: &mut dyn Watch,
    ) -> Result<(Option<Evaluation>, Vec<Baseline>)> {
        let [valid, test] = [Part::Valid, Part::Test].map(|part| self.views.members(part));
        let (valid, test) = (self.held(Part::Valid, &valid), self.held(Part::Test, &test));
        if !nets.signal || measurable(&test, &self.trained).is_empty() {
            return Ok((None, Vec::new()));
        }
        let (limits, seed, base) = (Limits::default(), settings.seed, settings.base);
        let scores = normalised(&nets.ratio, &self.x, sums)?;
        let metrics = evaluate(&scores, &test, &self.trained, base, limits, seed)?;
        let factors = self.factors.as_ref();
        let rivals = Rivals { train: &self.views.train, x: &self.x, shown: test.shown, factors };
        let course = Rivalry { valid: &valid, test: &test, measured: &self.trained, base, limits, seed };
        Ok((Some(metrics), rivals.measure(&course, watch)?))
    }

    /// The users as they are scored: learned features come from all that each of them saw. What is taken off
    /// their scores is worked out for those wanted.
    pub(super) fn serving(
        &self,
        kept: &Exposures,
        given: Option<Instances>,
        ratio: &Ratio,
        wanted: &[u32],
        settings: &Settings,
        watch: &mut dyn Watch,
    ) -> Result<Serving> {
        let (features, mass) = match (&self.factors, given) {
            (Some(factors), _) => {
                let (mut features, mass) = factors.fold_in_rows(&kept.transposed())?;
                self.standard.apply(&mut features)?;
                // Where training had the item in the features, scoring has too.
                let whole = settings.features_from == FeatureSource::All;
                (features, if whole { Vec::new() } else { mass })
            }
            (None, given) => {
                let names = given.map(|x| x.names().to_vec()).unwrap_or_default();
                let named = !names.is_empty();
                let x = self.x.clone();
                let axes = (1..).map(|n| format!("axis {n}"));
                let names: Vec<String> = names.into_iter().chain(axes).take(x.width()).collect();
                (if named { x.with_names(names)? } else { x }, Vec::new())
            }
        };
        if !settings.adds_up() {
            return Ok(Serving { features, mass, log_sums: Vec::new() });
        }
        let described = Described {
            x: &features,
            mass: &mass,
            shown: (!mass.is_empty()).then_some(kept),
            ..self.described()
        };
        let scored: Vec<TaskId> =
            self.all_tasks().into_iter().filter(|t| self.trained[t.0 as usize]).collect();
        let catalogue = Catalogue::of(kept, &scored, features.len(), settings.seed);
        let log_sums = until_stopped(ratio, &described, &catalogue, wanted, watch)?;
        Ok(Serving { features, mass, log_sums })
    }
}

/// τ of every factor, and how many standard errors it is from 0.
type Tried = Vec<(f64, f64)>;

/// Item vectors, and how many of their factors are worth keeping; all of them where features are not asked.
fn learn_factors(
    train: &Exposures,
    settings: &Settings,
    like: Option<(usize, f32)>,
    watch: &mut dyn Watch,
) -> Result<(Factors, Tried, bool)> {
    let factors = match Factors::learn(train, settings.factors, settings.seed, watch) {
        Ok(factors) => factors,
        // One item, or one user: there is nothing to tell apart.
        Err(Error::Config { .. }) if settings.features_from == FeatureSource::Halves => {
            let none = Factors::new(1, vec![0.0; train.task_count()], factors::PRIOR)?;
            return Ok((none, Vec::new(), false));
        }
        Err(error) => return Err(error),
    };
    if let Some((width, prior)) = like {
        return Ok((factors.narrowed(width, prior)?, Vec::new(), true));
    }
    if settings.features_from == FeatureSource::All {
        return Ok((factors, Vec::new(), true));
    }
    let found = Reliability::measure(train, settings.factors, settings.seed, watch)?;
    tracing::info!("{} of {} factors stand out from chance", found.factors, found.tried.len());
    Ok((factors.narrowed(found.factors, found.prior)?, found.tried, found.factors > 0))
}

/// What a net says of instances, less what is taken off, each pair with the features that are for it.
pub(super) fn judged<'a>(
    ratio: &'a Ratio,
    described: Described<'a>,
    sums: &'a [f32],
) -> Result<impl Fn(TaskId, &[u32]) -> Vec<f32> + Sync + use<'a>> {
    let plain = normalised(ratio, described.x, sums)?;
    Ok(move |task: TaskId, instances: &[u32]| {
        let mut found = plain(task, instances);
        let (mut row, mut halves) = (Vec::new(), ratio.no_halves());
        for (f, instance) in found.iter_mut().zip(instances) {
            if described.for_pair(*instance, task, &mut row) {
                ratio.halves_into(&row, &mut halves);
                ratio.familiarity(task, &halves, std::slice::from_mut(f));
                *f -= sums[*instance as usize];
            }
        }
        found
    })
}

/// What a net says of instances, less what is taken off.
pub(super) fn normalised<'a>(
    ratio: &'a Ratio,
    x: &Instances,
    sums: &'a [f32],
) -> Result<impl Fn(TaskId, &[u32]) -> Vec<f32> + Sync + use<'a>> {
    let scores = ratio.scores(x)?;
    Ok(move |task: TaskId, instances: &[u32]| {
        let mut found = scores(task, instances);
        found.iter_mut().zip(instances).for_each(|(f, i)| *f -= sums[*i as usize]);
        found
    })
}

impl Nets {
    /// A net that says 0 to everybody, where the log has nothing to say. New items get an embedding of zeros.
    pub(super) fn silent(study: &Study, settings: &Settings) -> Result<Self> {
        let (items, width) = (study.trained.len(), study.x.width());
        let start =
            TaskEmbeddings::new(settings.kept_embedding(), vec![0.0; items * settings.kept_embedding()])?;
        let mut ratio = settings.kept_net().init(width, &start, settings.seed)?;
        ratio.scale_output(0.0, 0.0)?;
        if let Some(axes) = &study.standard.axes {
            ratio = ratio.with_products(Products::new(axes.len(), &vec![0.0; items * axes.len()]));
        }
        let seeds: Vec<TaskId> = study.all_tasks().into_iter().take(1).collect();
        let heads = Heads::init(&settings.net(), width, seeds.len(), settings.seed)?;
        let axes = vec![0.0; settings.kept_embedding() * heads.width()];
        let projection = Projection { mean: vec![0.0; heads.width()], axes };
        let pre = (settings.init == Init::Learned).then_some(PreEmbedding { heads, seeds, projection });
        let history = History { epochs: vec![], best: 0, positives: 0, seconds: 0.0, end: End::Finished };
        Ok(Self { ratio, pre, history, seed_history: None, signal: false, offsets: None, scale: 1.0 })
    }

    /// With what was tried before it was given up: nothing of it is kept.
    pub(super) fn with_history(mut self, tried: Nets) -> Self {
        self.history = History { best: 0, ..tried.history };
        self
    }
}
