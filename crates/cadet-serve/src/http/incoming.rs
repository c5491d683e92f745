//! How much may come in, and how fast? A body is read whole before its route is called: at most 8 MiB of it after
//! unpacking, within 30 seconds, and not more of all bodies together than there is room for.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;

use super::problem::{Code, Problem};

/// A body has so many bytes at the most, after unpacking.
pub const LONGEST_BODY: usize = 8 << 20;
/// A body arrives within this time.
pub const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// All bodies that are being read have so many bytes together.
const ALL_BODIES: usize = 256 << 20;

/// Room for bodies that are being read.
#[derive(Debug, Default)]
pub struct Budget(AtomicUsize);

/// Room that one body takes, given back when it is dropped.
struct Taken<'a>(&'a Budget, usize);

impl Taken<'_> {
    fn more(&mut self, bytes: usize) -> Result<(), Problem> {
        self.1 += bytes;
        if self.0.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= ALL_BODIES {
            return Ok(());
        }
        Err(Problem::new(Code::Overloaded, "too many large bodies arrive at once: try again in a moment"))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

fn too_large() -> Problem {
    let detail = format!("a body has {LONGEST_BODY} bytes at the most, after unpacking: send it in parts");
    Problem::new(Code::BodyTooLarge, detail)
}

/// The whole body of a request, unpacked.
pub async fn collect<B>(body: B, headers: &mut HeaderMap, budget: &Budget) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > LONGEST_BODY as u64 {
        return Err(too_large());
    }
    let is_packed = match headers.get(header::CONTENT_ENCODING).map(|v| v.as_bytes().to_ascii_lowercase()) {
        None => false,
        Some(encoding) if encoding == b"identity" => false,
        Some(encoding) if encoding == b"gzip" => true,
        Some(_) => {
            let detail = "only gzip is unpacked: send the body plain or as gzip";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
    };
    let read = tokio::time::timeout(BODY_DEADLINE, read(body, budget)).await;
    let bytes = read.map_err(|_| {
        let detail = format!("the body did not arrive within {} s", BODY_DEADLINE.as_secs());
        Problem::new(Code::RequestTimeout, detail)
    })??;
    if !is_packed {
        return Ok(bytes);
    }
    headers.remove(header::CONTENT_ENCODING);
    unpack(&bytes, budget)
}

async fn read<B>(mut body: B, budget: &Budget) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    let mut taken = Taken(budget, 0);
    let mut first: Option<Bytes> = None;
    let mut all: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Problem::new(Code::NotJson, format!("the body broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.as_ref().map_or(all.len(), Bytes::len) + data.len() > LONGEST_BODY {
            return Err(too_large());
        }
        taken.more(data.len())?;
        // Most bodies come in one piece, which needs no copy.
        match first.take() {
            None if all.is_empty() => first = Some(data),
            Some(before) => {
                all.reserve((before.len() + data.len()).max(body.size_hint().lower() as usize));
                all.extend_from_slice(&before);
                all.extend_from_slice(&data);
            }
            None => all.extend_from_slice(&data),
        }
    }
    Ok(first.unwrap_or_else(|| all.into()))
}

fn unpack(bytes: &[u8], budget: &Budget) -> Result<Bytes, Problem> {
    let mut taken = Taken(budget, 0);
    let mut reader = MultiGzDecoder::new(bytes);
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let n = reader.read(&mut piece).map_err(|e| {
            Problem::new(Code::NotJson, format!("the body is not gzip, though content-encoding says so: {e}"))
        })?;
        if n == 0 {
            return Ok(all.into());
        }
        if all.len() + n > LONGEST_BODY {
            return Err(too_large());
        }
        taken.more(n)?;
        all.extend_from_slice(&piece[..n]);
    }
}

/// Kinds of bodies that are read somewhere. None of them can be sent by a form of another page unasked.
const KINDS: [&str; 4] = ["application/json", "application/x-ndjson", "application/ndjson", "text/csv"];

/// What a body is, without parameters.
pub fn kind(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    kind.split(';').next().unwrap_or("").trim()
}

/// Refuses bodies of kinds that nothing here reads.
pub fn check_kind(parts: &Parts, body: &Bytes) -> Result<(), Problem> {
    if parts.method.is_safe() {
        return Ok(());
    }
    let kind = kind(&parts.headers);
    let is_said = parts.headers.contains_key(header::CONTENT_TYPE);
    if (body.is_empty() && !is_said) || KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let detail = format!("the body must be application/json (see /openapi.json for others), found {kind:?}");
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_unpacked_is_counted_and_given_back() {
        let budget = Budget::default();
        assert_eq!(&unpack(&packed(b"[1]"), &budget).unwrap()[..], b"[1]");
        let fits = packed(&vec![b' '; LONGEST_BODY]);
        assert_eq!(unpack(&fits, &budget).unwrap().len(), LONGEST_BODY);
        let bomb = packed(&vec![0; LONGEST_BODY + 1]);
        assert_eq!(unpack(&bomb, &budget).unwrap_err().code, Code::BodyTooLarge);
        assert_eq!(unpack(b"no gzip", &budget).unwrap_err().code, Code::NotJson);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
