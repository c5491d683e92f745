//! What goes out: rows as an Arrow stream, which every library of frames reads.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::{concat, concat_batches};
use cadet::Error;
use cadet_show::sheet::Sheet;
use numpy::PyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule, PyDict, PyType};
use pyo3_arrow::PyArray;
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use pyo3_arrow::input::AnyArray;

use crate::errors::raised;

/// Rows of named columns.
#[pyclass(frozen, module = "cadet._cadet")]
pub(crate) struct Table {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        let rows =
            self.batches.clone().into_iter().map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef));
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(rows, Arc::new(field))), requested_schema)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        let rows = cadet_show::words::many(self.__len__(), "row");
        format!("<cadet.Table: {rows} of {}>", self.column_names().join(", "))
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns as numpy arrays.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let whole = concat_batches(&self.schema, &self.batches).map_err(|e| raised(unfit(e)))?;
        let columns = PyDict::new(py);
        for (field, column) in self.schema.fields().iter().zip(whole.columns()) {
            columns.set_item(field.name(), numpy_of(py, column)?)?;
        }
        Ok(columns)
    }
}

impl Table {
    /// Batches of one schema.
    pub(crate) fn new(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Table { batches, schema }
    }

    /// One sheet.
    pub(crate) fn of(sheet: &Sheet<'_>) -> cadet::Result<Self> {
        Ok(Table::new(vec![sheet.batch()?]))
    }

    /// Sheets of the same columns, ids of which may be integers in one and strings in another.
    pub(crate) fn joined(batches: Vec<RecordBatch>) -> cadet::Result<Self> {
        let Some(first) = batches.first() else { return Ok(Table::new(batches)) };
        let is_text =
            |column: usize| batches.iter().any(|batch| *batch.column(column).data_type() == DataType::Utf8);
        let kinds: Vec<(String, DataType)> = (0..first.num_columns())
            .filter(|column| is_text(*column))
            .map(|column| (first.schema().field(column).name().clone(), DataType::Utf8))
            .collect();
        Table::new(batches).cast(&kinds)
    }

    /// The same with columns of other types, where they are not of them already.
    pub(crate) fn cast(self, kinds: &[(String, DataType)]) -> cadet::Result<Self> {
        let wanted = |field: &Field| {
            let kind = kinds.iter().find(|(name, _)| name == field.name()).map(|(_, kind)| kind.clone());
            kind.unwrap_or_else(|| field.data_type().clone())
        };
        let fields: Vec<Field> =
            self.schema.fields().iter().map(|f| f.as_ref().clone().with_data_type(wanted(f))).collect();
        let schema = Arc::new(Schema::new(fields));
        let again = |batch: &RecordBatch| {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| cast(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
            RecordBatch::try_new(schema.clone(), columns)
        };
        let batches: Result<Vec<RecordBatch>, _> = self.batches.iter().map(again).collect();
        Ok(Table { batches: batches.map_err(unfit)?, schema })
    }
}

/// A column as numpy has it: nothing is NaN or NaT, times are UTC, strings are objects.
fn numpy_of<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let plain = |kind: &DataType| cast(column, kind).map_err(|e| raised(unfit(e)));
    match column.data_type() {
        DataType::Float32 => {
            let values = plain(&DataType::Float32)?;
            let values = values.as_primitive::<Float32Type>().iter().map(|v| v.unwrap_or(f32::NAN));
            Ok(PyArray1::from_iter(py, values).into_any())
        }
        DataType::Float64 => {
            let values = plain(&DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>().iter().map(|v| v.unwrap_or(f64::NAN));
            Ok(PyArray1::from_iter(py, values).into_any())
        }
        DataType::Timestamp(..) => {
            let values = plain(&DataType::Timestamp(TimeUnit::Millisecond, None))?;
            // NaT is the smallest integer.
            let values =
                values.as_primitive::<TimestampMillisecondType>().iter().map(|v| v.unwrap_or(i64::MIN));
            PyArray1::from_iter(py, values).call_method1("view", ("datetime64[ms]",))
        }
        kind if kind.is_integer() => {
            Bound::new(py, PyArray::from_array_ref(column.clone()))?.call_method0("to_numpy")
        }
        _ => {
            let texts = plain(&DataType::Utf8)?;
            let texts: Vec<Option<&str>> = texts.as_string::<i32>().iter().collect();
            let object = [("dtype", "object")].into_py_dict(py)?;
            py.import("numpy")?.call_method("array", (texts,), Some(&object))
        }
    }
}

fn unfit(error: arrow_schema::ArrowError) -> Error {
    Error::config("output", error.to_string())
}

/// A table of columns: Arrow arrays, numpy arrays or lists.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, columns: &Bound<'_, PyDict>) -> PyResult<Table> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, values) in columns {
        let name: String =
            name.extract().map_err(|_| PyTypeError::new_err(format!("{name:?}: columns have names")))?;
        let array = array(py, &name, &values)?;
        fields.push(Field::new(&name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let lengths = || arrays.iter().map(|array: &ArrayRef| array.len());
    if let Some((field, (first, found))) =
        fields.iter().zip(lengths().take(1).cycle().zip(lengths())).find(|(_, (a, b))| a != b)
    {
        let what = format!("column {} has {found} values, the first column {first}", field.name());
        return Err(pyo3::exceptions::PyValueError::new_err(what));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| raised(unfit(e)))?;
    Ok(Table::new(vec![batch]))
}

fn array(py: Python<'_>, name: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if values.hasattr("__arrow_c_array__")? || values.hasattr("__arrow_c_stream__")? {
        let (chunks, field) = values.extract::<AnyArray>()?.into_chunked_array()?.into_inner();
        let chunks: Vec<&dyn arrow_array::Array> = chunks.iter().map(AsRef::as_ref).collect();
        return match chunks[..] {
            [] => Ok(arrow_array::new_empty_array(field.data_type())),
            _ => concat(&chunks).map_err(|e| raised(unfit(e))),
        };
    }
    if values.hasattr("__array_interface__")? {
        let class: Bound<'_, PyType> = py.get_type::<PyArray>();
        return Ok(class.call_method1("from_numpy", (values,))?.extract::<PyArray>()?.into_inner().0);
    }
    if let Ok(ints) = values.extract::<Vec<Option<i64>>>() {
        return Ok(Arc::new(Int64Array::from(ints)));
    }
    if let Ok(floats) = values.extract::<Vec<Option<f64>>>() {
        return Ok(Arc::new(Float64Array::from(floats)));
    }
    match values.extract::<Vec<Option<String>>>() {
        Ok(texts) => Ok(Arc::new(StringArray::from(texts))),
        Err(_) => {
            let what = format!(
                "column {name}: expected an Arrow array, a numpy array, or a list of numbers or strings"
            );
            Err(PyTypeError::new_err(what))
        }
    }
}
