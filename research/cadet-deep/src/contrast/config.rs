//! The sizes of the deep ratio and how it is trained.

use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::kernels::Precision;
use crate::net::{Grid, LayerConfig};

/// What is before the features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Trunk {
    /// The appendix's convolutions: (4,2,1), (4,2,1), (5,1,0) and one over all that is left, with batch norm
    /// and ReLU, the last without ReLU.
    Cnn {
        /// Height and width of an image.
        side: usize,
        /// Numbers per pixel.
        channels: usize,
        /// Output channels of the first layer; each has twice those of the one before.
        width: usize,
    },
    /// Fully connected layers with batch norm and ReLU over feature rows.
    Mlp {
        /// Numbers per row.
        features: usize,
        /// Widths of the layers.
        hidden: Vec<usize>,
    },
}

/// Who the negatives of a positive (x, t) are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Negatives {
    /// One x̃ ~ p for each positive, as in Algorithm 1; twice the batch goes through the trunk.
    Drawn,
    /// All x̃ ~ p of the batch, each for every positive; twice the batch goes through the trunk.
    Population,
    /// The other positives of the batch: they are distributed like p, if the tasks trained are all there are
    /// and p is the population of exposures. Each image goes through the trunk once.
    Batch,
}

/// How images are varied in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Augment {
    /// Zeros on each side, of which a crop of the old size is taken at random.
    pub pad: usize,
    /// Whether every other image is mirrored.
    pub flip: bool,
}

/// The net and how it is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepConfig {
    /// What is before the features.
    pub trunk: Trunk,
    /// Width of `u(x)`.
    pub features: usize,
    /// Who the negatives are.
    pub negatives: Negatives,
    /// How images are varied in training.
    pub augment: Augment,
    /// What products round to.
    pub precision: Precision,
}

impl DeepConfig {
    /// The appendix's net for images of 32 × 32 with 3 channels (CIFAR10) or 1 (MNIST), and its augmentation.
    pub fn images(channels: usize) -> Self {
        Self {
            trunk: Trunk::Cnn { side: 32, channels, width: 64 },
            features: 256,
            negatives: Negatives::Drawn,
            augment: Augment { pad: 4, flip: channels == 3 },
            precision: Precision::Auto,
        }
    }

    /// A net over rows of features.
    pub fn rows(features: usize, hidden: Vec<usize>) -> Self {
        Self { trunk: Trunk::Mlp { features, hidden }, augment: Augment::default(), ..Self::images(3) }
    }

    /// The trunk's input, and its layers.
    pub(super) fn layers(&self) -> Result<(Grid, Vec<LayerConfig>)> {
        let (grid, mut layers) = match &self.trunk {
            Trunk::Cnn { side, channels, width } => {
                let grid = Grid { height: *side, width: *side, channels: *channels };
                let halved = |n: usize| (n + 2).checked_sub(4).map(|rest| rest / 2 + 1);
                let left = halved(*side).and_then(halved).and_then(|n| n.checked_sub(4)).filter(|n| *n > 0);
                let left = left.ok_or_else(|| {
                    Error::config("side", format!("the net needs images of at least 20 × 20, found {side}"))
                })?;
                let shapes = [([4, 2, 1], 1), ([4, 2, 1], 2), ([5, 1, 0], 4), ([left, 1, 0], 8)];
                (grid, shapes.map(|(shape, times)| LayerConfig::conv(shape, width * times)).to_vec())
            }
            Trunk::Mlp { features, hidden } => {
                let layers = hidden.iter().map(|width| LayerConfig::conv([1, 1, 0], *width));
                (Grid::row(*features), layers.collect())
            }
        };
        if let (Trunk::Cnn { .. }, Some(last)) = (&self.trunk, layers.last_mut()) {
            last.slope = 1.0;
        }
        layers.push(LayerConfig::linear(self.features));
        Ok((grid, layers))
    }
}
