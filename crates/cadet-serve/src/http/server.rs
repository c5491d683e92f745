//! Who is listened to, and for how long? The listener: connections are counted and watched, and a stop lets what
//! is under way end.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::Handle;
use axum_server::accept::Accept;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::surface::Surface;
use super::tls::Tls;
use super::watch::{Watch, Watched};

/// So many connections are open at once; more are closed unheard.
pub const MOST_CONNECTIONS: usize = 1_024;
/// What is under way when the service is stopped has so long to end.
pub const DRAIN: Duration = Duration::from_secs(10);
/// The head of a request has so many bytes at the most.
const LONGEST_HEAD: usize = 16 << 10;
/// Requests that one HTTP/2 connection has under way at once.
const MOST_STREAMS: u32 = 128;
/// Requests that one HTTP/2 connection may take back before they are answered, before it is closed.
const MOST_RESETS: usize = 20;

/// Answers requests until `stop` ends, and what is under way then for ten seconds more.
pub async fn serve(
    listener: TcpListener,
    surface: Surface,
    tls: Option<&Tls>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let handle = Handle::<SocketAddr>::new();
    let mut server = axum_server::from_tcp(listener)?.handle(handle.clone());
    let http = server.http_builder();
    // hyper's own deadline for heads runs while a connection is idle, too, so it cannot be ten seconds where an
    // idle connection is kept for 75: `Watched` tells the two apart.
    http.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(LONGEST_HEAD);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_RESETS)
        .max_header_list_size(LONGEST_HEAD as u32);
    let stopped = surface.clone();
    let stopping = tokio::spawn(async move {
        stop.await;
        stopped.stop();
        handle.graceful_shutdown(Some(DRAIN));
    });
    let acceptor = Doorkeeper { room: Arc::new(Semaphore::new(MOST_CONNECTIONS)) };
    let ended = match tls {
        Some(tls) => server.acceptor(tls.secure(acceptor)).serve(Connections(surface)).await,
        None => server.acceptor(acceptor).serve(Connections(surface)).await,
    };
    stopping.abort();
    ended
}

/// Lets connections in while there is room.
#[derive(Debug, Clone)]
struct Doorkeeper {
    room: Arc<Semaphore>,
}

impl Accept<TcpStream, Surface> for Doorkeeper {
    type Stream = Watched;
    type Service = Surface;
    type Future = std::future::Ready<io::Result<(Watched, Surface)>>;

    fn accept(&self, stream: TcpStream, surface: Surface) -> Self::Future {
        std::future::ready(self.let_in(stream, surface))
    }
}

impl Doorkeeper {
    fn let_in(&self, stream: TcpStream, surface: Surface) -> io::Result<(Watched, Surface)> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            surface.service().metrics().requests().shed("connections");
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        stream.set_nodelay(true)?;
        let watch = Arc::new(Watch::default());
        let watched = Watched::new(stream, Arc::clone(&watch), Arc::clone(surface.service()), permit);
        Ok((watched, surface.watched(watch)))
    }
}

/// A surface for every connection.
#[derive(Debug)]
struct Connections(Surface);

impl tower::Service<SocketAddr> for Connections {
    type Response = Surface;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Surface>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: SocketAddr) -> Self::Future {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}
