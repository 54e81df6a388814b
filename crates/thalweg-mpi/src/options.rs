//! Settings of a cluster, and its start.

use crate::cluster::Cluster;
use crate::core::Core;
use crate::error::ClusterError;
use crate::link::{Link, Sizes};
use crate::shared::Shared;
use crate::transport::Transport;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use thalweg::Builder;

/// Settings of a cluster. [`Cluster::init`] uses the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    eager: usize,
    budget: usize,
    checks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { eager: 4 << 10, budget: 256 << 10, checks: cfg!(debug_assertions) }
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

    fn start<T: Transport + 'static>(
        self,
        open: impl FnOnce() -> Result<T, String> + Send + 'static,
        builder: Builder,
    ) -> Result<Cluster, ClusterError> {
        let runtime = builder.build().map_err(|error| ClusterError::Build(Arc::new(error)))?;
        let (shared, sizes) = (Arc::new(Shared::default()), Sizes { eager: self.eager, budget: self.budget });
        let (opened, result) = sync_channel(1);
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("thalweg-mpi".to_owned()).spawn(move || {
            let transport = match open() {
                Ok(transport) => transport,
                Err(problem) => return drop(opened.send(Err(problem))),
            };
            _ = opened.send(Ok((transport.rank() as u32, transport.size() as u32)));
            Link::new(transport, of_thread, sizes).run();
        });
        let thread = thread.map_err(|error| ClusterError::Transport(error.to_string()))?;
        let ranks = result.recv().unwrap_or_else(|_| Err("the communication thread has panicked".to_owned()));
        let ranks = ranks.map_err(ClusterError::Transport)?;
        Ok(Cluster { core: Rc::new(Core::new(runtime, thread, shared, ranks, self.checks)) })
    }
}
