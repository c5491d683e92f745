//! What is compared: methods, ways to start, and how a row of results is named.

use serde::{Deserialize, Serialize};

use super::study::Input;

/// A way to score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Method {
    /// The likelihood ratio.
    Ratio,
    /// A Gaussian.
    Gaussian,
    /// A masked autoregressive flow.
    Maf,
    /// Deep SVDD with the hard objective.
    #[value(name = "deep-svdd")]
    DeepSvdd,
    /// Deep SVDD with the soft objective.
    #[value(name = "deep-svdd-soft")]
    SoftSvdd,
}

/// One model for all tasks, or one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Mode {
    /// One for each.
    Separate,
    /// One for all.
    Conditional,
}

/// Where the task embeddings start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Init {
    /// The shares of the categories in the audience (extra knowledge).
    Label,
    /// The shares of the components of a Gaussian mixture with 10 components.
    Pseudo,
    /// Normal numbers.
    Random,
    /// A pre-embedding model with 10 seed tasks.
    Learned10,
    /// A pre-embedding model with 64 seed tasks.
    Learned64,
    /// As with 10 seed tasks, then described anew by short ratios over all tasks.
    Relearned10,
    /// As with 64 seed tasks, then described anew by short ratios over all tasks.
    Relearned64,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Ratio => "ratio",
            Method::Gaussian => "gaussian",
            Method::Maf => "maf",
            Method::DeepSvdd => "deep-svdd",
            Method::SoftSvdd => "deep-svdd-soft",
        }
    }
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Separate => "separate",
            Mode::Conditional => "conditional",
        }
    }
}

impl Init {
    pub const ALL: [Init; 7] = [
        Init::Label,
        Init::Pseudo,
        Init::Random,
        Init::Learned10,
        Init::Learned64,
        Init::Relearned10,
        Init::Relearned64,
    ];

    pub fn is_of_the_paper(self) -> bool {
        !matches!(self, Init::Relearned10 | Init::Relearned64)
    }

    /// Whether `--task-rate` says how fast they move: random ones and those that are learned again have a
    /// rate of their own, and labels are where they should be.
    pub fn has_rate(self) -> bool {
        matches!(self, Init::Pseudo | Init::Learned10 | Init::Learned64)
    }

    /// Whether `--axes` says what they are made of.
    pub fn has_axes(self) -> bool {
        matches!(self, Init::Learned10 | Init::Learned64 | Init::Relearned10 | Init::Relearned64)
    }

    pub fn name(self) -> &'static str {
        match self {
            Init::Label => "label",
            Init::Pseudo => "pseudo",
            Init::Random => "random",
            Init::Learned10 => "learned10",
            Init::Learned64 => "learned64",
            Init::Relearned10 => "relearned10",
            Init::Relearned64 => "relearned64",
        }
    }
}

/// One model, or one set of separate models, to be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub method: Method,
    pub mode: Mode,
    /// Separate models have no task embeddings.
    pub init: Option<Init>,
    pub input: Input,
    pub k: usize,
    pub seed: u64,
}

impl Row {
    pub fn init_name(&self) -> &'static str {
        self.init.map_or("none", Init::name)
    }
}

/// What came out: a line of raw.csv.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub dataset: String,
    pub method: String,
    pub mode: String,
    pub init: String,
    pub input: String,
    pub k: usize,
    pub test_k: usize,
    pub seed: u64,
    pub auc: f64,
    /// The same on validation images, where settings are chosen.
    pub valid_auc: f64,
    /// Seconds by the clock, of fitting and measuring.
    pub seconds: f64,
    /// The epoch that was kept, of how many; 0 of 0 where many models were fitted.
    pub epochs: [usize; 2],
    /// How well the embeddings of one ratio for all tell which categories are active, before and after
    /// training. Journals of before do not have it.
    pub explained: Option<[f64; 2]>,
}

impl Outcome {
    pub fn is_of(&self, row: &Row) -> bool {
        let names = (&*self.method, &*self.mode, &*self.init, &*self.input);
        names == (row.method.name(), row.mode.name(), row.init_name(), row.input.name())
            && (self.k, self.seed) == (row.k, row.seed)
    }
}
