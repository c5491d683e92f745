//! Is a connection worth keeping? A stream that gives up on clients who take too long: to say what they want
//! (10 s), to ask again (75 s), or to read their answer (30 s for each 64 KiB of it).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use crate::service::Service;

/// The head of a request arrives within this time.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// A connection may be idle for so long.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// An answer that waits for its client moves on by `LEAST` within this time.
const STALLED: Duration = Duration::from_secs(30);
/// So many bytes are a move: who takes a few now and then would keep an answer in memory for ever.
const LEAST: usize = 64 << 10;

/// What is known of a connection by those who answer on it.
#[derive(Debug, Default)]
pub struct Watch {
    active: AtomicU32,
    requests: AtomicU64,
    /// What TLS was agreed on cannot be told from the bytes beneath it, but from the requests.
    is_http2: AtomicBool,
}

impl Watch {
    /// A request is being answered until this is dropped.
    pub fn begin(&self, is_http2: bool) -> Answering<'_> {
        self.is_http2.fetch_or(is_http2, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Answering(self)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Answering<'a>(&'a Watch);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection whose client must not take too long.
#[derive(Debug)]
pub struct Watched {
    stream: TcpStream,
    watch: Arc<Watch>,
    /// Requests that were begun when this was last looked at.
    requests: u64,
    /// When the first byte of the head came that is being read.
    head: Option<Instant>,
    /// When something was last read of a request or written of an answer.
    moved: Instant,
    /// Since when an answer waits for its client, and how many bytes went since.
    stalled: Option<(Instant, usize)>,
    /// HTTP/2 talks between requests, so bytes are no heads there.
    is_http2: Option<bool>,
    alarm: Pin<Box<Sleep>>,
    service: Arc<Service>,
    _permit: OwnedSemaphorePermit,
}

impl Watched {
    /// Watches a connection; the permit is given back when it closes.
    pub fn new(
        stream: TcpStream,
        watch: Arc<Watch>,
        service: Arc<Service>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        service.metrics().requests().connections(1);
        let moved = Instant::now();
        Self {
            stream,
            watch,
            requests: 0,
            // From the beginning on: who says nothing at all wants nothing.
            head: Some(moved),
            moved,
            stalled: None,
            is_http2: None,
            alarm: Box::pin(tokio::time::sleep(HEAD_DEADLINE)),
            service,
            _permit: permit,
        }
    }

    /// When this client has taken too long, as things are.
    fn deadline(&mut self) -> Option<Instant> {
        if let Some((since, _)) = self.stalled {
            return Some(since + STALLED);
        }
        let requests = self.watch.requests.load(Ordering::Relaxed);
        if requests != self.requests {
            (self.requests, self.head, self.moved) = (requests, None, Instant::now());
        }
        if requests > 0 && self.watch.is_http2.load(Ordering::Relaxed) {
            self.head = None;
        }
        if self.watch.active.load(Ordering::Relaxed) > 0 {
            // Bodies and answers have deadlines of their own.
            self.moved = Instant::now();
            return None;
        }
        Some(self.head.map_or(self.moved + KEEP_ALIVE, |since| since + HEAD_DEADLINE))
    }

    /// An error if this client has taken too long; else this is woken when it will have.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let now = Instant::now();
        loop {
            let deadline = self.deadline();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Looked at again then, even if nothing is due: what is under way may end unheard.
            let wake = deadline.unwrap_or(now + HEAD_DEADLINE);
            if self.alarm.deadline().into_std() > wake || self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(wake.into());
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.is_http2.is_none() {
            self.is_http2 = Some(bytes.starts_with(b"PRI"));
        }
        if self.watch.is_http2.load(Ordering::Relaxed) {
            self.is_http2 = Some(true);
        }
        let is_idle = self.watch.active.load(Ordering::Relaxed) == 0;
        if is_idle && self.head.is_none() && self.is_http2 == Some(false) {
            self.head = Some(Instant::now());
        }
    }

    fn wrote(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            self.moved = Instant::now();
            if let (Some((_, taken)), Ok(bytes)) = (&mut self.stalled, result) {
                *taken += bytes;
            }
            self.stalled = self.stalled.filter(|(_, taken)| *taken < LEAST);
            return written;
        }
        self.stalled.get_or_insert_with(|| (Instant::now(), 0));
        self.check(cx)?;
        Poll::Pending
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.service.metrics().requests().connections(-1);
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf)?;
        if read.is_ready() {
            // A request that was begun since ends the head before it.
            let _ = self.deadline();
            if buf.filled().len() > before {
                self.read(&buf.filled()[before..]);
            }
            return Poll::Ready(Ok(()));
        }
        self.check(cx)?;
        Poll::Pending
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All of the answer has gone.
        self.stalled = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
