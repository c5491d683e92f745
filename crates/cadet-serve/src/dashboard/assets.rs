//! The files of the page: in the binary, under a path that changes with them, so browsers keep them for ever.

use std::io::Write;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::http::{Code, Problem};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const SHEET: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const INDEX: &str = include_str!("../../dashboard/index.html");

macro_rules! files {
    ($($kind:ident $name:literal),* $(,)?) => {
        [$(($name, $kind, include_str!(concat!("../../dashboard/", $name)))),*]
    };
}

/// Name, kind and text of every file; imports between them are relative.
const FILES: [(&str, &str, &str); 18] = files![
    SHEET "app.css",
    SCRIPT "app/theme.js",
    SCRIPT "app/app.js",
    SCRIPT "app/lib.js",
    SCRIPT "app/parts.js",
    SCRIPT "app/draw.js",
    SCRIPT "app/metrics.js",
    SCRIPT "app/overview.js",
    SCRIPT "app/items.js",
    SCRIPT "app/item.js",
    SCRIPT "app/user.js",
    SCRIPT "app/rerank.js",
    SCRIPT "app/models.js",
    SCRIPT "app/ingest.js",
    SCRIPT "app/api.js",
    SCRIPT "vendor/preact.js",
    SCRIPT "vendor/hooks.js",
    SCRIPT "vendor/htm.js",
];

/// A file as it is sent.
#[derive(Debug)]
pub struct File {
    /// Its name, as the page asks for it.
    pub name: &'static str,
    /// Its bytes.
    pub plain: Bytes,
    /// The same for who reads gzip.
    pub gzip: Bytes,
    kind: &'static str,
    tag: String,
}

/// All files, and the name of this set of them.
#[derive(Debug)]
pub struct Assets {
    /// The first letters of the hash of them all.
    pub set: String,
    /// The page itself.
    pub index: File,
    /// What it loads.
    pub files: Vec<File>,
}

impl Assets {
    /// The files of this program, packed once.
    pub fn get() -> &'static Self {
        static ASSETS: OnceLock<Assets> = OnceLock::new();
        ASSETS.get_or_init(Self::pack)
    }

    fn pack() -> Self {
        let drawn = [("chart.css", SHEET, cadet_plot::sheet()), ("tips.js", SCRIPT, cadet_plot::tips())];
        let all: Vec<(&str, &str, &str)> = FILES.into_iter().chain(drawn).collect();
        let hash = all.iter().fold(Sha256::new_with_prefix(INDEX), |hash, (name, _, text)| {
            hash.chain_update(name).chain_update([0]).chain_update(text).chain_update([0])
        });
        let set: String = hash.finalize().iter().take(6).map(|b| format!("{b:02x}")).collect();
        // Modules are asked for at once instead of one after the other, as each names the next.
        let module = |name: &str| format!("<link rel=\"modulepreload\" href=\"assets/{set}/{name}\">");
        let is_module = |name: &str| name.ends_with(".js") && name.contains('/') && name != "app/theme.js";
        let preload: Vec<String> = all.iter().filter(|f| is_module(f.0)).map(|f| module(f.0)).collect();
        let index = INDEX.replace("SET", &set).replace("PRELOAD", &preload.join("\n"));
        Self {
            index: File::pack("", HTML, &index),
            files: all.into_iter().map(|(name, kind, text)| File::pack(name, kind, text)).collect(),
            set,
        }
    }
}

impl File {
    fn pack(name: &'static str, kind: &'static str, text: &str) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail; if it did, the file would go out as it is.
        let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
        let digest = Sha256::digest(text.as_bytes());
        let tag: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let plain = Bytes::copy_from_slice(text.as_bytes());
        Self { name, plain, gzip: packed.into(), kind, tag: format!("\"{tag}\"") }
    }

    fn answer(&self, asked: &HeaderMap, keep: &'static str) -> Response {
        let has = |name, what: &str| {
            let values = asked.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|line| line.split(',')).any(|part| {
                let mut part = part.trim().split(';');
                part.next() == Some(what) && part.all(|p| p.trim() != "q=0")
            })
        };
        let mut headers = HeaderMap::new();
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, self.kind);
        set(header::CACHE_CONTROL, keep);
        set(header::ETAG, &self.tag);
        set(header::VARY, "accept-encoding");
        if has(header::IF_NONE_MATCH, &self.tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        if has(header::ACCEPT_ENCODING, "gzip") && !self.gzip.is_empty() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return (headers, self.gzip.clone()).into_response();
        }
        (headers, self.plain.clone()).into_response()
    }
}

/// The page.
pub async fn index(asked: HeaderMap) -> Response {
    Assets::get().index.answer(&asked, "no-cache")
}

/// A file of the page.
pub async fn file(Path((set, name)): Path<(String, String)>, asked: HeaderMap) -> Result<Response, Problem> {
    let assets = Assets::get();
    let found = assets.files.iter().find(|file| set == assets.set && file.name == name);
    let nothing = || Problem::new(Code::NotFound, "the page has no such file any more: load the page again");
    Ok(found.ok_or_else(nothing)?.answer(&asked, "public, max-age=31536000, immutable"))
}
