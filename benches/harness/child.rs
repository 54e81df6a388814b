//! A contender as a child process: how it is started, its time limit, and its answer.
//!
//! A contender reads its problem from its arguments and prints one JSON value. Output goes to temporary files instead
//! of pipes, so a talkative child never blocks on a full pipe. The parent sleeps while a child runs, so it uses no time
//! on the cores being measured.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde::de::DeserializeOwned;
use thiserror::Error;
use wait_timeout::ChildExt;

/// Time limit of a child. The slowest contender needs half a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A program, its environment, and the arguments that precede those of the problem.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) leading: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Launch {
    /// Returns a launch of the running bench itself, as the contender `name`.
    ///
    /// # Errors
    /// If the bench cannot find its own executable. The error is a one-line reason.
    pub(crate) fn this_bench(name: &str) -> Result<Self, String> {
        Self::this_bench_as("contender", name).map_err(|error| format!("the bench cannot find itself: {error}"))
    }

    /// Returns a launch of the running bench itself, with the subcommand `role` on `name`.
    pub(crate) fn this_bench_as(role: &str, name: &str) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            leading: vec![role.to_owned(), name.to_owned()],
            environment: Vec::new(),
        })
    }
}

/// A runtime to measure, or the reason why it cannot run on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The variants to run, such as one per scheduler, of which only the best counts; or the reason why there is none.
    pub(crate) launches: Result<Vec<Launch>, String>,
}

impl Contender {
    /// Returns a contender written in Rust, which runs in a new process of this bench.
    pub(crate) fn this_bench(name: &'static str) -> Self {
        Self { name, launches: Launch::this_bench(name).map(|launch| vec![launch]) }
    }
}

/// Reason why a child did not return an answer.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("no answer within {} s", .0.as_secs())]
    Slow(Duration),
    #[error("{status}: {message}")]
    Exit { status: ExitStatus, message: String },
    #[error("answered {text:?}, which is not the JSON expected: {source}")]
    Answer { text: String, source: serde_json::Error },
    #[error("{0}")]
    Wrong(String),
}

/// Runs `launch` with `arguments` and returns its output.
fn output(launch: &Launch, arguments: &[String], workers: usize, limit: Duration) -> Result<String, Failure> {
    let start = |source| Failure::Start { program: launch.program.clone(), source };
    let mut standard = tempfile::tempfile().map_err(start)?;
    let mut errors = tempfile::tempfile().map_err(start)?;
    let mut command = Command::new(&launch.program);
    // Settings in the caller's environment would affect one contender but not the others, so they are removed.
    let foreign = |key: &str| ["OMP_", "GOMP_", "KMP_", "STARPU_", "HWLOC_"].iter().any(|start| key.starts_with(start));
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_str().is_some_and(foreign)) {
        command.env_remove(key);
    }
    let mut child = command
        .args(&launch.leading)
        .args(arguments)
        .env("OMP_NUM_THREADS", workers.to_string())
        .env("OMP_DYNAMIC", "false")
        .env("STARPU_NCPU", workers.to_string())
        .envs(launch.environment.iter().map(|(key, value)| (key, value)))
        .stdout(standard.try_clone().map_err(start)?)
        .stderr(errors.try_clone().map_err(start)?)
        .spawn()
        .map_err(start)?;
    let Some(status) = child.wait_timeout(limit).map_err(start)? else {
        child.kill().and_then(|()| child.wait()).map_err(start)?;
        return Err(Failure::Slow(limit));
    };
    if !status.success() {
        let text = contents(&mut errors).map_err(start)?;
        let message = text.lines().last().unwrap_or("no message").to_owned();
        return Err(Failure::Exit { status, message });
    }
    contents(&mut standard).map_err(start)
}

fn contents(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs `launch` with `arguments` on `workers` workers and parses the JSON it prints.
pub(crate) fn answer<T: DeserializeOwned>(launch: &Launch, arguments: &[String], workers: usize) -> Result<T, Failure> {
    answer_within(launch, arguments, workers, LIMIT)
}

/// Does the same as [`answer`], with another time limit.
pub(crate) fn answer_within<T: DeserializeOwned>(
    launch: &Launch,
    arguments: &[String],
    workers: usize,
    limit: Duration,
) -> Result<T, Failure> {
    let text = output(launch, arguments, workers, limit)?;
    serde_json::from_str(&text).map_err(|source| Failure::Answer { text, source })
}

/// Checks that `launch` prints exactly `expected`, which shows that it solves the same problem as the bench.
pub(crate) fn agree(launch: &Launch, arguments: &[String], expected: &str) -> Result<(), Failure> {
    let text = output(launch, arguments, 1, LIMIT)?;
    if text == expected {
        return Ok(());
    }
    let differing = text.lines().zip(expected.lines()).find(|(theirs, ours)| theirs != ours);
    Err(Failure::Wrong(match differing {
        Some((theirs, ours)) => format!("has another problem: {theirs:?} instead of {ours:?}"),
        None => "has a problem of another length".to_owned(),
    }))
}
