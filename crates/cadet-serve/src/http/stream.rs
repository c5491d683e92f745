//! How is a long answer written while it is sent? A part whenever the client took the one before. There are few of
//! them at once, and one that nobody reads ends: each holds a model and a list.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;

use super::problem::{Code, Problem};
use super::table::{self, Format, Line};
use crate::condition::lock;
use crate::service::Service;

/// Rows of a part.
const PIECE: usize = 512;
/// So many are looked at for a part: where most are left out, other work comes in between.
const LOOKED_AT: usize = 4 * PIECE;
/// A stream ends after this at the latest,
const LONGEST: Duration = Duration::from_secs(300);
/// or when nobody took a part for so long.
const IDLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(2);

/// What comes next in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A row was written.
    Row,
    /// What would have come is left out.
    LeftOut,
    /// Nothing.
    End,
}

type Source = Box<dyn FnMut(&mut Vec<u8>) -> Next + Send>;

struct Held {
    source: Option<Source>,
    moved: Instant,
}

/// The body of an answer that is written while it is sent.
struct Stream {
    held: Arc<Mutex<Held>>,
    is_watched: bool,
}

/// Why a stream broke off.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not read in time")]
struct TooSlow;

/// An answer whose rows `next` writes one at a time, after the names of the columns.
pub fn rows<L: Line>(
    app: &Service,
    format: Format,
    mut next: impl FnMut(&mut Vec<u8>) -> Next + Send + 'static,
) -> Result<Body, Problem> {
    let permit = Arc::clone(&app.streams).try_acquire_owned().map_err(|_| {
        app.metrics().requests().shed("streams");
        Problem::new(Code::Overloaded, "too many long answers are being sent already: try again in a moment")
    })?;
    let mut is_first = true;
    let source: Source = Box::new(move |out| {
        let _held = &permit;
        if std::mem::take(&mut is_first) {
            table::header::<L>(out, format);
        }
        next(out)
    });
    let held = Held { source: Some(source), moved: Instant::now() };
    Ok(Body::new(Stream { held: Arc::new(Mutex::new(held)), is_watched: false }))
}

/// Lets go of what a stream holds once it takes too long.
async fn watch(held: Weak<Mutex<Held>>) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(held) = held.upgrade() else { return };
        let mut held = lock(&held);
        if begun.elapsed() > LONGEST || held.moved.elapsed() > IDLE {
            held.source = None;
            return;
        }
    }
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        // Made on a thread without a runtime, sent on one with.
        if !std::mem::replace(&mut self.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.held)));
        }
        let mut held = lock(&self.held);
        held.moved = Instant::now();
        let Some(source) = held.source.as_mut() else { return Poll::Ready(Some(Err(TooSlow))) };
        let (mut out, mut rows, mut ended) = (Vec::with_capacity(128 * PIECE), 0, false);
        for _ in 0..LOOKED_AT {
            match source(&mut out) {
                Next::Row => rows += 1,
                Next::LeftOut => {}
                Next::End => ended = true,
            }
            if ended || rows == PIECE {
                break;
            }
        }
        if ended {
            // What it held is let go with the last part, not when the client has read it.
            held.source = Some(Box::new(|_| Next::End));
        }
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(out.into()))));
        }
        if ended {
            return Poll::Ready(None);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
