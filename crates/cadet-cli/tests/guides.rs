//! Every command of every guide runs. `docs/guides/*.md` are read, and their fenced `sh` and `console` blocks
//! run in order, each guide in an empty folder of its own with the built `cadet` on the path.
//!
//! A `sh` block is a script. In a `console` block lines that start with `$ ` are commands (a `\` at the end
//! goes on in the next line) and the others are what they print, which is for the reader and not compared. A
//! block with any other name, or none, is not run.
//!
//! What a guide starts in the background, such as `cadet serve data &`, runs until the guide ends. A service of
//! a guide listens on a port of its own, which stands for 127.0.0.1:8377 in all of its commands.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
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

/// Ends all that the scripts of a guide left running: each script is a process group of its own.
#[derive(Default)]
struct Groups(Vec<u32>);

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.0 {
            // Most are gone already.
            let _ = Command::new("kill")
                .args(["-KILL", "--", &format!("-{group}")])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Where the service of a guide listens in the guide's own words.
const LISTEN: &str = "127.0.0.1:8377";

fn run(guide: &Path) -> Result<usize, String> {
    let text = std::fs::read_to_string(guide).map_err(|e| format!("{}: {e}", guide.display()))?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let cadet = Path::new(env!("CARGO_BIN_EXE_cadet"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = cadet.parent().map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(places).map_err(|e| e.to_string())?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let listen = free.map_err(|e| e.to_string())?.to_string();
    let said = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let scripts = scripts(&text);
    let mut groups = Groups::default();
    for script in &scripts {
        // A file and no pipe: what stays in the background would hold a pipe open.
        let stderr = File::create(said.path()).map_err(|e| e.to_string())?;
        let mut shell = Command::new("sh")
            .args(["-e", "-c", &script.text.replace(LISTEN, &listen)])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("CADET_SERVE__LISTEN", &listen)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|e| e.to_string())?;
        groups.0.push(shell.id());
        let status = shell.wait().map_err(|e| e.to_string())?;
        if !status.success() {
            let said = std::fs::read_to_string(said.path()).unwrap_or_default();
            return Err(format!(
                "{} line {}: {status}\n{}\n{said}",
                guide.display(),
                script.line,
                script.text
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

#[test]
fn a_service_of_a_guide_runs_on_in_the_next_block_and_ends_with_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let (guide, log) = (folder.path().join("serve.md"), folder.path().join("log"));
    let (ask, log) = ("curl -sS -f --retry 20 --retry-all-errors http://127.0.0.1:8377/livez", log.display());
    let text = format!(
        "```sh\nmkdir data\ncadet serve data 2> {log} &\n{ask}\n```\n```sh\n{ask}\ncat data/LOCK > {log}.pid\n```\n"
    );
    std::fs::write(&guide, text).unwrap();
    assert_eq!(run(&guide), Ok(2));
    let pid = std::fs::read_to_string(format!("{log}.pid")).unwrap();
    let begun = std::time::Instant::now();
    while Path::new("/proc").join(pid.trim()).exists() {
        assert!(begun.elapsed().as_secs() < 10, "process {pid} runs still");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
