//! `cadet state check` and `cadet state cut`: what is wrong with the log of a service, and how to go on.

use anyhow::Result;
use cadet::Error;
use cadet_serve::state::check;
use serde_json::json;

use crate::args::{Global, StateCheck, StateCut};
use crate::output::{self, count, many};

pub(crate) fn check(args: &StateCheck, global: &Global) -> Result<()> {
    let report = check::check(&args.folder)?;
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    if global.json {
        let segments = report.segments.iter().map(|s| {
            json!({ "file": s.path, "first": s.first, "last": s.last, "records": s.records, "bytes": s.bytes })
        });
        output::print_json(&json!({
            "seq": report.seq,
            "torn": report.torn,
            "snapshots": report.snapshots,
            "segments": segments.collect::<Vec<_>>(),
            "problems": problems,
            "remarks": report.remarks,
        }))?;
    } else {
        let rows = report.segments.iter().map(|s| {
            let name = s.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            vec![name, count(s.first), count(s.last), count(s.records), output::bytes(s.bytes)]
        });
        let mut text =
            output::table(&["file", "first", "last", "records", "size"], &rows.collect::<Vec<_>>());
        text += &format!("\nThe log can be read up to position {}.\n", report.seq);
        if report.torn > 0 {
            let torn = many(report.torn, "byte");
            text += &format!(
                "The last {torn} were being written when writing stopped: the next start sets them aside.\n"
            );
        }
        report.remarks.iter().for_each(|remark| text += &format!("{remark}\n"));
        output::print(&text)?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    let folder = args.folder.display();
    let what = format!(
        "is damaged: {}. Restore a backup, or go on without what came after: cadet state cut {folder} --at {}",
        problems.join("; "),
        report.seq
    );
    Err(Error::store(&args.folder, what).into())
}

pub(crate) fn cut(args: &StateCut, global: &Global) -> Result<()> {
    let seq = check::cut(&args.folder, args.at)?;
    if global.json {
        return output::print_json(&json!({ "seq": seq }));
    }
    output::print(&format!(
        "The log ends at position {seq} now. What came after lies beside it, in files that end in .cut.\n"
    ))
}
