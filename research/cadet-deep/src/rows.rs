//! A table whose rows are trained one by one: only the rows that a batch touched get a gradient and move.

use cadet::Kernel;
use cadet::internals::{Adam, Floats, GradientRows, RowMoments, padded};

/// Rows, their optimiser's state, and the gradients of the rows touched since the last step.
#[derive(Debug, Clone)]
pub(crate) struct RowTable {
    width: usize,
    stride: usize,
    values: Floats,
    moments: RowMoments,
    /// The place of a row's gradient, or [`UNTOUCHED`].
    place: Vec<u32>,
    touched: Vec<u32>,
    gradients: Vec<f32>,
    order: Vec<u32>,
}

const UNTOUCHED: u32 = u32::MAX;

impl RowTable {
    /// A table of these rows, `width` numbers each.
    pub fn new(width: usize, rows: &[f32]) -> Self {
        let (stride, count) = (padded(width), rows.len() / width);
        let mut values = Floats::zeros(count * stride);
        for (to, row) in values.chunks_exact_mut(stride).zip(rows.chunks_exact(width)) {
            to[..width].copy_from_slice(row);
        }
        Self {
            width,
            stride,
            values,
            moments: RowMoments::zeros(count, stride),
            place: vec![UNTOUCHED; count],
            touched: Vec::new(),
            gradients: Vec::new(),
            order: Vec::new(),
        }
    }

    /// All rows, one after the other.
    pub fn to_vec(&self) -> Vec<f32> {
        self.values.chunks_exact(self.stride).flat_map(|row| &row[..self.width]).copied().collect()
    }

    #[inline(always)]
    pub fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.stride..][..self.width]
    }

    pub fn row_mut(&mut self, row: u32) -> &mut [f32] {
        &mut self.values[row as usize * self.stride..][..self.width]
    }

    /// The gradient of a row, to be added to.
    #[inline(always)]
    pub fn gradient(&mut self, row: u32) -> &mut [f32] {
        let place = &mut self.place[row as usize];
        if *place == UNTOUCHED {
            *place = self.touched.len() as u32;
            self.touched.push(row);
            self.gradients.resize(self.touched.len() * self.stride, 0.0);
        }
        let at = *place as usize * self.stride;
        &mut self.gradients[at..at + self.width]
    }

    /// Rows that have a gradient now.
    pub fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// Forgets the optimiser's state, before another loss is followed.
    pub fn restart(&mut self) {
        self.moments.forget();
    }

    /// Moves the touched rows, and forgets their gradients. `decay` pulls each towards 0.
    pub fn step(&mut self, kernel: Kernel, adam: Adam, decay: f32) {
        let stride = self.stride;
        if decay > 0.0 {
            for (row, gradient) in self.touched.iter().zip(self.gradients.chunks_exact_mut(stride)) {
                let values = &self.values[*row as usize * stride..][..stride];
                gradient.iter_mut().zip(values).for_each(|(g, v)| *g += decay * v);
            }
        }
        self.order.clear();
        self.order.extend(0..self.touched.len() as u32);
        let rows =
            GradientRows { places: &self.order, tasks: &self.touched, gradients: &self.gradients, stride };
        self.moments.step(kernel, adam, &mut self.values, rows);
        self.touched.iter().for_each(|row| self.place[*row as usize] = UNTOUCHED);
        self.touched.clear();
        self.gradients.clear();
    }
}
