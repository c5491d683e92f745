//! `cadet audience`: the freshest or the most common users of an item, or of all items.

use std::path::Path;

use anyhow::Result;
use cadet::model::{Model, Standing};
use cadet::scorer::{Scorer, Verdict};
use cadet::users::Users;
use cadet::{At, Error, IdRef, TaskId, store};
use cadet_data::source::is_dash;
use cadet_data::time::iso;
use cadet_data::{Kind, TableWriter, Values, read_ids};
use rayon::prelude::*;
use serde_json::json;

use super::{find_item, find_scored, id_json, people, refuse_without_signal};
use crate::args::{Audience, Global, Mode};
use crate::output;

pub(crate) fn run(args: &Audience, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let people = people::read(&model, &args.users, &args.log)?;
    let places = chosen(args, &people)?;
    let scorer = Scorer::new(&people)?;
    let search = Search { args, model: &model, people: &people, scorer: &scorer, places };
    let Some(name) = &args.which.item else { return search.all(args.out.as_deref(), global) };
    let task = find_item(&model, name)?;
    match model.standing(task) {
        Standing::Empty => {
            tracing::warn!("{name} has no exposure yet: nobody is more familiar with it than anybody else");
        }
        Standing::Untrained => return find_scored(&model, name).map(|_| ()),
        Standing::Trained | Standing::Added => {}
    }
    let found = search.top(task)?;
    if let Some(path) = &args.out {
        let mut table = Table::create(path, args, global)?;
        table.write(&search, task, &found)?;
        return output::finish_table(table.0, path, global);
    }
    if global.json {
        let rows: Vec<_> = found
            .iter()
            .map(|f| {
                json!({"user_id": id_json(people.name(f.place)), "familiarity": f.verdict.familiarity,
                       "quantile": f.verdict.quantile, "p_value": f.verdict.p_value,
                       "times_seen": f.seen.0, "last_seen": (f.seen.1 > 0).then(|| iso(f.seen.1))})
            })
            .collect();
        let basis = format!("{:?}", model.calibrator.basis(task.0)).to_lowercase();
        let item = id_json(model.items.name(task.0));
        let standing = model.standing(task);
        return output::print_json(
            &json!({"item_id": item, "title": model.title(task), "standing": standing, "p_values_from": basis, "users": rows}),
        );
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|f| {
            vec![
                people.name(f.place).to_string(),
                format!("{:+.3}", f.verdict.familiarity),
                format!("{:.3}", f.verdict.quantile),
                format!("{:.3}", f.verdict.p_value),
                f.seen.0.to_string(),
                iso(f.seen.1),
            ]
        })
        .collect();
    let which = if args.mode == Mode::Common { "most common" } else { "freshest" };
    let mut text = format!(
        "The {which} users of {}, out of {}:\n\n",
        model.label(task),
        output::count(search.places.len())
    );
    text += &output::table(&["user", "familiarity", "quantile", "p-value", "times seen", "last seen"], &rows);
    output::print(&text)
}

/// The users to choose among.
fn chosen(args: &Audience, people: &Users<'_>) -> Result<Vec<u32>> {
    let mut places = eligible(args, people)?;
    if args.min_exposures > 0 {
        let counts = people.exposure_counts();
        places.retain(|u| counts[*u as usize] >= args.min_exposures);
        if places.is_empty() {
            let why = format!("nobody has {} exposures", args.min_exposures);
            return Err(Error::config("min_exposures", why).into());
        }
    }
    Ok(places)
}

/// Everybody, or those that --filter names.
fn eligible(args: &Audience, people: &Users<'_>) -> Result<Vec<u32>> {
    let Some(path) = &args.filter else { return Ok(people.all()) };
    let (ids, skipped) =
        read_ids(path, &args.log.user_col, "user_col", args.log.skip_bad).map_err(|e| args.log.hint(e))?;
    output::warn_skipped(&skipped);
    let mut places: Vec<u32> = (0..ids.len() as u32).filter_map(|u| people.find(ids.name(u))).collect();
    let unknown = ids.len() - places.len();
    if places.is_empty() {
        let what = "none of its users is known to the model: there is nobody to choose among";
        return Err(Error::data(path, At::File, what).into());
    }
    if unknown > 0 {
        tracing::warn!(
            "{} of {} users in {} are unknown to the model",
            output::count(unknown),
            output::count(ids.len()),
            path.display()
        );
    }
    places.sort_unstable();
    Ok(places)
}

struct Search<'a> {
    args: &'a Audience,
    model: &'a Model,
    people: &'a Users<'a>,
    scorer: &'a Scorer<'a>,
    /// Who is chosen among.
    places: Vec<u32>,
}

/// One user of an audience.
struct Found {
    place: u32,
    verdict: Verdict,
    seen: (u32, u32),
}

impl Search<'_> {
    /// The first `-n` users of an item.
    fn top(&self, task: TaskId) -> Result<Vec<Found>> {
        let verdicts = self.scorer.task(task)?.verdicts(&self.places);
        let mut users: Vec<(Verdict, u32)> = verdicts.into_iter().zip(self.places.iter().copied()).collect();
        if self.args.exclude_seen {
            users.retain(|(_, place)| self.people.seen(*place, task).0 == 0);
        }
        let sign = if self.args.mode == Mode::Common { -1.0 } else { 1.0 };
        let by = |a: &(Verdict, u32), b: &(Verdict, u32)| {
            (sign * a.0.familiarity).total_cmp(&(sign * b.0.familiarity)).then(a.1.cmp(&b.1))
        };
        let number = self.args.number;
        if (1..users.len()).contains(&number) {
            users.select_nth_unstable_by(number - 1, by);
        }
        users.truncate(number);
        users.sort_by(by);
        let found = users.into_iter().map(|(verdict, place)| Found {
            place,
            verdict,
            seen: self.people.seen(place, task),
        });
        Ok(found.collect())
    }

    /// The audiences of all items, into a file.
    fn all(&self, out: Option<&Path>, global: &Global) -> Result<()> {
        let path = out.ok_or_else(|| {
            crate::settings::Usage(
                "--all writes to a file: name it with -o, such as -o audiences.parquet".into(),
            )
        })?;
        let tasks = self.model.scored();
        let mut table = Table::create(path, self.args, global)?;
        output::listen_for_ctrl_c("stopping; nothing will be written");
        let bar = output::bar("scoring", Some(tasks.len() as u64));
        let mut rows = 0;
        // A few items side by side, then written in order.
        for group in tasks.chunks(4 * rayon::current_num_threads()) {
            let found: Vec<Vec<Found>> =
                group.par_iter().map(|task| self.top(*task)).collect::<Result<_>>()?;
            for (task, found) in group.iter().zip(&found) {
                table.write(self, *task, found)?;
                rows += found.len();
            }
            bar.inc(group.len() as u64);
        }
        bar.finish_and_clear();
        table.0.finish()?;
        let left_out = self.model.items.len() - tasks.len();
        if left_out > 0 {
            tracing::warn!("left out {} without an embedding", output::many(left_out, "item"));
        }
        if is_dash(path) {
            return Ok(());
        }
        match global.json {
            true => output::print_json(
                &json!({"out": path.to_string_lossy(), "items": tasks.len(), "rows": rows}),
            ),
            false => output::print(&format!(
                "{} users of {} items: {}",
                output::count(rows),
                output::count(tasks.len()),
                path.display()
            )),
        }
    }
}

/// Audiences on their way out.
struct Table(TableWriter);

impl Table {
    fn create(path: &Path, args: &Audience, global: &Global) -> Result<Self> {
        let columns = [
            (args.log.item_col.as_str(), Kind::Id),
            (args.log.user_col.as_str(), Kind::Id),
            ("familiarity", Kind::F32),
            ("quantile", Kind::F32),
            ("p_value", Kind::F32),
            ("times_seen", Kind::U32),
            ("last_seen", Kind::Time),
        ];
        Ok(Self(output::table_file(path, &columns, global)?))
    }

    fn write(&mut self, search: &Search<'_>, task: TaskId, found: &[Found]) -> Result<()> {
        if output::asked_to_stop() {
            anyhow::bail!("interrupted: nothing was written");
        }
        let items = vec![search.model.items.name(task.0); found.len()];
        let users: Vec<IdRef<'_>> = found.iter().map(|f| search.people.name(f.place)).collect();
        let of = |f: fn(&Verdict) -> f32| found.iter().map(|row| f(&row.verdict)).collect::<Vec<f32>>();
        let times: Vec<u32> = found.iter().map(|f| f.seen.0).collect();
        let last: Vec<u32> = found.iter().map(|f| f.seen.1).collect();
        Ok(self.0.write(&[
            Values::Id(&items),
            Values::Id(&users),
            Values::F32(&of(|v| v.familiarity)),
            Values::F32(&of(|v| v.quantile)),
            Values::F32(&of(|v| v.p_value)),
            Values::U32(&times),
            Values::Time(&last),
        ])?)
    }
}
