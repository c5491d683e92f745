//! `Model.report` and what a notebook shows of a model.

use pyo3::prelude::*;

use crate::model::Model;
use crate::work::run;

/// The report of a model, as one page.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, model: &Model) -> PyResult<String> {
    run(py, None, None, |_| Ok(cadet_show::page::of_model(&model.model)?.html()))
}

/// The short of it.
#[pyfunction]
pub(crate) fn in_brief(py: Python<'_>, model: &Model) -> PyResult<String> {
    run(py, None, None, |_| Ok(cadet_show::page::in_brief(&model.model).html()))
}
