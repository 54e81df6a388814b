//! The choice of replicas to evict, as the user sets it.

/// Which data leave a memory that is short: of a device, or of the host if it is limited.
///
/// Data in use never leave. See [`Builder::eviction`](crate::Builder::eviction).
///
/// ```
/// use thalweg::{Eviction, Runtime};
/// let builder = Runtime::builder().compute_units("1:EMU:1").device_memory_bytes(1 << 20);
/// let rt = builder.eviction(Eviction::FurthestUse).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// Data whose last use is longest ago. This is the default.
    #[default]
    LeastRecent,
    /// Data whose next use is furthest in the future (Belady 1966), as far as tasks are submitted: first data that no
    /// submitted task uses, then data of the tasks that were submitted last.
    ///
    /// It moves fewer bytes if the program uses more data in turn than fit, as in a matrix product. The look into the
    /// future ends where submission waits ([`Builder::max_pending_tasks`](crate::Builder::max_pending_tasks)). Each
    /// eviction takes time proportional to the number of replicas in that memory and of submitted tasks that use each
    /// of them, so tasks that use a megabyte or more are best.
    ///
    /// It is worse than the last use if the scheduler runs tasks in an order far from that of their submission, so
    /// compare the bytes moved ([`Statistics::links`](crate::Statistics::links)) for your program.
    FurthestUse,
}
