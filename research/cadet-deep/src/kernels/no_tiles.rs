//! Machines without AMX tiles: bf16 is not to be had.

use super::{BLOCK, Lanes, Line, Links, Sizes, Walk};

/// Proof that tiles may be used, which nothing can make here.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tiles {}

impl Tiles {
    pub(super) fn find() -> Option<Self> {
        None
    }

    pub(super) fn put(self, _: &[Lanes; BLOCK], _: bool, _: &mut [Line], _: &mut [Line]) {
        match self {}
    }

    pub(super) fn pack(self, _: &[f32], _: Sizes, _: bool, _: usize, _: &mut [Line]) {
        match self {}
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn apply(
        self,
        _: &Links,
        _: &[Line],
        _: Sizes,
        _: &[Line],
        _: usize,
        _: usize,
        _: &mut [Lanes],
    ) {
        match self {}
    }

    pub(super) fn outer(self, _: &Links, _: Walk, _: &[Line], _: &[Line], _: &mut [f32]) {
        match self {}
    }
}
