//! Promises of the dashboard's files: small, from nowhere else, and nothing that its own policy forbids.

use cadet_serve::dashboard::assets::Assets;
use sha2::{Digest, Sha512};

/// Lines of our own script, blank ones and comments left out, and bytes of all files as they are sent.
const LINES: usize = 1_500;
const BYTES: usize = 60_000;

fn own_scripts() -> impl Iterator<Item = (&'static str, String)> {
    let files = Assets::get().files.iter().filter(|f| f.name.starts_with("app/"));
    files.map(|f| (f.name, String::from_utf8(f.plain.to_vec()).unwrap()))
}

#[test]
fn files_are_small() {
    let assets = Assets::get();
    let packed: usize = assets.files.iter().map(|f| f.gzip.len()).sum::<usize>() + assets.index.gzip.len();
    assert!(packed <= BYTES, "{packed} bytes of gzip");
    let is_code = |line: &&str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with("//") || line.starts_with("/**"))
    };
    let lines: usize = own_scripts().map(|(_, text)| text.lines().filter(is_code).count()).sum();
    assert!(lines <= LINES, "{lines} lines of script");
}

#[test]
fn nothing_comes_from_elsewhere() {
    // Names of kinds of markup look like addresses and are none.
    let names =
        ["http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML", "http://www.w3.org/1999/xhtml"];
    for file in Assets::get().files.iter().chain([&Assets::get().index]) {
        let mut text = String::from_utf8(file.plain.to_vec()).unwrap();
        for name in names {
            text = text.replace(name, "");
        }
        for word in ["http:", "https:", "src=\"/", "href=\"/", "from '/", "from\"/", "@import"] {
            assert!(!text.contains(word), "{}: {word}", file.name);
        }
        assert!(!file.name.ends_with(".css") || !text.contains("url("), "{}: url(", file.name);
    }
    for (name, text) in own_scripts() {
        for word in ["fetch('/", "fetch(\"/", "fetch(`/", "path: '/", "`/v1", "'/v1/'"] {
            assert!(!text.contains(word), "{name}: a path from the root: {word}");
        }
    }
}

#[test]
fn nothing_is_there_that_the_policy_forbids() {
    for file in &Assets::get().files {
        let text = String::from_utf8(file.plain.to_vec()).unwrap();
        for word in ["eval(", "new Function", "setTimeout('", "document.write"] {
            assert!(!text.contains(word), "{}: {word}", file.name);
        }
    }
    let index = String::from_utf8(Assets::get().index.plain.to_vec()).unwrap();
    assert!(!index.contains("<style") && !index.contains(" style="), "inline style");
    assert!(!index.contains("javascript:") && !index.contains(" on"), "inline script");
    for script in index.split("<script").skip(1) {
        assert!(
            script.contains("src=\"assets/") && script.contains("></script>"),
            "inline script: {script:.60}"
        );
    }
    for (name, text) in own_scripts() {
        for word in
            [" style=", "<style", "innerHTML", "insertAdjacentHTML", "outerHTML", "setAttribute('style'"]
        {
            assert!(!text.contains(word), "{name}: {word}");
        }
        // Keys live in a cookie that no script can read.
        let stores = text.matches("localStorage").count();
        assert!(stores == 0 || ["app/lib.js", "app/theme.js"].contains(&name), "{name}: localStorage");
        assert!(!text.contains("sessionStorage") && !text.contains("document.cookie"), "{name}");
    }
}

#[test]
fn what_the_page_names_is_there() {
    let assets = Assets::get();
    let index = String::from_utf8(assets.index.plain.to_vec()).unwrap();
    let folder = format!("assets/{}/", assets.set);
    let named: Vec<&str> = index.split(&folder).skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for name in &named {
        assert!(assets.files.iter().any(|f| f.name == *name), "{name}");
    }
    assert!(assets.files.iter().all(|f| named.contains(&f.name)), "every file is named: {named:?}");
    // Imports lead from file to file.
    for file in assets.files.iter().filter(|f| f.name.contains('/')) {
        let text = String::from_utf8(file.plain.to_vec()).unwrap();
        let here = file.name.split('/').next().unwrap();
        for import in text.split("from'").chain(text.split("from '")).chain(text.split("from\"")).skip(1) {
            let Some(path) = import.split(['\'', '"']).next().filter(|p| p.ends_with(".js")) else {
                continue;
            };
            let target = match path.strip_prefix("../") {
                Some(rest) => rest.to_owned(),
                None => format!("{here}/{}", path.trim_start_matches("./")),
            };
            assert!(assets.files.iter().any(|f| f.name == target), "{}: {path}", file.name);
        }
    }
}

#[test]
fn vendored_files_are_those_that_were_noted() {
    let notes = include_str!("../dashboard/vendor/README.md");
    for file in Assets::get().files.iter().filter(|f| f.name.starts_with("vendor/")) {
        let digest: String = Sha512::digest(&file.plain).iter().map(|b| format!("{b:02x}")).collect();
        assert!(notes.contains(&digest), "{} is {digest}", file.name);
    }
}
