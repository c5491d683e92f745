//! What is done with every request before and after its route? Who may ask, how much may come in and how long it
//! may take, on the way in; ids, times and headers on the way out. One service instead of a tower of ten, so that
//! a short question costs little more than its answer.

use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::FromRef;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use cadet::Result;
use tower::Service as _;

use super::body::{escaped, unknown_name};
use super::guard::{self, Caller, Denied};
use super::incoming::{self, Budget, Taken, collect};
use super::keys::{Keys, Role};
use super::problem::{Code, Problem};
use super::route_table::{Access, Methods, Operates, RouteTable};
use super::session::Sessions;
use super::watch::Watch;
use super::{App, api, pages};
use super::{cors, outgoing};
use crate::config::Config;
use crate::metrics::Requests;
use crate::service::Service;
use crate::serving::Serving;

/// Requests that are answered at once; more are refused.
pub const MOST_IN_FLIGHT: i64 = 512;
/// An answer takes so long at the most.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Waiting for the fold is part of an answer, so such a request may take a little longer than its wait.
const SLACK: Duration = Duration::from_millis(500);

/// Everything that requests go through.
#[derive(Debug)]
struct Gate {
    service: App,
    config: Config,
    keys: ArcSwap<Keys>,
    sessions: Sessions,
    table: RouteTable,
    document: Bytes,
    bodies: Budget,
    stopping: AtomicBool,
}

/// The service with its surface: answers requests, and is what routes are called with.
#[derive(Debug, Clone)]
pub struct Surface {
    gate: Arc<Gate>,
    router: Option<Router>,
    /// The connection that it answers on.
    watch: Option<Arc<Watch>>,
}

impl FromRef<Surface> for App {
    fn from_ref(surface: &Surface) -> App {
        Arc::clone(&surface.gate.service)
    }
}

impl Surface {
    /// Ready to answer.
    pub fn new(service: App, config: Config) -> Result<Self> {
        let keys = config.keys.as_ref().map(|keys| keys.read()).transpose()?.unwrap_or_default();
        let (router, document) = api().split_for_parts();
        let document = super::document::complete(document);
        let pages = if config.dashboard { pages() } else { Vec::new() };
        let pages = pages.into_iter().chain(super::always());
        let mut listed = Vec::new();
        let router = pages.fold(router, |router, (path, access, methods)| {
            listed.push((path, access));
            router.route(path, methods)
        });
        let gate = Arc::new(Gate {
            table: RouteTable::new(&document, &listed, service.metrics()),
            document: super::document::written(&document).to_string().into(),
            service,
            config,
            keys: ArcSwap::from_pointee(keys),
            sessions: Sessions::default(),
            bodies: Budget::default(),
            stopping: AtomicBool::new(false),
        });
        let state = Surface { gate: Arc::clone(&gate), router: None, watch: None };
        Ok(Surface { router: Some(router.with_state(state)), gate, watch: None })
    }

    /// The same for one connection.
    pub fn watched(&self, watch: Arc<Watch>) -> Self {
        Self { watch: Some(watch), ..self.clone() }
    }

    /// The service beneath.
    pub fn service(&self) -> &Arc<Service> {
        &self.gate.service
    }

    /// How it was started.
    pub fn config(&self) -> &Config {
        &self.gate.config
    }

    /// Who is logged in.
    pub fn sessions(&self) -> &Sessions {
        &self.gate.sessions
    }

    /// The description of the API.
    pub fn document(&self) -> Bytes {
        self.gate.document.clone()
    }

    /// Whether keys are asked for.
    pub fn has_keys(&self) -> bool {
        !self.gate.keys.load().is_empty()
    }

    /// Reads the keys again: how many there are. Where that fails, those of before stay.
    pub fn reload_keys(&self) -> Result<usize> {
        let Some(source) = &self.gate.config.keys else { return Ok(0) };
        let keys = source.read()?;
        let number = keys.len();
        self.gate.keys.store(Arc::new(keys));
        Ok(number)
    }

    /// From here on `/readyz` says that the service is going.
    pub fn stop(&self) {
        self.gate.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the service is going.
    pub fn is_stopping(&self) -> bool {
        self.gate.stopping.load(Ordering::Relaxed)
    }
}

impl<B> tower::Service<Request<B>> for Surface
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let surface = self.clone();
        Box::pin(async move { Ok(surface.answer(request).await) })
    }
}

impl Surface {
    async fn answer<B>(self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display,
    {
        let started = Instant::now();
        let is_http2 = request.version() == Version::HTTP_2;
        let _busy = self.watch.as_deref().map(|watch| watch.begin(is_http2));
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let page = cors::page(request.headers(), &self.gate.config.cors_origins);
        let id = outgoing::request_id(request.headers());
        let methods = self.gate.table.find(uri.path());
        let operates = methods.and_then(|methods| methods.find(&method));
        let before = self.gate.service.serving();
        let mut response = match (&page, methods) {
            (Some(_), Some(methods)) if cors::is_preflight(&request) => cors::preflight(methods),
            _ => {
                let result = self.admitted(request, methods, operates, before.as_deref(), &id).await;
                result.unwrap_or_else(IntoResponse::into_response)
            }
        };
        if let Some(problem) = response.extensions().get::<Box<Problem>>()
            && problem.code == Code::Internal
        {
            let request_id = id.to_str().unwrap_or_default();
            tracing::error!(request_id, path = methods.map(|m| m.path.as_str()), "{}", problem.detail);
        }
        outgoing::mend_problem(&mut response, uri.path(), &id).await;
        let is_api = uri.path().starts_with("/v1/");
        outgoing::add_headers(&mut response, &id, started, is_api);
        // What answered is the model of before the route was called only if that still answers.
        if let Some(before) = before
            && is_api
            && self.gate.service.serving().is_some_and(|after| Arc::ptr_eq(&before, &after))
        {
            outgoing::add_model(&mut response, &before.version);
        }
        if let Some(page) = page {
            cors::let_read(&mut response, page);
        }
        let (code, took) = (response.status().as_u16(), started.elapsed());
        match operates {
            Some(operates) => self.metrics().answered(&operates.seen, code, took),
            None => self.metrics().missed(code),
        }
        if self.gate.config.access_log {
            // A path that is not there may have ids in it, as those of other services do.
            let known = methods.map_or("unknown", |methods| methods.path.as_str());
            let path = if self.gate.config.log_ids { uri.to_string() } else { known.to_owned() };
            let (took, id) = (took.as_secs_f64(), id.to_str().unwrap_or_default());
            tracing::info!(%method, path, code, took, request_id = id, "answered");
        }
        response
    }

    fn metrics(&self) -> &Requests {
        self.gate.service.metrics().requests()
    }

    /// The answer to a request, if it may be asked.
    async fn admitted<B>(
        &self,
        request: Request<B>,
        methods: Option<&Methods>,
        operates: Option<&Operates>,
        serving: Option<&Serving>,
        id: &HeaderValue,
    ) -> Result<Response, Problem>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display,
    {
        let (mut parts, body) = request.into_parts();
        let (Some(methods), Some(operates)) = (methods, operates) else {
            return Err(nothing_there(&parts, methods));
        };
        let caller = self.admit(&parts, operates).map_err(|(reason, problem)| {
            self.metrics().denied(reason);
            *problem
        })?;
        check_query(&parts, operates)?;
        // Only what has arrived whole takes one of the places below: else a few hundred clients who send a byte now
        // and then would keep everybody out.
        let (body, _taken) = self.take(&mut parts, body).await?;
        let (_in_flight, number) = self.metrics().begin();
        // Probes are answered however much there is to do.
        let is_probe = matches!(operates.access, Access::Open) || methods.path == "/metrics";
        if number > MOST_IN_FLIGHT && !is_probe {
            self.metrics().shed("in_flight");
            let detail =
                format!("{MOST_IN_FLIGHT} requests are being answered already: try again in a moment");
            return Err(Problem::new(Code::Overloaded, detail));
        }
        let seq = self.gate.service.store().seq();
        let tag = serving.filter(|_| operates.is_question && parts.method.is_safe());
        let tag = tag.map(|serving| outgoing::tag(serving, seq, &parts.headers));
        if tag.as_ref().is_some_and(|tag| outgoing::has_tag(&parts.headers, tag)) {
            return Ok(outgoing::with_tag(StatusCode::NOT_MODIFIED.into_response(), tag));
        }
        let name = caller.name.clone();
        parts.extensions.insert(caller);
        let audit = (operates.access == Access::Role(Role::Admin)).then(|| Audit {
            key: name.as_deref().unwrap_or("none").to_owned(),
            act: operates.id.clone(),
            path: parts.uri.path().to_owned(),
            id: id.to_str().unwrap_or_default().to_owned(),
            code: 0,
        });
        let answer = self.call_route(parts, body, operates.may_write()).await;
        if let Some(mut audit) = audit {
            audit.code = answer.as_ref().map_or_else(|p| p.status, |r| r.status().as_u16());
        }
        Ok(outgoing::with_tag(answer?, tag))
    }

    fn admit(&self, parts: &Parts, operates: &Operates) -> Result<Caller, Denied> {
        let keys = self.gate.keys.load();
        let config = &self.gate.config;
        // Who lets everybody in and names hosts all the same wants these and no others.
        let any_host = config.insecure_no_auth && config.allowed_hosts.is_empty();
        if keys.is_empty() && operates.access != Access::Open && !any_host {
            guard::check_host(&parts.uri, &parts.headers, &config.allowed_hosts)?;
        }
        let caller = guard::admit(operates.access, &parts.headers, &keys, &self.gate.sessions)?;
        guard::check_origin(&parts.method, &parts.uri, &parts.headers, &config.cors_origins)?;
        Ok(caller)
    }

    /// The whole body of a request, of a kind that is read here.
    async fn take<B>(&self, parts: &mut Parts, body: B) -> Result<(Bytes, Option<Taken<'_>>), Problem>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display,
    {
        if body.is_end_stream() {
            incoming::check_kind(parts, &Bytes::new())?;
            return Ok((Bytes::new(), None));
        }
        let collected = collect(body, &mut parts.headers, &self.gate.bodies).await;
        let (body, taken) = collected.inspect_err(|problem| {
            if problem.code == Code::Overloaded {
                self.metrics().shed("bodies");
            }
        })?;
        incoming::check_kind(parts, &body)?;
        Ok((body, Some(taken)))
    }

    async fn call_route(&self, parts: Parts, body: Bytes, writes: bool) -> Result<Response, Problem> {
        let Some(mut router) = self.router.clone() else {
            return Err(Problem::new(Code::Internal, "there are no routes"));
        };
        let body = if body.is_empty() { Body::empty() } else { Body::from(body) };
        let deadline = if waits(&parts) { ANSWER_DEADLINE + SLACK } else { ANSWER_DEADLINE };
        let answer = uncaught(router.call(Request::from_parts(parts, body)));
        match tokio::time::timeout(deadline, answer).await {
            Ok(Some(Ok(response))) => Ok(response),
            Ok(Some(Err(never))) => match never {},
            Ok(None) => Err(Problem::new(Code::Internal, "the answer could not be worked out")),
            Err(_) => {
                self.metrics().shed("deadline");
                let detail = match writes {
                    // What waits for the disk goes on without its caller.
                    true => {
                        "the disk took longer than 10 s: it may have been written all the same. Send it again with \
                         the same event ids or the same Idempotency-Key"
                    }
                    false => "the answer took longer than 10 s: ask for less, or try again in a moment",
                };
                Err(Problem::new(Code::Overloaded, detail))
            }
        }
    }
}

/// Refuses names in a query that its route does not know: what they ask for would be passed over.
fn check_query(parts: &Parts, operates: &Operates) -> Result<(), Problem> {
    let (Some(known), Some(query)) = (&operates.query, parts.uri.query()) else { return Ok(()) };
    let names = query.split('&').filter(|part| !part.is_empty());
    let mut names = names.map(|part| part.split_once('=').map_or(part, |(name, _)| name));
    let Some(name) = names.find(|name| !known.iter().any(|known| known == name)) else { return Ok(()) };
    let detail = unknown_name("parameter", name, known.iter().map(String::as_str));
    let mut problem = Problem::invalid(format!("query/{}", escaped(name)), detail);
    problem.errors.iter_mut().for_each(|fault| fault.code = "unknown_field".to_owned());
    Err(problem)
}

/// An act of an admin. It stands in the log also where its caller hung up meanwhile: then with the code 0.
struct Audit {
    key: String,
    act: String,
    path: String,
    id: String,
    code: u16,
}

impl Drop for Audit {
    fn drop(&mut self) {
        let Self { key, act, path, id, code } = self;
        tracing::info!(target: "audit", key, act, path, code, request_id = id, "admin");
    }
}

/// What a route answers, unless it panics.
async fn uncaught<T>(answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// Whether a request waits for something on purpose.
fn waits(parts: &Parts) -> bool {
    parts.uri.query().is_some_and(|query| query.contains("wait="))
}

fn nothing_there(parts: &Parts, methods: Option<&Methods>) -> Problem {
    match methods {
        None => Problem::new(Code::NotFound, "there is no such path: /openapi.json lists what there is"),
        Some(methods) => {
            let detail = format!("{} is not allowed here: {} is", parts.method, methods.allow);
            Problem {
                allow: Some(methods.allow.as_str().into()),
                ..Problem::new(Code::MethodNotAllowed, detail)
            }
        }
    }
}
