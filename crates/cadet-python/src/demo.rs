//! A generated log, to try things with.

use cadet::worlds::synth::WorldConfig;
use cadet::{IdRef, TaskId};
use cadet_show::sheet::Sheet;
use pyo3::prelude::*;

use crate::table::Table;
use crate::work::run;

/// The exposures of a generated world.
#[pyfunction]
pub(crate) fn demo_log(
    py: Python<'_>,
    users: usize,
    items: usize,
    exposures: usize,
    seed: u64,
) -> PyResult<Table> {
    run(py, None, None, |_| {
        let log = WorldConfig { users, items, exposures, seed, ..WorldConfig::default() }.make()?.log()?;
        let names: Vec<String> = (0..log.items.len()).map(|item| format!("item-{item:04}")).collect();
        let mut pairs: Vec<(IdRef<'_>, IdRef<'_>)> = Vec::new();
        for (TaskId(item), audience) in log.exposures.audiences() {
            for (i, user) in audience.instances.iter().enumerate() {
                let pair = (IdRef::Int(i64::from(*user)), IdRef::Str(&names[item as usize]));
                pairs.extend(std::iter::repeat_n(pair, audience.count(i) as usize));
            }
        }
        let sheet = Sheet::default().ids("user_id", pairs.iter().map(|(user, _)| *user));
        Table::of(&sheet.ids("item_id", pairs.iter().map(|(_, item)| *item)))
    })
}
