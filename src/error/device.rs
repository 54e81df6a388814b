//! Errors of accelerators: refusals and failures.

/// A failure of a device, or of an operation on it. Error codes are codes of the device's interface.
///
/// ```
/// use thalweg::error::DeviceError;
/// let lost = DeviceError::Lost { device: "GPU 0".to_owned(), what: "it fell off the bus".to_owned() };
/// assert!(lost.is_loss());
/// assert_eq!(lost.to_string(), "GPU 0 was lost: it fell off the bus");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A task wrote outside of a data object's memory. Only builds with debug assertions detect this, because only they
    /// put guard zones around memory.
    #[error(
        "the body wrote outside of {data} on {device}: {bytes} bytes {side} its memory have changed; try checking the body's \
         unsafe code, or the indices of its kernels"
    )]
    Overrun {
        /// The device.
        device: String,
        /// The data object's name.
        data: String,
        /// The number of bytes of the guard zone that have changed.
        bytes: usize,
        /// The guard zone in which they are: before or after the memory.
        side: &'static str,
    },
    /// The device has too little memory left, although everything idle was evicted.
    #[error(
        "cannot allocate {needed_bytes} bytes on {device}: {in_use_bytes} bytes are in use there by tasks, and nothing idle \
         is left to make room ({api} error {code}); try smaller regions"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// The size that was requested.
        needed_bytes: u64,
        /// The memory that tasks on the device use or have reserved, including this task.
        in_use_bytes: u64,
        /// The interface.
        api: &'static str,
        /// The error code of the interface.
        code: i32,
    },
    /// The bytes that were read are not the ones that were written.
    #[error(
        "{device}: a block of {bytes} bytes has changed since it was written, its checksum differs; try another disk"
    )]
    Corrupted {
        /// The device's name.
        device: String,
        /// The size of the block.
        bytes: usize,
    },
    /// A program does not compile.
    #[error("cannot compile {program} for {device}:\n{log}")]
    Compilation {
        /// The program's name.
        program: String,
        /// The device's name.
        device: String,
        /// The compiler's output. Line numbers refer to the program's own lines.
        log: String,
    },
    /// There is no compiler for the device, or the compiler does not know the device's architecture.
    #[error("cannot compile {program} for {device}: {why}")]
    NoCompiler {
        /// The program's name.
        program: String,
        /// The device's name.
        device: String,
        /// The problem (what is missing, or what was refused), and what to try.
        why: String,
    },
    /// The number of threads exceeds the limit of the device.
    #[error(
        "cannot launch kernel `{kernel}` with {threads:?} threads: one dimension is too large; try several launches"
    )]
    Geometry {
        /// The kernel's name.
        kernel: String,
        /// The requested threads, in three dimensions.
        threads: [usize; 3],
    },
    /// A kernel that is known only at run time was given other arguments than its head declares.
    #[error("cannot launch kernel `{kernel}`: {problem}; try the arguments that its head declares")]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// The difference.
        problem: String,
    },
    /// The device lacks something that a launch requests.
    #[error("cannot launch kernel `{kernel}` on {device}: {why}")]
    Unsupported {
        /// The kernel's name.
        kernel: String,
        /// The device's name.
        device: String,
        /// The missing ability, and an alternative to try.
        why: String,
    },
    /// With the given arguments, a kernel may touch elements outside of a region.
    #[error(
        "cannot launch kernel `{kernel}`: its head declares that with these arguments it may touch {touched} elements of \
         `{parameter}`, but the region given for that has {region}; try counts and strides made of the view's `len`, \
         `extents` and `strides`"
    )]
    Bounds {
        /// The kernel's name.
        kernel: String,
        /// The name of the buffer in the kernel's text.
        parameter: String,
        /// The box that the kernel's head declares: its extents, with strides if elements are not adjacent.
        touched: String,
        /// The region, described in the same way.
        region: String,
    },
    /// A task across devices has no such part.
    #[error("cannot enqueue on the device of part {part}: the task has {parts} parts; try one of those")]
    NoPart {
        /// The requested part.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
    /// The device of a part has a different interface from the one that the body calls.
    #[error(
        "cannot enqueue on the device of part {part}: its interface is {interface}, which this body does not call; try `gpu`"
    )]
    OtherInterface {
        /// The requested part.
        part: usize,
        /// The kind of units with the device's interface.
        interface: &'static str,
    },
    /// An argument is in the memory of a device other than the one that would run the kernel.
    #[error("cannot launch kernel `{kernel}`: an argument is in the memory of another part's device, {problem}")]
    Elsewhere {
        /// The kernel's name.
        kernel: String,
        /// The reason, and what to try.
        problem: &'static str,
    },
    /// A loop over teams and threads would exceed a limit of a device.
    #[error("cannot launch the loop `{kernel}`: it requests {requested} {what}, but the limit is {limit}; try less")]
    Limit {
        /// The function that the loop is in.
        kernel: String,
        /// The limited resource.
        what: String,
        /// The limit.
        limit: u64,
        /// The amount that the loop would need.
        requested: u64,
    },
    /// Iterations that would run at the same time touch the same element, and one of them writes it.
    #[error(
        "cannot launch the loop `{kernel}`: with these numbers different iterations touch the same element of `{array}`; \
         try a range in which each touches a separate element, or `shared({array})` if any order will do"
    )]
    Conflict {
        /// The function that the loop is in.
        kernel: String,
        /// The array.
        array: String,
    },
    /// A call failed; the device continues.
    #[error("{device}: {call} failed ({api} error {code}{})", described(what))]
    Call {
        /// The device's name.
        device: String,
        /// The name of the failed call.
        call: &'static str,
        /// The interface.
        api: &'static str,
        /// The error code of the interface.
        code: i32,
        /// A description of the code, if the interface has one.
        what: String,
    },
    /// The device cannot be used any more.
    #[error("{device} was lost: {what}")]
    Lost {
        /// The device's name.
        device: String,
        /// The reason.
        what: String,
    },
}

fn described(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(": {what}") }
}

impl DeviceError {
    /// Returns whether the device itself is lost.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns how many bytes were requested, if the error is an allocation failure.
    pub(crate) fn refused_bytes(&self) -> Option<u64> {
        if let Self::OutOfMemory { needed_bytes, .. } = self { Some(*needed_bytes) } else { None }
    }

    /// Adds the amount of memory in use to an allocation failure, because devices do not know this amount.
    pub(crate) fn with_in_use(mut self, bytes: u64) -> Self {
        if let Self::OutOfMemory { in_use_bytes, .. } = &mut self {
            *in_use_bytes = bytes;
        }
        self
    }
}
