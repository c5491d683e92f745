//! Which Python exception says what went wrong?

use cadet::ask::Status;
use cadet::model::Model;
use cadet_show::named::nearest_name;
use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    cadet,
    Error,
    pyo3::exceptions::PyException,
    "What went wrong where no argument alone is to blame."
);

/// An error of the library as an exception. Options are called as the arguments are.
pub(crate) fn raised(error: cadet::Error) -> PyErr {
    use cadet::Error as Its;
    let text = error.to_string();
    match error {
        Its::Io { path, source } => {
            std::io::Error::new(source.kind(), format!("{}: {source}", path.display())).into()
        }
        Its::Data { .. } | Its::Shape { .. } | Its::Config { .. } => PyValueError::new_err(text),
        Its::UnknownTask { .. } => PyKeyError::new_err(text),
        Its::NoAnswer { status: Status::UnknownUser | Status::UnknownItem, .. } => PyKeyError::new_err(text),
        Its::Store { path, .. } if !path.exists() => PyFileNotFoundError::new_err(text),
        Its::Interrupted => PyKeyboardInterrupt::new_err(()),
        Its::NoAnswer { .. } | Its::Diverged { .. } | Its::Busy { .. } | Its::Store { .. } => {
            Error::new_err(text)
        }
    }
}

/// Says in arguments what a question lacks that has no answer.
pub(crate) fn worded(model: &Model, error: cadet::Error) -> cadet::Error {
    let cadet::Error::NoAnswer { id, status } = error else { return error };
    match status {
        Status::UnknownItem => {
            let hint = nearest_name(model, &id);
            cadet::Error::UnknownTask { id, hint }
        }
        status => cadet::Error::NoAnswer { id, status },
    }
}
