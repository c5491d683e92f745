//! What is answered while the data folder is opened? That the process is there, and that everything else has to
//! wait.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum_server::Handle;
use axum_server::accept::DefaultAcceptor;
use hyper_util::rt::TokioTimer;
use tower::make::Shared;

use super::problem::{Code, Problem};
use super::tls::Tls;

/// The place where requests wait.
#[derive(Debug)]
pub struct Hall {
    handle: Handle<SocketAddr>,
}

/// Answers on a listener until it is closed.
pub fn open(listener: TcpListener, tls: Option<&Tls>) -> io::Result<Hall> {
    listener.set_nonblocking(true)?;
    let handle = Handle::new();
    let mut server = axum_server::from_tcp(listener)?.handle(handle.clone());
    let http = server.http_builder();
    http.http1().timer(TokioTimer::new()).header_read_timeout(super::watch::HEAD_DEADLINE);
    http.http2().timer(TokioTimer::new());
    let answers = Shared::new(tower::service_fn(answer));
    match tls {
        Some(tls) => tokio::spawn(server.acceptor(tls.secure(DefaultAcceptor::new())).serve(answers)),
        None => tokio::spawn(server.serve(answers)),
    };
    Ok(Hall { handle })
}

impl Hall {
    /// Takes no more connections; those that are open are closed after their answer.
    pub fn close(self) {
        self.handle.graceful_shutdown(Some(Duration::from_secs(1)));
    }
}

async fn answer<B>(request: Request<B>) -> Result<Response, Infallible> {
    if request.uri().path() == "/livez" {
        return Ok(axum::Json(serde_json::json!({"status": "ok"})).into_response());
    }
    Ok(Problem::new(Code::Loading, "the data folder is being opened").into_response())
}
