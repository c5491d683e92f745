//! How does the service live, from its start to its end? The port is bound first, so that probes are answered while
//! the data folder is opened; then questions are; then, on SIGTERM or Ctrl-C, what is under way ends.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadet::{Error, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::config::Config;
use crate::http::tls::Tls;
use crate::http::{Surface, hall, server};
use crate::service::Service;

/// Serves a data folder until it is told to stop. `listening` is told the address.
pub fn run(folder: &Path, config: Config, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let refused = |e: std::io::Error| match e.kind() {
        ErrorKind::AddrInUse => {
            let why =
                format!("{} is taken by another program, or by another cadet: choose another", config.listen);
            Error::config("listen", why)
        }
        _ => Error::io(config.listen.to_string(), e),
    };
    // Keys that cannot be read are told before anything is opened.
    config.keys.as_ref().map(|keys| keys.read()).transpose()?;
    let tls = config.tls.as_ref().map(Tls::read).transpose()?;
    let listener = TcpListener::bind(config.listen).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::io("threads", e))?;
    listening(address);
    let ended = runtime.block_on(live(folder.to_owned(), config, tls, listener));
    // Nobody waits for the answers of what is still at work.
    runtime.shutdown_background();
    ended
}

async fn live(folder: PathBuf, config: Config, tls: Option<Tls>, listener: TcpListener) -> Result<()> {
    let failed = |e| Error::io(&folder, e);
    let mut stop = stop_signal().map_err(failed)?;
    // From the beginning on, for it ends a process that does not listen to it; what comes early is done once it can be.
    let hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let hall = hall::open(listener.try_clone().map_err(failed)?, tls.as_ref()).map_err(failed)?;
    let opening = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || Service::open(&folder)
    });
    let service = tokio::select! {
        opened = opening => opened.map_err(|e| failed(std::io::Error::other(e)))??,
        _ = stop.changed() => return Ok(()),
    };
    let surface = Surface::new(Arc::clone(&service), config)?;
    reload_on(hangup, &surface, tls.clone());
    // Whoever asks from now on asks the service, which says itself whether its model is there.
    hall.close();
    let told = async move {
        // The other end lives as long as the process.
        let _ = stop.changed().await;
        tracing::info!("stopping: what is under way has 10 s to end");
    };
    server::serve(listener, surface, tls.as_ref(), told).await.map_err(failed)?;
    let closed = tokio::task::spawn_blocking(move || service.stop()).await;
    closed.map_err(|e| failed(std::io::Error::other(e)))?
}

/// Changes once the service is told to stop.
fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    let (told, stop) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = told.send(true);
        // A second one ends the process at once, as it would without this.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(stop)
}

/// Reads keys and certificate again at every signal.
fn reload_on(mut hangup: Signal, surface: &Surface, tls: Option<Tls>) {
    let surface = surface.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match surface.reload_keys() {
                Ok(keys) => tracing::info!(keys, "keys were read again"),
                Err(error) => tracing::error!(%error, "keys could not be read again: those of before stay"),
            }
            match tls.as_ref().map(Tls::reload) {
                None => {}
                Some(Ok(())) => tracing::info!("the certificate was read again"),
                Some(Err(error)) => {
                    tracing::error!(%error, "the certificate could not be read again: that of before stays");
                }
            }
        }
    });
}
