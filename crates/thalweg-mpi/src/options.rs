//! Settings of a cluster, and its start.

use crate::cluster::Cluster;
use crate::core::Core;
use crate::error::{Broken, ClusterError};
use crate::link::{Link, Sizes, serve};
use crate::shared::{Command, Shared};
use crate::transport::Transport;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use thalweg::{Builder, Runtime};

/// Settings of a cluster. [`Cluster::init`] uses the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    eager: usize,
    budget: usize,
    checks: bool,
    trace: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { eager: 4 << 10, budget: 256 << 10, checks: cfg!(debug_assertions), trace: None }
    }
}

impl Options {
    /// The defaults: regions of up to 4 KiB are sent inside packets, 256 KiB of them are kept for each rank until tasks
    /// use them, and programs are compared in builds with debug assertions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest region, in bytes, that is sent inside a packet.
    #[must_use]
    pub fn eager_bytes(mut self, bytes: usize) -> Self {
        self.eager = bytes;
        self
    }

    /// Sets how many bytes of such regions each rank keeps for each other rank. Must be the same on every rank.
    #[must_use]
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets whether ranks compare the programs that they submit. Must be the same on every rank.
    #[must_use]
    pub fn compare_programs(mut self, yes: bool) -> Self {
        self.checks = yes;
        self
    }

    /// Records the run: rank 1 writes its trace to `run.1.thw` if the file is `run.thw`, and the offset of its clock
    /// from that of rank 0 to `run.1.thw.clock`. `thalweg trace run.*.thw --html run.html` shows all ranks on one
    /// timeline.
    ///
    /// Without this call, the environment variable `THALWEG_TRACE` names the file. Either takes precedence over the
    /// trace of the [`Builder`], which would be the same file for all ranks.
    #[must_use]
    pub fn trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.trace = Some(file.into());
        self
    }

    /// Starts this rank over MPI, as [`Cluster::init`] does.
    ///
    /// # Errors
    /// As for [`Cluster::init`].
    #[cfg(feature = "mpi")]
    pub fn init(self, builder: Builder) -> Result<Cluster, ClusterError> {
        self.start(crate::transport::Mpi::open, builder)
    }

    /// Starts this rank over another transport.
    ///
    /// # Errors
    /// The runtime cannot be built.
    pub fn over(self, transport: impl Transport + Send + 'static, builder: Builder) -> Result<Cluster, ClusterError> {
        self.start(|| Ok(transport), builder)
    }

    fn start<T: Transport + Send + 'static>(
        self,
        open: impl FnOnce() -> Result<T, String> + Send + 'static,
        builder: Builder,
    ) -> Result<Cluster, ClusterError> {
        let (shared, sizes) = (Arc::new(Shared::default()), Sizes { eager: self.eager, budget: self.budget });
        let (opened, result) = sync_channel(1);
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("thalweg-mpi".to_owned()).spawn(move || {
            let transport = match open() {
                Ok(transport) => transport,
                Err(problem) => return drop(opened.send(Err(problem))),
            };
            _ = opened.send(Ok((transport.rank() as u32, transport.size() as u32)));
            let link = Link::new(transport, of_thread.clone(), sizes);
            serve(&of_thread, Box::new(link));
        });
        let thread = thread.map_err(|error| ClusterError::Transport(error.to_string()))?;
        let ranks = result.recv().unwrap_or_else(|_| Err("the communication thread has panicked".to_owned()));
        let ranks = ranks.map_err(ClusterError::Transport)?;
        let variable = || std::env::var_os("THALWEG_TRACE").filter(|file| !file.is_empty());
        let trace = self.trace.or_else(|| variable().map(PathBuf::from));
        let trace = trace.map(|file| of_rank(&file, ranks.0));
        let builder = trace.iter().fold(builder, |builder, file| builder.trace(file));
        let polled = shared.clone();
        let runtime = match builder.while_idle(move || polled.advance(true)).build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let reason = format!("its runtime cannot be built: {error}");
                shared.push(Command::Break(Broken::Lost { rank: ranks.0 as usize, reason }));
                shared.push(Command::Close);
                _ = thread.join();
                return Err(ClusterError::Build(Arc::new(error)));
            }
        };
        shared.push(clock(&runtime, trace));
        Ok(Cluster { core: Rc::new(Core::new(runtime, thread, shared, ranks, self.checks)) })
    }
}

/// Returns the command that gives this rank its clock, with the file of offsets if the rank is traced. A virtual clock
/// begins at 0 on all ranks, and is not measured.
fn clock(runtime: &Runtime, trace: Option<PathBuf>) -> Command {
    let Some(clock) = runtime.trace_clock() else {
        let began = Instant::now();
        return Command::Clock(Box::new(move || began.elapsed().as_nanos() as u64), None);
    };
    let offsets = trace.map(|mut file| {
        file.as_mut_os_string().push(".clock");
        file
    });
    Command::Clock(Box::new(clock), offsets)
}

/// Returns the file of a rank: `run.1.thw` for `run.thw`.
fn of_rank(file: &Path, rank: u32) -> PathBuf {
    match file.extension() {
        Some(extension) => file.with_extension(format!("{rank}.{}", extension.to_string_lossy())),
        None => file.with_extension(rank.to_string()),
    }
}
