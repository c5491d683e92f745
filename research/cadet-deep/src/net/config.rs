//! What a layer is told: its sizes, and what it does with them.

use serde::{Deserialize, Serialize};

/// Height, width and channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels per row.
    pub width: usize,
    /// Numbers per pixel.
    pub channels: usize,
}

impl Grid {
    /// One position: a plain row of features.
    pub fn row(channels: usize) -> Self {
        Self { height: 1, width: 1, channels }
    }

    /// How many positions there are.
    pub fn positions(self) -> usize {
        self.height * self.width
    }

    /// Numbers in all.
    pub fn len(self) -> usize {
        self.positions() * self.channels
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Batch normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Norm {
    /// Whether γ and β are learned.
    pub affine: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

/// One layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerConfig {
    /// Side of the kernel.
    pub kernel: usize,
    /// Pixels from one place of the kernel to the next.
    pub stride: usize,
    /// Zeros around the input.
    pub pad: usize,
    /// Output channels.
    pub outputs: usize,
    /// Whether a bias is added; batch norm would take it off again.
    pub bias: bool,
    /// Batch norm, where there is one.
    pub norm: Option<Norm>,
    /// Slope for negative numbers: 0 = ReLU, 1 = no activation.
    pub slope: f32,
    /// Side of the windows whose maximum is kept; 1 = no pooling.
    pub pool: usize,
    /// Side of the square that each position becomes afterwards; 1 = it stays one.
    pub enlarge: usize,
}

impl LayerConfig {
    /// A convolution (kernel, stride, pad) with batch norm and ReLU.
    pub fn conv([kernel, stride, pad]: [usize; 3], outputs: usize) -> Self {
        let norm = Some(Norm { affine: true, epsilon: 1e-5 });
        Self { kernel, stride, pad, outputs, bias: false, norm, slope: 0.0, pool: 1, enlarge: 1 }
    }

    /// A fully connected layer with a bias and no activation.
    pub fn linear(outputs: usize) -> Self {
        Self {
            kernel: 1,
            stride: 1,
            pad: 0,
            outputs,
            bias: true,
            norm: None,
            slope: 1.0,
            pool: 1,
            enlarge: 1,
        }
    }
}
