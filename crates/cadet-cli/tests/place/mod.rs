//! A folder of its own for every test, with the tool at hand and a small log in it.
#![allow(dead_code, unreachable_pub)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct Place(pub tempfile::TempDir);

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadet"));
        command.args(args.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &str) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs what must work.
    pub fn ok(&self, args: &str) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "cadet {args}: {}", ran.err);
        ran.out
    }

    /// Runs what must be refused with exit code 2, one line, and these words in it.
    pub fn refused(&self, args: &str, words: &[&str]) {
        let ran = self.run(args);
        assert_eq!(ran.code, 2, "cadet {args}: {} {}", ran.out, ran.err);
        assert_eq!(ran.out, "", "cadet {args}");
        let lines: Vec<&str> = ran.err.lines().filter(|l| !l.trim_start().starts_with("WARN")).collect();
        assert_eq!(lines.len(), 1, "cadet {args}: {}", ran.err);
        for word in words {
            assert!(lines[0].contains(word), "cadet {args}: {:?} is not in {:?}", word, lines[0]);
        }
    }
}

pub const QUICK: &str =
    "--epochs 3 --set seed_epochs=3 --set hidden=16,16 --set seed_tasks=8 --set batch=256";

/// 300 users in two camps and 24 items with names; camp A sees even items, camp B odd ones, mostly.
pub fn small_log(place: &Place) -> (PathBuf, PathBuf) {
    let (mut log, mut users) = (String::from("user_id,item_id,when\n"), String::from("user_id,a,b,c\n"));
    let mut state = 7u64;
    let mut next = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for u in 0..300u64 {
        let camp = u % 2;
        users += &format!("{u},{},{},0.5\n", camp as f64 * 2.0 - 1.0, next(100) as f64 / 100.0);
        for _ in 0..12 {
            let stray = u64::from(next(10) == 0);
            log += &format!("{u},\"í, {}\",1\n", 2 * next(12) + (camp ^ stray));
        }
    }
    (place.write("log.csv", log), place.write("users.csv", users))
}

pub fn trained() -> Place {
    let place = Place::new();
    small_log(&place);
    place.ok(&format!("train log.csv --users users.csv --out model {QUICK}"));
    place
}
