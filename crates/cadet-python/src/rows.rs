//! Rows that belong to groups: every row is a user with features of its own, and its group is the one item that
//! it was exposed to.

use cadet::ask::decide;
use cadet::ask::{Scorer, Users};
use cadet::log::split::Part;
use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
use cadet::{Error, IdRef, Ids, Instances, Result, TaskId};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::fit::{resolve, train};
use crate::model::Model;
use crate::work::run;

/// Trains a model of grouped rows, and says which of them were held out of the net's training; `groups` are numbers.
#[pyfunction]
pub(crate) fn fit_rows(
    py: Python<'_>,
    x: PyReadonlyArray2<'_, f32>,
    groups: PyReadonlyArray1<'_, i64>,
    settings: &str,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Model, Vec<bool>)> {
    let settings = resolve("default", settings).map_err(raised)?;
    let features = instances(&x).map_err(raised)?;
    let groups = groups.as_array().to_vec();
    run(py, threads, progress.as_ref(), |looking| {
        let rows: Vec<i64> = (0..groups.len() as i64).collect();
        let mut builder = LogBuilder::new(LogOptions::default());
        builder.push(Rows::new(IdSlice::Int(&rows), IdSlice::Int(&groups)))?;
        builder.users(numbered(rows.iter().copied())?, features)?;
        let rule = settings.split()?;
        let held_out = rows.iter().map(|row| rule.part(IdRef::Int(*row)) != Part::Train).collect();
        Ok((Model::from(train(builder.finish()?, &settings, looking)?), held_out))
    })
}

/// Familiarity, quantile and p-value of each row.
type Columns<'py> = [Bound<'py, PyArray1<f32>>; 3];

/// What the model says of new rows and their groups; NaN for groups that it does not know.
#[pyfunction]
pub(crate) fn score_rows<'py>(
    py: Python<'py>,
    model: &Model,
    x: PyReadonlyArray2<'_, f32>,
    groups: PyReadonlyArray1<'_, i64>,
) -> PyResult<Columns<'py>> {
    let features = instances(&x).map_err(raised)?;
    let groups = groups.as_array().to_vec();
    let model = &model.model;
    let found = run(py, None, None, |_| {
        if groups.len() != features.len() {
            let (expected, found) = (features.len(), groups.len());
            return Err(Error::Shape { what: "groups of rows", expected, found });
        }
        // Below 0 no row of the training has its number.
        let ids = numbered((0..groups.len() as i64).map(|row| -1 - row))?;
        let first = model.users().len() as u32;
        let scorer = Scorer::new(Users::with_features(model, ids, features)?);
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        order.sort_by_key(|row| groups[*row as usize]);
        let mut columns = [(); 3].map(|()| vec![f32::NAN; groups.len()]);
        for rows in order.chunk_by(|a, b| groups[*a as usize] == groups[*b as usize]) {
            let Some(item) = model.items().get(IdRef::Int(groups[rows[0] as usize])) else { continue };
            let users: Vec<u32> = rows.iter().map(|row| first + row).collect();
            for (row, verdict) in rows.iter().zip(scorer.verdicts(TaskId(item), &users)?) {
                let said = [verdict.familiarity, verdict.quantile, verdict.p_value];
                columns.iter_mut().zip(said).for_each(|(column, value)| column[*row as usize] = value);
            }
        }
        Ok(columns)
    })?;
    Ok(found.map(|column| PyArray1::from_vec(py, column)))
}

/// The smallest false-discovery rate at which each row would be flagged.
#[pyfunction]
pub(crate) fn adjusted<'py>(
    py: Python<'py>,
    p_values: PyReadonlyArray1<'_, f32>,
) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_vec(py, decide::adjusted(p_values.as_array().iter().copied()))
}

fn instances(x: &PyReadonlyArray2<'_, f32>) -> Result<Instances> {
    let x = x.as_array();
    Instances::new(x.ncols(), x.iter().copied().collect())
}

fn numbered(numbers: impl Iterator<Item = i64>) -> Result<Ids> {
    Ids::from_names(cadet::Names::Int(numbers.collect()))
}
