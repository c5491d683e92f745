//! What Python calls: each function takes what the package's Python files have made ready, asks the library, and
//! hands the answer back as Arrow or JSON.

mod add;
mod ask;
mod demo;
mod errors;
mod evaluate;
mod fit;
mod input;
mod model;
mod page;
mod rerank;
mod rows;
mod score;
mod table;
mod work;

use pyo3::prelude::*;

/// The compiled part of the package `cadet`.
#[pymodule]
fn _cadet(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("Error", m.py().get_type::<errors::Error>())?;
    m.add_class::<model::Model>()?;
    m.add_class::<table::Table>()?;
    m.add_function(wrap_pyfunction!(table::table, m)?)?;
    m.add_function(wrap_pyfunction!(fit::fit, m)?)?;
    m.add_function(wrap_pyfunction!(fit::default_settings, m)?)?;
    m.add_function(wrap_pyfunction!(model::load, m)?)?;
    m.add_function(wrap_pyfunction!(model::save, m)?)?;
    m.add_function(wrap_pyfunction!(score::score, m)?)?;
    m.add_function(wrap_pyfunction!(score::propensity, m)?)?;
    m.add_function(wrap_pyfunction!(score::score_all, m)?)?;
    m.add_function(wrap_pyfunction!(ask::audience, m)?)?;
    m.add_function(wrap_pyfunction!(ask::fresh, m)?)?;
    m.add_function(wrap_pyfunction!(ask::user, m)?)?;
    m.add_function(wrap_pyfunction!(ask::similar, m)?)?;
    m.add_function(wrap_pyfunction!(ask::explain, m)?)?;
    m.add_function(wrap_pyfunction!(rerank::rerank, m)?)?;
    m.add_function(wrap_pyfunction!(add::add, m)?)?;
    m.add_function(wrap_pyfunction!(evaluate::evaluate, m)?)?;
    m.add_function(wrap_pyfunction!(page::report, m)?)?;
    m.add_function(wrap_pyfunction!(page::in_brief, m)?)?;
    m.add_function(wrap_pyfunction!(demo::demo_log, m)?)?;
    m.add_function(wrap_pyfunction!(rows::fit_rows, m)?)?;
    m.add_function(wrap_pyfunction!(rows::adjusted, m)?)?;
    m.add_function(wrap_pyfunction!(rows::score_rows, m)?)?;
    Ok(())
}
