//! `cadet serve`: answers questions over HTTP, and keeps what users were shown.

use anyhow::Result;
use cadet_serve::config::{Config, Given};

use crate::args::Serve;
use crate::settings::{self, Usage};

pub(crate) fn run(args: &Serve) -> Result<()> {
    if !args.folder.is_dir() {
        let dir = args.folder.display();
        let what = format!(
            "{dir}: no such folder: `cadet train LOG --into {dir}` makes one with a model of your log, `cadet demo --into {dir}` one to try"
        );
        return Err(Usage(what).into());
    }
    let config = Config::resolve(typed(args).or(Given::of_environment(environment())?).or(written(args)?))?;
    let has_keys = config.keys.is_some();
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    cadet_serve::run::run(&args.folder, config, |address| {
        tracing::info!("dashboard and API: {scheme}://{address}");
        if !has_keys {
            tracing::info!("without keys: everybody who reaches {address} may do everything");
        }
    })?;
    Ok(())
}

fn typed(args: &Serve) -> Given {
    let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let flag = |flag: bool| flag.then_some(true);
    Given {
        listen: args.listen.clone(),
        keys: args.keys.clone(),
        tls_cert: args.tls_cert.clone(),
        tls_key: args.tls_key.clone(),
        insecure_no_auth: flag(args.insecure_no_auth),
        allowed_host: list(&args.allowed_host),
        cors_origin: list(&args.cors_origin),
        log_ids: flag(args.log_ids),
        access_log: flag(args.access_log),
        no_dashboard: flag(args.no_dashboard),
    }
}

/// Variables with names and values of text; others are none of ours.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The table `[serve]` of the settings file.
fn written(args: &Serve) -> Result<Given> {
    let (path, table) = settings::serve_table(args.config.as_deref())?;
    let Some(table) = table else { return Ok(Given::default()) };
    serde_json::from_value(table).map_err(|e| Usage(format!("{}: [serve]: {e}", path.display())).into())
}
