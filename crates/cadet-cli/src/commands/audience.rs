//! `cadet audience`: the freshest or the most common users of an item.

use anyhow::Result;
use cadet::scorer::{Scorer, Verdict};
use cadet::{Error, IdRef, store};
use cadet_data::{Kind, TableWriter, Values};
use serde_json::json;

use super::find_item;
use crate::args::{Audience, Global, Mode};
use crate::output;

pub(crate) fn run(args: &Audience, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    let task = find_item(&model, &args.item)?;
    if !model.trained[task.0 as usize] {
        let hint =
            "it is in the log, but had too few exposures to be trained on (see --min-exposures)".into();
        return Err(Error::UnknownTask { id: args.item.clone(), hint }.into());
    }
    let scorer = Scorer::new(&model)?;
    let ready = scorer.task(task)?;
    let verdicts = ready.verdicts(&scorer.halves(&model.features)?);
    let mut users: Vec<(Verdict, u32)> = verdicts.into_iter().zip(0..).collect();
    let sign = if args.mode == Mode::Common { -1.0 } else { 1.0 };
    users.sort_by(|a, b| (sign * a.0.familiarity).total_cmp(&(sign * b.0.familiarity)).then(a.1.cmp(&b.1)));
    users.truncate(args.number);
    let audience = model.exposures.audience(task);
    let names: Vec<IdRef<'_>> = users.iter().map(|(_, u)| model.users.name(*u)).collect();
    let seen: Vec<u32> = users.iter().map(|(_, u)| audience.times_seen(*u)).collect();
    if let Some(path) = &args.out {
        let columns = [
            ("user_id", Kind::Id),
            ("familiarity", Kind::F32),
            ("quantile", Kind::F32),
            ("p_value", Kind::F32),
            ("times_seen", Kind::U32),
        ];
        let mut writer = TableWriter::create(path, None, &columns)?;
        let of = |f: fn(&Verdict) -> f32| users.iter().map(|(v, _)| f(v)).collect::<Vec<f32>>();
        let (f, q, p) = (of(|v| v.familiarity), of(|v| v.quantile), of(|v| v.p_value));
        writer.write(&[
            Values::Id(&names),
            Values::F32(&f),
            Values::F32(&q),
            Values::F32(&p),
            Values::U32(&seen),
        ])?;
        writer.finish()?;
        return Ok(());
    }
    if global.json {
        let rows: Vec<_> = users
            .iter()
            .zip(names.iter().zip(&seen))
            .map(|((v, _), (name, seen))| {
                json!({"user_id": id_json(*name), "familiarity": v.familiarity, "quantile": v.quantile,
                       "p_value": v.p_value, "times_seen": seen})
            })
            .collect();
        let basis = format!("{:?}", ready.basis()).to_lowercase();
        return output::print_json(&json!({"item_id": args.item, "p_values_from": basis, "users": rows}));
    }
    let rows: Vec<Vec<String>> = users
        .iter()
        .zip(names.iter().zip(&seen))
        .map(|((v, _), (name, seen))| {
            let number = |x: f32| format!("{x:.3}");
            vec![
                name.to_string(),
                format!("{:+.3}", v.familiarity),
                number(v.quantile),
                number(v.p_value),
                seen.to_string(),
            ]
        })
        .collect();
    let which = if args.mode == Mode::Common { "most common" } else { "freshest" };
    let mut text =
        format!("The {which} users of {}, out of {}:\n\n", args.item, output::count(model.users.len()));
    text += &output::table(&["user", "familiarity", "quantile", "p-value", "times seen"], &rows);
    output::print(&text)
}

/// An id as JSON: a number where it is one.
pub(super) fn id_json(name: IdRef<'_>) -> serde_json::Value {
    match name {
        IdRef::Int(value) => value.into(),
        IdRef::Str(text) => text.into(),
    }
}
