//! A model in Python's hands, and in its folder.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cadet::ask::Ask;
use cadet::store::{self, Claim};
use cadet_show::sheet::Sheet;
use pyo3::prelude::*;

use crate::errors::raised;
use crate::table::Table;
use crate::work::run;

/// A trained model, which never changes.
#[pyclass(frozen, module = "cadet._cadet")]
pub(crate) struct Model {
    pub(crate) model: cadet::model::Model,
    ask: OnceLock<Arc<Ask>>,
}

impl From<cadet::model::Model> for Model {
    fn from(model: cadet::model::Model) -> Self {
        Model { model, ask: OnceLock::new() }
    }
}

impl Model {
    /// Ready to answer about the model's own users.
    pub(crate) fn ask(&self) -> Arc<Ask> {
        self.ask.get_or_init(|| Arc::new(Ask::new(&self.model))).clone()
    }
}

#[pymethods]
impl Model {
    /// What `cadet inspect --json` prints.
    fn manifest(&self) -> PyResult<String> {
        serde_json::to_string(self.model.manifest())
            .map_err(|e| raised(cadet::Error::config("manifest", e.to_string())))
    }

    #[getter]
    fn has_signal(&self) -> bool {
        self.model.has_signal()
    }

    /// The ids of the users.
    fn users(&self) -> PyResult<Table> {
        let name = &self.model.manifest().data.columns.user;
        Table::of(&Sheet::default().ids(name, self.model.users().iter())).map_err(raised)
    }

    /// The ids of the items, and their titles where there are any.
    fn items(&self) -> PyResult<Table> {
        let name = &self.model.manifest().data.columns.item;
        let ids: Vec<_> = self.model.items().iter().collect();
        Table::of(&Sheet::default().items(name, &self.model, ids.iter().copied())).map_err(raised)
    }
}

/// Reads a model folder.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Model> {
    run(py, None, None, |_| store::load(&folder)).map(Model::from)
}

/// Writes a model folder, in one step, and keeps the model that was there under another name if that is asked
/// for.
#[pyfunction]
pub(crate) fn save(py: Python<'_>, model: &Model, folder: PathBuf, keep_previous: bool) -> PyResult<()> {
    let model = &model.model;
    run(py, None, None, |_| {
        let mut claim = Claim::take(&folder)?;
        if keep_previous {
            claim.keep_previous()?;
        }
        claim.save(model)
    })
}
