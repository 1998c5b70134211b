//! `tealight report DIR`: the report of an evaluation again; `--serve`: a run while it goes, on this
//! machine's own address only.

use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Wild, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use clap::Args;
use futures_util::stream;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tealight_datasets::json_file::{self, JsonFileError};
use tealight_datasets::{names, regular};
use tealight_eval::report::{self, Live, Study, TasksStudy};
use tealight_eval::results::{MAX_RESULTS, Results};

use super::show::STUDY_SAMPLES;
use crate::app::directory::as_argument;
use crate::app::verdicts::asks_this_machine;
use crate::system::range::at_least;
use crate::system::stop::Stop;
use crate::system::telemetry::print;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct ReportOptions {
    /// Directory of an evaluation, a training run or a study.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Folder of the run that trained an evaluated model, for the report's view of training. Without --training only
    /// runs inside DIR are shown.
    #[arg(long, value_name = "RUN")]
    #[serde(default)]
    training: Vec<PathBuf>,
    /// Serve the report at http://127.0.0.1:PORT and update the page while the run goes on.
    #[arg(long)]
    #[serde(default)]
    serve: bool,
    /// Port of --serve; 0 takes a free port.
    #[arg(long, default_value_t = 7272, add = at_least(0.0).at_most(65_535.0))]
    port: u16,
}

pub(in crate::cli) fn run(options: &ReportOptions, stop: &Stop) -> Result<()> {
    let Some(directory) = &options.directory else { bail!("name the DIR of a run") };
    if !directory.is_dir() {
        bail!("{}: no such directory", directory.display());
    }
    if let Some(study) = study_of(directory) {
        bail!(
            "{} is a part of a study: its report is `tealight report {}`, its completions are `tealight show {}`",
            directory.display(),
            as_argument(study),
            as_argument(directory)
        );
    }
    if options.serve && !options.training.is_empty() {
        bail!(
            "--training has no effect with --serve, which shows what is inside {}",
            directory.display()
        );
    }
    if options.serve {
        return serve(directory, options.port, stop);
    }
    write(directory, &options.training)?;
    tracing::info!("{}", directory.join("report.html").display());
    Ok(())
}

/// The study of a folder that has the samples of one of its models, and no results or metrics of its own.
fn study_of(directory: &Path) -> Option<&Path> {
    let is_there = |name: &str| directory.join(name).exists();
    let mut entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_sampled = entries.any(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(STUDY_SAMPLES))
    });
    let has_own_report = is_there("results.json") || is_there("metrics.jsonl");
    directory
        .parent()
        .filter(|study| is_sampled && !has_own_report && study.join("config.toml").exists())
}

/// Writes the report of a study, an evaluation or a training run again, by what its folder holds.
fn write(directory: &Path, trained: &[PathBuf]) -> Result<()> {
    let path = directory.join("results.json");
    let refuse_training = |what: &str| match trained {
        [] => Ok(()),
        _ => bail!("--training is for evaluations: {} is {what}", directory.display()),
    };
    if !path.exists() && directory.join("metrics.jsonl").is_file() {
        refuse_training("a training run")?;
        return report::write_training(directory);
    }
    /// The fields that tell a study, and a study on several tasks, from an evaluation.
    #[derive(Default, Deserialize)]
    struct Kind {
        objectives: Option<IgnoredAny>,
        tasks: Option<IgnoredAny>,
    }
    let kind: Kind = match json_file::read_own(directory, &path, MAX_RESULTS) {
        Err(JsonFileError::Json(_)) => Kind::default(),
        kind => kind.with_context(|| format!("{}: cannot be read", path.display()))?,
    };
    if kind.tasks.is_some() || kind.objectives.is_some() {
        refuse_training("a study, which has its runs")?;
    }
    if kind.tasks.is_some() {
        let all: TasksStudy = json_file::read_own(directory, &path, MAX_RESULTS)
            .with_context(|| format!("{}: not the results of a study", path.display()))?;
        return report::write_tasks(&all, directory);
    }
    if kind.objectives.is_some() {
        return report::write_study(&Study::load(directory)?, directory);
    }
    let results = Results::load(directory)?;
    report::write(
        &[(directory, &results)],
        std::slice::from_ref(&results.model),
        None,
        trained,
        directory,
    )
}

/// The state of the server: a directory and its results so far.
struct ServerState {
    directory: PathBuf,
    live: Mutex<Live>,
}

fn serve(directory: &Path, port: u16, stop: &Stop) -> Result<()> {
    let shown = Arc::new(ServerState {
        directory: directory.to_owned(),
        live: Mutex::new(Live::new(directory)),
    });
    let page = report::live_page()?;
    let router = Router::new()
        .route("/", get(|| async { Html(page) }))
        .route("/live", get(live))
        .route("/step/{index}", get(step))
        .route("/report.html", get(|state| file(state, Wild("report.html".into()))))
        .route("/report-data/{name}", get(data))
        .with_state(shown)
        .layer(middleware::from_fn(this_host_alone));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| {
            format!("port {port} of 127.0.0.1 cannot be had; choose another with --port")
        })?;
        let address = listener.local_addr()?;
        // On standard output, so that a script can read it.
        print(format_args!("http://{address}"))?;
        tracing::info!("Ctrl-C ends it");
        let stopped = async {
            while stop.check().is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        // Browsers keep connections open; they are not waited for.
        tokio::select! {
            served = axum::serve(listener, router) => served.context("the server failed"),
            () = stopped => stop.check(),
        }
    })
}

/// Refuses who asks by another name than this machine's own: a page elsewhere could give its name this address.
async fn this_host_alone(request: Request, next: Next) -> Response {
    match asks_this_machine(request.headers()) {
        true => next.run(request).await,
        false => (StatusCode::MISDIRECTED_REQUEST, "ask http://127.0.0.1").into_response(),
    }
}

async fn live(State(shown): State<Arc<ServerState>>) -> Response {
    match shown.live.lock().unwrap_or_else(PoisonError::into_inner).look() {
        Ok(page) => json(page),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}

/// The completions of a training step, by its position among those that `/live` listed.
async fn step(State(shown): State<Arc<ServerState>>, Wild(index): Wild<usize>) -> Response {
    match shown.live.lock().unwrap_or_else(PoisonError::into_inner).step(index) {
        Ok(rows) => json(rows.to_string()),
        Err(error) => (StatusCode::NOT_FOUND, format!("{error:#}")).into_response(),
    }
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn data(state: State<Arc<ServerState>>, Wild(name): Wild<String>) -> Response {
    file(state, Wild(format!("report-data/{name}"))).await
}

/// A file that the report consists of; the router lets no other name through.
async fn file(State(shown): State<Arc<ServerState>>, Wild(name): Wild<String>) -> Response {
    let Ok(path) = names::inside(&shown.directory, &name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kind = if name.ends_with(".js") { "text/javascript" } else { "text/html; charset=utf-8" };
    // A link may lead to any file of the user's, and a pipe has no end.
    let is_own = path.symlink_metadata().is_ok_and(|kind| kind.is_file())
        && path.parent().is_some_and(|folder| {
            folder.symlink_metadata().is_ok_and(|kind| kind.is_dir()) || folder == shown.directory
        });
    if !is_own {
        return (StatusCode::NOT_FOUND, "not written yet").into_response();
    }
    match regular::open_own(&shown.directory, &path) {
        Ok(file) => {
            let body = Body::from_stream(stream::iter(Parts(file)));
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Err(_) => (StatusCode::NOT_FOUND, "not written yet").into_response(),
    }
}

/// A file part by part: however large it is, one part is in memory.
struct Parts(File);

impl Iterator for Parts {
    type Item = std::io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        const PART: u64 = 1 << 20;
        let mut bytes = Vec::new();
        match (&self.0).take(PART).read_to_end(&mut bytes) {
            Ok(0) => None,
            Ok(_) => Some(Ok(bytes)),
            Err(error) => Some(Err(error)),
        }
    }
}
