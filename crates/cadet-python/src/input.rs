//! What comes in: rows of Arrow record batches, or paths of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use cadet::ask::{Ask, Users};
use cadet::log::{Columns, LogBuilder, LogOptions};
use cadet::model::Model;
use cadet::{At, Error, IdRef, Ids, Instances, Result};
use cadet_data::{
    ReadOptions, UserOptions, UserTable, push_batch, read_exposures_into, read_users, users_of,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::work::Looking;

/// Where rows come from.
pub(crate) enum Source {
    Paths(Vec<PathBuf>),
    Rows { schema: SchemaRef, batches: Vec<RecordBatch> },
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(paths) = given.extract::<Vec<PathBuf>>() {
            return Ok(Source::Paths(paths));
        }
        let reader = given.extract::<AnyRecordBatch>()?.into_reader()?;
        let schema = reader.schema();
        let batches = reader.collect::<std::result::Result<_, _>>();
        let batches = batches.map_err(|e| PyValueError::new_err(format!("the frame cannot be read: {e}")))?;
        Ok(Source::Rows { schema, batches })
    }
}

impl Source {
    /// The type of a column, where rows have it.
    pub(crate) fn kind(&self, column: &str) -> Option<DataType> {
        match self {
            Source::Paths(_) => None,
            Source::Rows { schema, .. } => {
                schema.field_with_name(column).ok().map(|field| field.data_type().clone())
            }
        }
    }

    /// The one path of a file that holds a table.
    pub(crate) fn one<'a>(paths: &'a [PathBuf], argument: &'static str) -> Result<&'a Path> {
        match paths {
            [path] => Ok(path),
            _ => Err(Error::config(argument, format!("expected one path, found {}", paths.len()))),
        }
    }

    /// Adds rows to those of a log.
    pub(crate) fn push(
        &self,
        builder: &mut LogBuilder,
        options: &ReadOptions,
        looking: &Looking<'_>,
    ) -> Result<()> {
        match self {
            Source::Paths(paths) => {
                looking.enter("reading", 100);
                let report = read_exposures_into(builder, paths, options, &|p| {
                    let share = p.total_bytes.filter(|of| *of > 0).map_or(0, |of| 100 * p.bytes / of);
                    looking.at(share);
                })?;
                skipped(&report.skipped, looking);
            }
            Source::Rows { schema, batches } => {
                refuse_skipping(options.skip_bad)?;
                if batches.iter().all(|batch| batch.num_rows() == 0) {
                    // A frame without rows may still lack columns.
                    push_batch(builder, &RecordBatch::new_empty(schema.clone()), &options.columns)?;
                    if !options.may_be_empty {
                        return Err(Error::config("exposures", "the frame has no rows"));
                    }
                }
                for batch in batches {
                    looking.go_on()?;
                    push_batch(builder, batch, &options.columns)?;
                }
                builder.source("a frame");
            }
        }
        Ok(())
    }

    /// Users' features.
    pub(crate) fn users(&self, options: &UserOptions, looking: &Looking<'_>) -> Result<UserTable> {
        let table = match self {
            Source::Paths(paths) => read_users(Source::one(paths, "users")?, options)?,
            Source::Rows { batches, .. } => {
                refuse_skipping(options.skip_bad)?;
                users_of(batches, options)?
            }
        };
        skipped(&table.skipped, looking);
        Ok(table)
    }
}

/// Rows in memory are not left out behind anybody's back.
pub(crate) fn refuse_skipping(skip_bad: bool) -> Result<()> {
    match skip_bad {
        true => Err(Error::config("skip_bad", "goes with paths: filter a frame before it is given")),
        false => Ok(()),
    }
}

/// Warns of rows that were left out.
pub(crate) fn skipped(found: &cadet_data::Skipped, looking: &Looking<'_>) {
    for reason in &found.reasons {
        let rows = cadet_show::words::many(reason.rows, "row");
        looking.warn(format!("left out {rows}: {} (first: {})", reason.reason, reason.first));
    }
}

/// An id as Python has it.
#[derive(FromPyObject)]
pub(crate) enum Id {
    Int(i64),
    Str(String),
}

impl Id {
    /// A user's.
    pub(crate) fn user(&self) -> IdRef<'_> {
        match self {
            Id::Int(value) => IdRef::Int(*value),
            Id::Str(text) => IdRef::from_text(text),
        }
    }

    /// An item's; a string may be its title, too.
    pub(crate) fn item<'a>(&'a self, model: &'a Model) -> Result<IdRef<'a>> {
        match self {
            Id::Int(value) => Ok(IdRef::Int(*value)),
            Id::Str(text) => cadet_show::named::typed_item(model, text),
        }
    }
}

/// What columns are called, where that is said.
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
pub(crate) struct Called {
    user: Option<String>,
    item: Option<String>,
    weight: Option<String>,
    timestamp: Option<String>,
    event: Option<String>,
}

impl Called {
    /// These names, the others from `usual`.
    pub(crate) fn over(&self, usual: &Columns) -> Columns {
        Columns {
            user: self.user.as_ref().unwrap_or(&usual.user).clone(),
            item: self.item.as_ref().unwrap_or(&usual.item).clone(),
            weight: self.weight.as_ref().or(usual.weight.as_ref()).cloned(),
            timestamp: self.timestamp.as_ref().or(usual.timestamp.as_ref()).cloned(),
            event: self.event.as_ref().or(usual.event.as_ref()).cloned(),
        }
    }
}

/// How what comes with a question is read: what columns are called, and users beside those of the model, by what
/// they saw or by their features.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    columns: Called,
    pub(crate) skip_bad: bool,
    users: Option<Source>,
    exposures: Option<Source>,
}

impl Reading {
    /// What columns are called: as in training, unless other names are given.
    pub(crate) fn columns(&self, model: &crate::model::Model) -> Columns {
        self.columns.over(&model.model.manifest().data.columns)
    }

    /// Ready to answer about the model's users and these.
    pub(crate) fn ask(&self, model: &crate::model::Model, looking: &Looking<'_>) -> Result<Arc<Ask>> {
        let columns = self.columns(model);
        let users = match (&self.users, &self.exposures) {
            (None, None) => return Ok(model.ask()),
            (Some(_), Some(_)) => return Err(Error::config("exposures", "give either users or exposures")),
            (Some(users), None) => {
                let instead = "give exposures, or fit with users";
                let (ids, features) = given(users, &model.model, &columns, self.skip_bad, instead, looking)?;
                Users::with_features(&model.model, ids, features)?
            }
            (None, Some(exposures)) => folded_in(exposures, &model.model, &columns, self.skip_bad, looking)?,
        };
        Ok(Arc::new(Ask::about(users)))
    }
}

/// Features of users that a model is to know. One that learned its features takes none: `instead` says what to
/// do.
pub(crate) fn given(
    users: &Source,
    model: &Model,
    columns: &Columns,
    skip_bad: bool,
    instead: &str,
    looking: &Looking<'_>,
) -> Result<(Ids, Instances)> {
    if model.factors().is_some() {
        let why = format!("this model learned its features from exposures, so it takes none: {instead}");
        return Err(Error::config("users", why));
    }
    let names = &model.manifest().data.feature_columns;
    let trained = (!names.is_empty()).then(|| names.clone());
    let options = UserOptions { user: columns.user.clone(), columns: trained, trained: true, skip_bad };
    let table = users.users(&options, looking)?;
    let (expected, found) = (model.standard().mean.len(), table.features.width());
    if expected != found {
        let what = format!("{found} features per user, the model takes {expected}");
        return Err(Error::data(&table.path, At::File, what));
    }
    Ok((table.ids, table.features))
}

/// Users known by what they saw; a warning says who stays unknown.
fn folded_in(
    exposures: &Source,
    model: &Model,
    columns: &Columns,
    skip_bad: bool,
    looking: &Looking<'_>,
) -> Result<Users> {
    if model.factors().is_none() {
        let why = "this model takes users' features as they are given: give users";
        return Err(Error::config("exposures", why));
    }
    let settings = &model.manifest().settings;
    let now = settings.half_life.map(|_| model.manifest().data.latest);
    let mut builder =
        LogBuilder::new(LogOptions { half_life: settings.half_life, now, ..LogOptions::default() });
    let options = ReadOptions { columns: columns.clone(), skip_bad, may_be_empty: true };
    exposures.push(&mut builder, &options, looking)?;
    let (users, left_out) = Users::with_exposures(model, &builder.finish()?)?;
    let reasons = [
        (left_out.known_users, "users of exposures are the model's own, with the features they have"),
        (left_out.untrained_pairs, "pairs of exposures are to items that were not there in training"),
        (left_out.unknown_users, "users of exposures saw no item of the training, and stay unknown"),
    ];
    for (count, what) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        looking.warn(format!("{} {what}", cadet_show::words::count(count)));
    }
    Ok(users)
}
