//! Which files does a command read, and which does it write? Nothing that is read is written over.
//!
//! Both follow from the command line alone: a path that is typed is read, unless its argument is one of
//! [`WRITTEN`]. So a new command has nothing to declare, and nothing to forget.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::store;
use cadet_data::source::{from_ending, is_dash};
use cadet_data::target;
use clap::{ArgMatches, Command, CommandFactory};

use crate::args::Args;
use crate::settings::{CONFIG, Usage};

/// The arguments that name what is written, in every command.
const WRITTEN: [&str; 2] = ["out", "report"];

/// The command that was asked for, below all others, and what was typed for it.
pub(crate) fn asked(matches: &ArgMatches) -> (Command, &ArgMatches) {
    let (mut command, mut matches) = (Args::command(), matches);
    while let Some((name, below)) = matches.subcommand() {
        command = command.find_subcommand(name).cloned().unwrap_or(command);
        matches = below;
    }
    (command, matches)
}

/// Refuses to write over what is read, or into a model folder.
pub(crate) fn check(matches: &ArgMatches) -> Result<()> {
    let (_, matches) = asked(matches);
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for id in matches.ids().map(clap::Id::as_str) {
        // What is not a path is of another type.
        let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id) else { continue };
        match WRITTEN.contains(&id) {
            true => written.extend(paths.map(|path| (id, path.clone()))),
            false => read.extend(paths.cloned()),
        }
    }
    if matches!(matches.try_contains_id("config"), Ok(false)) {
        read.push(CONFIG.into());
    }
    if read.iter().filter(|path| is_dash(path)).count() > 1 {
        return Err(Usage("- stands for standard input, which can be read once only".into()).into());
    }
    written.retain(|(_, path)| !is_dash(path));
    let out = written.iter().find(|(id, _)| *id == "out").map(|(_, path)| path);
    for (id, path) in &written {
        let refuse = |why: String| Err(Usage(format!("{} {why}: choose another", path.display())).into());
        let place = place(path);
        for input in &read {
            match around(&place, input) {
                Some(Touch::Is) => return refuse("is read, and would be written over".to_owned()),
                Some(Touch::Within) if place.is_file() || from_ending(&place).is_some() => {
                    return refuse(format!("lies in {}, which is read", input.display()));
                }
                _ => {}
            }
        }
        if let Some(model) = store::model_around(&place) {
            return refuse(format!("lies inside the model {}", model.display()));
        }
        if let Some(out) = out.filter(|out| *id != "out" && place.starts_with(self::place(out))) {
            return refuse(format!("lies in {}, which is written", out.display()));
        }
    }
    Ok(())
}

enum Touch {
    Is,
    Within,
}

/// What writing to a place would do to an input: a file, or a folder of them.
fn around(place: &Path, input: &Path) -> Option<Touch> {
    // A file that the shell opened has a name, too.
    let input = if is_dash(input) { Path::new("/dev/stdin") } else { input };
    let input = input.canonicalize().ok()?;
    if input.is_dir() {
        return (place != input && place.starts_with(&input)).then_some(Touch::Within);
    }
    (place == input).then_some(Touch::Is)
}

/// Where a path leads, whether or not something is there.
fn place(path: &Path) -> PathBuf {
    let plain: PathBuf = target(path).components().collect();
    let parent = plain.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = || Some(parent.canonicalize().ok()?.join(plain.file_name()?));
    plain.canonicalize().ok().or_else(beside).unwrap_or(plain)
}

/// A folder that a command fills with files of its own: new, or one that it filled before, as the title of
/// its report says.
pub(crate) fn check_folder(out: &Path, title: &str, names: &[&str]) -> Result<()> {
    let report = fs::read_to_string(out.join("report.html")).unwrap_or_default();
    if report.contains(&format!("<title>{title}</title>")) {
        return Ok(());
    }
    if let Some(name) = names.iter().find(|name| out.join(name).exists()) {
        let there = out.join(name);
        return Err(Usage(format!("{} is there already: choose another --out", there.display())).into());
    }
    if store::is_model(out) {
        return Err(Usage(format!("{} is a model: choose another --out", out.display())).into());
    }
    Ok(())
}

/// A folder for what is to come; if nothing comes, it goes again.
pub(crate) struct Folder(Option<PathBuf>);

impl Folder {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(|e| cadet::Error::io(path, e))?;
        Ok(Self(is_new.then(|| path.to_owned())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Fails, as it should, where the folder is not empty.
        self.0.as_ref().map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(command: &Command, found: &mut Vec<(String, String)>) {
        for arg in command.get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            found.push((arg.get_id().to_string(), help.to_lowercase()));
        }
        command.get_subcommands().for_each(|below| paths(below, found));
    }

    #[test]
    fn whatever_is_written_is_known_to_be() {
        let mut found = Vec::new();
        paths(&Args::command(), &mut found);
        let outputs: Vec<_> = found
            .iter()
            .filter(|(_, help)| {
                ["file to write", "folder to write", "folder for", "write them", "also write", "write the"]
                    .iter()
                    .any(|start| help.starts_with(start))
            })
            .collect();
        assert!(outputs.len() > 12, "{outputs:?}");
        for (id, help) in outputs {
            assert!(WRITTEN.contains(&id.as_str()), "{id}: {help}");
        }
        assert!(found.iter().all(|(id, help)| !WRITTEN.contains(&id.as_str()) || !help.contains("read")));
    }
}
