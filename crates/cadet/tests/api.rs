//! What the library promises: every public name, as listed in `api.txt`. Whoever changes it sees it in the
//! diff.
//!
//! `CADET_API=write cargo test -p cadet --test api` lists it again.
#![allow(missing_docs)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The source files of public modules, and of private ones whose names a public module passes on.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "kernels" {
            files(&path, found);
        } else if name.ends_with(".rs") && name != "internals.rs" && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// Public items of a file: signatures without bodies, methods behind the type they belong to, fields and
/// variants below it.
fn list(source: &str, out: &mut String) {
    let source = source.split("#[cfg(test)]").next().unwrap_or(source);
    let (mut owner, mut in_enum) = (String::new(), false);
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if indent == 0 && (text.starts_with("impl") || text.starts_with("pub trait")) {
            owner = text.trim_end_matches(['{', ' ']).to_owned();
        }
        if text == "}" && indent == 0 {
            (owner, in_enum) = (String::new(), false);
        }
        let is_variant = in_enum && indent == 4 && text.starts_with(char::is_uppercase);
        if !text.starts_with("pub ") && !is_variant {
            continue;
        }
        let mut item = text.to_owned();
        let ends = |item: &str| {
            item.ends_with(['{', ';', ',', '}']) && item.matches('(').count() == item.matches(')').count()
        };
        while !is_variant && !ends(&item) {
            let Some(more) = lines.next() else { break };
            item = format!("{item} {}", more.trim());
        }
        in_enum |= item.starts_with("pub enum");
        // A body on the same line is no part of the promise.
        let item = item.split(" { ").next().unwrap_or(&item);
        let item = item.trim_end_matches(['{', ';', ',', ' ']).replace("( ", "(").replace(", )", ")");
        let behind = if owner.is_empty() || item.starts_with("pub trait") {
            String::new()
        } else {
            format!("{owner}: ")
        };
        writeln!(out, "{}{behind}{item}", if indent > 0 { "    " } else { "" }).unwrap();
    }
}

#[test]
fn the_listing_is_what_the_library_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut paths, mut found) = (Vec::new(), String::new());
    files(&root.join("src"), &mut paths);
    for path in paths {
        let mut items = String::new();
        list(&fs::read_to_string(&path).unwrap(), &mut items);
        if !items.is_empty() {
            let name = path.strip_prefix(root.join("src")).unwrap().display().to_string();
            write!(found, "{}\n{items}\n", name.replace('\\', "/")).unwrap();
        }
    }
    let listing = root.join("api.txt");
    if std::env::var("CADET_API").is_ok_and(|v| v == "write") {
        fs::write(&listing, &found).unwrap();
    }
    let listed = fs::read_to_string(&listing).unwrap_or_default();
    let first = found.lines().zip(listed.lines()).find(|(f, l)| f != l);
    assert!(
        found == listed,
        "api.txt is not what the library has ({first:?}): list it again with CADET_API=write and look at the diff"
    );
}

/// From the ground up: a module may know those before it.
const ORDER: [&str; 19] = [
    "status",
    "error",
    "digest",
    "rng",
    "kernels",
    "linalg",
    "rows",
    "log",
    "metrics",
    "learn",
    "judge",
    "settings",
    "model",
    "ask",
    "arrive",
    "fit",
    "store",
    "worlds",
    "internals",
];

#[test]
fn no_module_knows_one_further_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    files(&root.join("kernels"), &mut paths);
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().iter().next().unwrap().to_str().unwrap();
        let own = name.trim_end_matches(".rs");
        if own == "lib" {
            continue;
        }
        let place = |module: &str| ORDER.iter().position(|m| *m == module);
        let own = place(own).unwrap_or_else(|| panic!("{own} has no place in the order"));
        let source = fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for known in line.split("crate::").skip(1) {
                let module =
                    known.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
                let further = place(module).is_some_and(|m| m > own);
                assert!(!further, "{} knows {module}: {line}", path.display());
            }
        }
    }
}
