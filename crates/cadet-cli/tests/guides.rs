//! Every command of every guide runs. `docs/guides/*.md` are read, and their fenced `sh` and `console` blocks
//! run in order, each guide in an empty folder of its own with the built `cadet` on the path.
//!
//! A `sh` block is a script. In a `console` block lines that start with `$ ` are commands (a `\` at the end
//! goes on in the next line) and the others are what they print, which is for the reader and not compared. A
//! block with any other name, or none, is not run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A piece of a guide that is run.
#[derive(Debug, PartialEq)]
struct Script {
    /// The line of the guide that it starts at.
    line: usize,
    text: String,
}

fn scripts(guide: &str) -> Vec<Script> {
    let mut found = Vec::new();
    let mut lines = guide.lines().enumerate();
    while let Some((start, line)) = lines.next() {
        let Some(name) = line.trim_start().strip_prefix("```") else { continue };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let text = match name.trim() {
            "sh" => block.join("\n"),
            "console" => commands(&block),
            _ => continue,
        };
        found.push(Script { line: start + 2, text });
    }
    found
}

/// The commands of a `console` block, without what they print.
fn commands(block: &[&str]) -> String {
    let mut text = String::new();
    let mut goes_on = false;
    for line in block {
        let command = match line.strip_prefix("$ ") {
            Some(command) => command,
            None if goes_on => line,
            None => continue,
        };
        text += command;
        text.push('\n');
        goes_on = command.ends_with('\\');
    }
    text
}

fn run(guide: &Path) -> Result<usize, String> {
    let text = std::fs::read_to_string(guide).map_err(|e| format!("{}: {e}", guide.display()))?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let cadet = Path::new(env!("CARGO_BIN_EXE_cadet"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = cadet.parent().map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(places).map_err(|e| e.to_string())?;
    let scripts = scripts(&text);
    for script in &scripts {
        let output = Command::new("sh")
            .args(["-e", "-c", &script.text])
            .current_dir(folder.path())
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(format!(
                "{} line {}: {}\n{}\n{}",
                guide.display(),
                script.line,
                output.status,
                script.text,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    Ok(scripts.len())
}

#[test]
fn every_command_of_every_guide_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut guides: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    guides.sort();
    assert!(!guides.is_empty());
    // Side by side: most of a guide's time is one training.
    let ran: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = guides.iter().map(|guide| scope.spawn(|| run(guide))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failed: Vec<&String> = ran.iter().filter_map(|r| r.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for (guide, ran) in guides.iter().zip(&ran) {
        assert!(ran.as_ref().is_ok_and(|n| *n > 0), "{} has nothing to run", guide.display());
    }
}

#[test]
fn blocks_are_found_and_what_is_printed_is_left_out() {
    let guide =
        "Text.\n\n```sh\na\nb\n```\n\n```csv\nnot run\n```\n```console\n$ c \\\n    --d\nprinted\n$ e\n```\n";
    let found = scripts(guide);
    assert_eq!(found[0], Script { line: 4, text: "a\nb".into() });
    assert_eq!(found[1], Script { line: 12, text: "c \\\n    --d\ne\n".into() });
    assert_eq!(found.len(), 2);
}

#[test]
fn a_command_that_fails_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let guide = folder.path().join("bad.md");
    std::fs::write(&guide, "```sh\ntrue\n```\n```sh\ncadet inspect nowhere\ntrue\n```\n").unwrap();
    let error = run(&guide).unwrap_err();
    assert!(error.contains("bad.md line 5") && error.contains("no such model folder"), "{error}");
}
