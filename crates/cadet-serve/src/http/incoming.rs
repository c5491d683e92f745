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
/// All bodies that are read and not yet answered have so many bytes together, beyond what is free of each.
const ALL_BODIES: usize = 256 << 20;
/// So much of a body is counted apart: who asks for little is let in whatever large bodies there are.
const FREE: usize = 64 << 10;
/// These parts of all bodies have so many bytes together.
const ALL_FREE: usize = 128 << 20;
/// A body that is refused is read on to here, and forgotten: an answer that comes before the end of a body is lost
/// with the connection, and who is told to come again should hear it.
const MOST_DRAINED: usize = 64 << 20;

/// Room for bodies.
#[derive(Debug, Default)]
pub struct Budget {
    large: AtomicUsize,
    free: AtomicUsize,
}

/// Room that one body takes, given back when it is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    budget: &'a Budget,
    length: usize,
    free: usize,
    large: usize,
}

impl<'a> Taken<'a> {
    fn new(budget: &'a Budget) -> Self {
        Self { budget, length: 0, free: 0, large: 0 }
    }

    fn more(&mut self, bytes: usize) -> Result<(), Problem> {
        self.length += bytes;
        let add = |all: &AtomicUsize, more: usize, most: usize| {
            more == 0 || all.fetch_add(more, Ordering::Relaxed) + more <= most
        };
        let free = self.length.min(FREE) - self.free;
        let large = self.length.saturating_sub(FREE) - self.large;
        (self.free, self.large) = (self.free + free, self.large + large);
        let fits = add(&self.budget.free, free, ALL_FREE);
        if add(&self.budget.large, large, ALL_BODIES) && fits {
            return Ok(());
        }
        Err(Problem::new(Code::Overloaded, "too many bodies arrive at once: try again in a moment"))
    }

    fn give_back(&mut self) {
        self.budget.free.fetch_sub(std::mem::take(&mut self.free), Ordering::Relaxed);
        self.budget.large.fetch_sub(std::mem::take(&mut self.large), Ordering::Relaxed);
        self.length = 0;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn too_large() -> Problem {
    let detail = format!("a body has {LONGEST_BODY} bytes at the most, after unpacking: send it in parts");
    Problem::new(Code::BodyTooLarge, detail)
}

/// The whole body of a request, unpacked, and the room that it takes as long as it is there.
pub async fn collect<'b, B>(
    body: B,
    headers: &mut HeaderMap,
    budget: &'b Budget,
) -> Result<(Bytes, Taken<'b>), Problem>
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > MOST_DRAINED as u64 {
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
    let (bytes, taken) = read.map_err(|_| {
        let detail = format!("the body did not arrive within {} s", BODY_DEADLINE.as_secs());
        Problem::new(Code::RequestTimeout, detail)
    })??;
    if !is_packed {
        return Ok((bytes, taken));
    }
    headers.remove(header::CONTENT_ENCODING);
    unpack(&bytes, budget)
}

async fn read<B>(mut body: B, budget: &Budget) -> Result<(Bytes, Taken<'_>), Problem>
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    let mut taken = Taken::new(budget);
    let mut first: Option<Bytes> = None;
    let mut all: Vec<u8> = Vec::new();
    let (mut length, mut refused) = (0, None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Problem::new(Code::NotJson, format!("the body broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if refused.is_none() {
            let room = if length > LONGEST_BODY { Err(too_large()) } else { taken.more(data.len()) };
            refused = room.err();
        }
        if refused.is_some() {
            (first, all) = (None, Vec::new());
            taken.give_back();
            if length > MOST_DRAINED {
                break;
            }
            continue;
        }
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
    match refused {
        Some(problem) => Err(problem),
        None => Ok((first.unwrap_or_else(|| all.into()), taken)),
    }
}

fn unpack<'b>(bytes: &[u8], budget: &'b Budget) -> Result<(Bytes, Taken<'b>), Problem> {
    let mut taken = Taken::new(budget);
    let mut reader = MultiGzDecoder::new(bytes);
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let n = reader.read(&mut piece).map_err(|e| {
            Problem::new(Code::NotJson, format!("the body is not gzip, though content-encoding says so: {e}"))
        })?;
        if n == 0 {
            return Ok((all.into(), taken));
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
        assert_eq!(&unpack(&packed(b"[1]"), &budget).unwrap().0[..], b"[1]");
        let fits = packed(&vec![b' '; LONGEST_BODY]);
        let (body, taken) = unpack(&fits, &budget).unwrap();
        assert_eq!(body.len(), LONGEST_BODY);
        assert_eq!(budget.large.load(Ordering::Relaxed), LONGEST_BODY - FREE);
        assert_eq!(budget.free.load(Ordering::Relaxed), FREE);
        drop(taken);
        let bomb = packed(&vec![0; LONGEST_BODY + 1]);
        assert_eq!(unpack(&bomb, &budget).unwrap_err().code, Code::BodyTooLarge);
        assert_eq!(unpack(b"no gzip", &budget).unwrap_err().code, Code::NotJson);
        assert_eq!((budget.large.load(Ordering::Relaxed), budget.free.load(Ordering::Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones_and_are_told_when_they_end() {
        let budget = Budget::default();
        let body = |bytes: usize| http_body_util::Full::new(Bytes::from(vec![b' '; bytes]));
        let mut held = Vec::new();
        let refused = loop {
            match read(body(LONGEST_BODY), &budget).await {
                Ok(one) => held.push(one),
                Err(problem) => break problem,
            }
        };
        assert_eq!((refused.code, held.len()), (Code::Overloaded, ALL_BODIES / (LONGEST_BODY - FREE)));
        assert_eq!(read(body(FREE), &budget).await.unwrap().0.len(), FREE);
        drop(held);
        assert_eq!(read(body(LONGEST_BODY + 1), &budget).await.unwrap_err().code, Code::BodyTooLarge);
        assert!(read(body(LONGEST_BODY), &budget).await.is_ok());
        assert_eq!((budget.large.load(Ordering::Relaxed), budget.free.load(Ordering::Relaxed)), (0, 0));
    }
}
