//! Files of named tensors (safetensors): how they are put together and taken apart.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::judge::calibrate::Samples;
use crate::learn::estimator::Tensor;
use crate::log::ids::Names;
use crate::rows::SharedRows;
use crate::{Error, Result};

/// Writes a file and makes sure that it is on the disk.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, e))
}

/// Tensors on their way to a file.
#[derive(Default)]
pub(super) struct Pack(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

impl Pack {
    pub(super) fn add<T: Pod>(&mut self, name: &str, dtype: Dtype, shape: &[usize], values: &[T]) {
        self.0.push((name.into(), dtype, shape.to_vec(), bytemuck::cast_slice(values).to_vec()));
    }

    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.add(name, Dtype::F32, shape, values);
    }

    pub(super) fn tensors(&mut self, prefix: &str, tensors: Vec<Tensor>) {
        tensors.iter().for_each(|t| self.floats(&format!("{prefix}{}", t.name), &t.shape, &t.values));
    }

    pub(super) fn rows(&mut self, name: &str, rows: &Samples) {
        self.add(&format!("{name}.ends"), Dtype::U64, &[rows.ends.len()], &rows.ends);
        self.floats(&format!("{name}.values"), &[rows.values.len()], &rows.values);
    }

    pub(super) fn names(&mut self, names: &Names) {
        match names {
            Names::Int(values) => self.add("ids", Dtype::I64, &[values.len()], values),
            Names::Str { text, ends } => {
                self.add("ids.text", Dtype::U8, &[text.len()], text.as_bytes());
                self.add("ids.ends", Dtype::U64, &[ends.len()], ends);
            }
        }
    }

    /// SHA-256 over names and numbers.
    pub(super) fn digest(&self) -> String {
        let mut entries: Vec<_> =
            self.0.iter().map(|(name, _, _, bytes)| (name.as_str(), &bytes[..])).collect();
        digest(&mut entries)
    }

    pub(super) fn write(&self, path: &Path, metadata: Option<HashMap<String, String>>) -> Result<()> {
        let views = self.0.iter().map(|(name, dtype, shape, bytes)| {
            TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.as_str(), view))
        });
        let views: Vec<_> = views
            .collect::<Result<_, _>>()
            .map_err(|e| Error::store(path, format!("cannot be written: {e}")))?;
        let bytes = safetensors::serialize(views, metadata)
            .map_err(|e| Error::store(path, format!("cannot be written: {e}")))?;
        write_file(path, &bytes)
    }
}

/// SHA-256 over names and what they hold.
pub(super) fn digest(entries: &mut [(&str, &[u8])]) -> String {
    entries.sort_unstable();
    let mut hash = Sha256::new();
    for (name, bytes) in entries {
        hash.update(name.as_bytes());
        hash.update(bytes);
    }
    hex(&hash.finalize())
}

/// A file of tensors, checked.
pub(super) struct Opened {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Opened {
    pub(super) fn tensors(&self) -> Result<SafeTensors<'_>> {
        SafeTensors::deserialize(&self.bytes)
            .map_err(|e| self.error(format!("is not a safetensors file: {e}")))
    }

    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        Error::store(&self.path, what)
    }

    pub(super) fn has(&self, name: &str) -> Result<bool> {
        Ok(self.tensors()?.names().contains(&name))
    }

    pub(super) fn take<T: Pod>(&self, name: &str, dtype: Dtype) -> Result<(Vec<usize>, Vec<T>)> {
        let tensors = self.tensors()?;
        let view = tensors.tensor(name).map_err(|_| self.error(format!("has no tensor {name:?}")))?;
        if view.dtype() != dtype {
            return Err(self.error(format!("{name:?} holds {:?}, expected {dtype:?}", view.dtype())));
        }
        let values: Vec<T> = bytemuck::allocation::pod_collect_to_vec(view.data());
        if dtype == Dtype::F32 {
            self.check_finite(name, bytemuck::cast_slice(&values))?;
        }
        Ok((view.shape().to_vec(), values))
    }

    /// A matrix for a model to keep: block after block, so that it is there once.
    pub(super) fn shared_rows(&self, name: &str) -> Result<([usize; 2], SharedRows<f32>)> {
        let tensors = self.tensors()?;
        let view = tensors.tensor(name).map_err(|_| self.error(format!("has no tensor {name:?}")))?;
        let (&[count, columns], Dtype::F32) = (view.shape(), view.dtype()) else {
            let (dtype, shape) = (view.dtype(), view.shape());
            return Err(self.error(format!("{name:?} holds {dtype:?} {shape:?}, expected a matrix of F32")));
        };
        if columns == 0 {
            return Err(self.error(format!("{name:?} has no columns")));
        }
        let mut rows = SharedRows::new(columns, &[]);
        for block in view.data().chunks(SharedRows::<f32>::BLOCK * columns * size_of::<f32>()) {
            let values: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(block);
            self.check_finite(name, &values)?;
            rows.extend(&values);
        }
        Ok(([count, columns], rows))
    }

    pub(super) fn list<T: Pod>(&self, name: &str, dtype: Dtype) -> Result<Vec<T>> {
        Ok(self.take(name, dtype)?.1)
    }

    pub(super) fn matrix(&self, name: &str) -> Result<([usize; 2], Vec<f32>)> {
        let (shape, values) = self.take(name, Dtype::F32)?;
        match shape[..] {
            [rows, columns] if columns > 0 => Ok(([rows, columns], values)),
            _ => Err(self.error(format!("{name:?} has shape {shape:?}, expected a matrix"))),
        }
    }

    /// A list of finite numbers of this length; empty where it is empty or not there.
    pub(super) fn floats_or_none(&self, name: &str, length: usize) -> Result<Vec<f32>> {
        if !self.has(name)? {
            return Ok(Vec::new());
        }
        let values: Vec<f32> = self.list(name, Dtype::F32)?;
        if !(values.is_empty() || values.len() == length) {
            return Err(self.error(format!("{name} has {} numbers, expected {length}", values.len())));
        }
        Ok(values)
    }

    fn check_finite(&self, name: &str, values: &[f32]) -> Result<()> {
        match values.iter().all(|v| v.is_finite()) {
            true => Ok(()),
            false => Err(self.error(format!("{name} has a value that is not a finite number"))),
        }
    }

    /// The tensors of a net, none of which holds anything but numbers.
    pub(super) fn finite(&self, prefix: &str) -> Result<Vec<Tensor>> {
        let tensors = self.with_prefix(prefix)?;
        tensors.iter().try_for_each(|t| self.check_finite(&format!("{prefix}{}", t.name), &t.values))?;
        Ok(tensors)
    }

    pub(super) fn with_prefix(&self, prefix: &str) -> Result<Vec<Tensor>> {
        let tensors = self.tensors()?;
        let mut list = Vec::new();
        for (name, view) in tensors.iter() {
            if let Some(name) = name.strip_prefix(prefix).filter(|_| view.dtype() == Dtype::F32) {
                let values = bytemuck::allocation::pod_collect_to_vec(view.data());
                list.push(Tensor { name: name.into(), shape: view.shape().to_vec(), values });
            }
        }
        Ok(list)
    }

    pub(super) fn rows(&self, name: &str) -> Result<Samples> {
        let ends = self.list(&format!("{name}.ends"), Dtype::U64)?;
        Ok(Samples { ends, values: self.list(&format!("{name}.values"), Dtype::F32)? })
    }

    pub(super) fn names(&self) -> Result<Names> {
        if self.has("ids")? {
            return Ok(Names::Int(self.list("ids", Dtype::I64)?));
        }
        let text = String::from_utf8(self.list("ids.text", Dtype::U8)?)
            .map_err(|_| self.error("ids are not valid UTF-8"))?;
        let ends: Vec<u64> = self.list("ids.ends", Dtype::U64)?;
        let fits = ends.is_sorted()
            && ends.last().copied().unwrap_or(0) == text.len() as u64
            && ends.iter().all(|end| text.is_char_boundary(*end as usize));
        if !fits {
            return Err(self.error("ids do not fit together"));
        }
        Ok(Names::Str { text, ends })
    }

    /// Says which file a complaint of the core is about.
    pub(super) fn wrap<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|e| self.error(e.to_string()))
    }
}
